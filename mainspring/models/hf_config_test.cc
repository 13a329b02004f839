#include "mainspring/models/hf_config.h"

#include <gtest/gtest.h>

#include "mainspring/io/fuzz_util.h"
#include "mainspring/io/json.h"
#include "mainspring/models/model_files_for_test.h"

namespace mainspring {
namespace {

/// A Llama config.json as transformers 4 writes it, with `more` fields (starting with a comma)
/// added.
std::string llama(const std::string& more = "") {
  return R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "intermediate_size": 16,
    "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 32, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-05, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2)" +
         more + "}";
}

std::string qwen(const std::string& more = "", int version = 2) {
  std::string text = llama(", \"num_key_value_heads\": 1" + more);
  const std::string name = version == 2 ? "Qwen2" : "Qwen3";
  text.replace(text.find("Llama"), 5, name);
  text.replace(text.find("llama"), 5, version == 2 ? "qwen2" : "qwen3");
  return text;
}

std::string mistral(const std::string& more = "") {
  std::string text = llama(", \"num_key_value_heads\": 1" + more);
  text.replace(text.find("Llama"), 5, "Mistral");
  text.replace(text.find("llama"), 5, "mistral");
  return text;
}

Status error_of(const std::string& text) { return parse_hf_config(text, "config.json").status(); }

TEST(HfConfig, FillsInWhatTheClassAssumes) {
  const ModelConfig config = parse_hf_config(llama(), "config.json").value();
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_width, 4);
  EXPECT_EQ(config.rope_theta, 10000.0f);
  EXPECT_EQ(config.rms_eps, 1e-5f);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(config.eos_tokens, (std::vector<int32_t>{2}));
  EXPECT_EQ(config.pad_token, -1);
}

TEST(HfConfig, ACapThatTheClassDoesNotComputeIsOfATypeOfOurOwn) {
  ModelConfig config = parse_hf_config(llama(), "c").value();
  config.final_softcap = 15.0f;
  const std::string text = json_text(make_hf_config(config, "float32").value());
  EXPECT_NE(text.find("\"mainspring_llama\""), std::string::npos) << text;
  EXPECT_EQ(text.find("\"LlamaForCausalLM\""), std::string::npos) << text;
  EXPECT_EQ(parse_hf_config(text, "c").value(), config);
  // The family's own class with a cap is a mistake, our own without one too.
  EXPECT_NE(error_of(llama(", \"final_logit_softcapping\": 15")).message().find("only absent"),
            std::string::npos);
  std::string without = llama();
  without.replace(without.find("\"llama\""), 7, "\"mainspring_llama\"");
  EXPECT_NE(error_of(without).message().find("final_logit_softcapping"), std::string::npos);
  without.replace(without.find("mainspring_llama"), 16, "mainspring_lama!");
  EXPECT_NE(error_of(without).message().find("'mainspring_lama!' is not supported"),
            std::string::npos);
}

TEST(HfConfig, ReadsBothSpellingsOfRopeAlike) {
  const std::string scaling = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                 "original_max_position_embeddings": 64)";
  const ModelConfig four =
      parse_hf_config(
          llama(R"(, "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", )" + scaling +
                "}"),
          "c")
          .value();
  const ModelConfig five =
      parse_hf_config(
          llama(R"(, "rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", )" +
                scaling + "}"),
          "c")
          .value();
  EXPECT_EQ(four, five);
  EXPECT_EQ(four.rope_theta, 500000.0f);
  EXPECT_EQ(four.rope_scaling.kind, RopeScaling::Kind::kLlama3);
  EXPECT_EQ(four.rope_scaling.original_context, 64);
  const ModelConfig old =
      parse_hf_config(llama(R"(, "rope_scaling": {"type": "linear", "factor": 2.0})"), "c").value();
  EXPECT_EQ(old.rope_scaling.kind, RopeScaling::Kind::kLinear);
  EXPECT_EQ(old.rope_scaling.factor, 2.0f);
  const ModelConfig plain = parse_hf_config(llama(R"(, "rope_scaling": null)"), "c").value();
  EXPECT_EQ(plain.rope_scaling.kind, RopeScaling::Kind::kNone);
}

TEST(HfConfig, KnowsWhichClassHasWhichBias) {
  const ModelConfig with_bias =
      parse_hf_config(llama(R"(, "attention_bias": true, "mlp_bias": true)"), "config.json")
          .value();
  EXPECT_TRUE(with_bias.attention_bias && with_bias.output_bias && with_bias.mlp_bias);
  const ModelConfig qwen2 = parse_hf_config(qwen(), "config.json").value();
  EXPECT_TRUE(qwen2.attention_bias);
  EXPECT_FALSE(qwen2.output_bias || qwen2.qk_norm);
  const ModelConfig qwen3 = parse_hf_config(qwen("", 3), "config.json").value();
  EXPECT_FALSE(qwen3.attention_bias);
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_EQ(qwen3.head_width, 128);  // Qwen3's default, not d / h
}

TEST(HfConfig, RefusesAnUnknownArchitectureWithTheSupportedOnes) {
  std::string text = llama();
  text.replace(text.find("Llama"), 5, "Lama");
  const Status status = error_of(text);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_EQ(
      status.message(),
      "config.json: architectures: architecture 'LamaForCausalLM' is not supported; supported are "
      "Gemma2ForCausalLM, Gemma3ForCausalLM, GPT2LMHeadModel, LlamaForCausalLM, "
      "MistralForCausalLM, "
      "Phi3ForCausalLM, Qwen2ForCausalLM, "
      "Qwen3ForCausalLM (nearest: LlamaForCausalLM)");
}

TEST(HfConfig, RefusesAModelTypeOfAnotherArchitecture) {
  std::string text = llama();
  text.replace(text.find("\"llama\""), 7, "\"gpt2\"");
  EXPECT_EQ(error_of(text).message(),
            "config.json: model_type: expected \"llama\" with LlamaForCausalLM, got \"gpt2\"");
}

TEST(HfConfig, RefusesFieldsThatWouldChangeResults) {
  const char* fields[] = {
      R"("hidden_act": "gelu")",
      R"("quantization_config": {"quant_method": "gptq"})",
      R"("attention_dropout": 0.1)",
      R"("partial_rotary_factor": 0.5)",
      R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0})",
      R"("rope_scaling": {"type": "dynamic", "factor": 4.0})",
      R"("rope_parameters": {"full_attention": {"rope_type": "default"}})",
      R"("rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5})",
      R"("sliding_window": 128)",
      R"("layer_types": ["full_attention", "sliding_attention"])",
      R"("is_causal": false)",
      R"("rope_interleaved": true)",
  };
  for (const std::string field : fields) {
    const Status status = error_of(llama(", " + field));
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << field << ": " << status.message();
    EXPECT_EQ(status.message().substr(0, 13), "config.json: ");
  }
}

TEST(HfConfig, AcceptsWhatChangesNothing) {
  EXPECT_TRUE(
      error_of(
          llama(R"(, "hidden_act": "silu", "attention_dropout": 0.0, "quantization_config": null,
      "pretraining_tp": 1, "use_cache": true, "layer_types": ["full_attention"], "my_note": "x")"))
          .ok());
  EXPECT_TRUE(
      error_of(
          qwen(R"(, "use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 1)"))
          .ok());
  EXPECT_TRUE(
      error_of(
          qwen(R"(, "use_sliding_window": true, "sliding_window": 4096, "max_window_layers": 2)"))
          .ok());
}

TEST(HfConfig, ReadsTheWindowOfEveryLayer) {
  const auto config_of = [](const std::string& more) {
    return parse_hf_config(mistral(more), "c").value();
  };
  EXPECT_EQ(config_of("").window, 4096);  // the class's default
  EXPECT_EQ(config_of(R"(, "sliding_window": null)").window, 0);
  EXPECT_EQ(config_of(R"(, "sliding_window": 64)").window, 64);
  EXPECT_TRUE(config_of(R"(, "sliding_window": 64)").windowed_layers.empty());
  EXPECT_EQ(error_of(mistral(R"(, "sliding_window": 0)")).message(),
            "config.json: sliding_window: expected 1 or more, or null, got 0");
  EXPECT_EQ(error_of(mistral(R"(, "layer_types": ["full_attention"])")).message(),
            "config.json: layer_types: 'full_attention' is not supported here, only "
            "sliding_attention");
}

TEST(HfConfig, ReadsWindowsOnSomeLayers) {
  const std::string window = R"(, "use_sliding_window": true, "sliding_window": 64)";
  const ModelConfig by_number =
      parse_hf_config(qwen(window + R"(, "max_window_layers": 1)"), "c").value();
  EXPECT_EQ(layer_window(by_number, 0), 0);
  EXPECT_EQ(layer_window(by_number, 1), 64);
  const ModelConfig by_types =
      parse_hf_config(
          qwen(window + R"(, "layer_types": ["sliding_attention", "full_attention"])", 3), "c")
          .value();
  EXPECT_EQ(layer_window(by_types, 0), 64);
  EXPECT_EQ(layer_window(by_types, 1), 0);
  const ModelConfig all =
      parse_hf_config(qwen(window + R"(, "max_window_layers": 0)"), "c").value();
  EXPECT_EQ(all.window, 64);
  EXPECT_TRUE(all.windowed_layers.empty());
  EXPECT_EQ(error_of(qwen(window + R"(, "layer_types": ["full_attention"])")).message(),
            "config.json: layer_types: expected 2 entries, one per layer, got 1");
}

TEST(HfConfig, ReadsThePartOfAHeadThatTurns) {
  const std::string phi3 = R"({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3",
      "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
      "vocab_size": 6, "max_position_embeddings": 64, "eos_token_id": 2)";
  EXPECT_EQ(parse_hf_config(phi3 + "}", "c").value().rotary_width, 0);
  const ModelConfig beside =
      parse_hf_config(phi3 + R"(, "partial_rotary_factor": 0.75})", "c").value();
  EXPECT_EQ(beside.rotary_width, 6);
  EXPECT_EQ(beside.rms_eps, 1e-5f);
  EXPECT_EQ(parse_hf_config(phi3 + R"(, "rope_parameters": {"rope_type": "default",
                                                "partial_rotary_factor": 0.75}})",
                            "c")
                .value(),
            beside);
  EXPECT_EQ(error_of(phi3 + R"(, "partial_rotary_factor": 0.4})").message(),
            "config.json: partial_rotary_factor: a rotary width of 3 is not supported, only even "
            "ones");
  EXPECT_EQ(
      error_of(phi3 + R"(, "rope_scaling": {"type": "longrope", "short_factor": [1]}})").message(),
      "config.json: rope_scaling.type: 'longrope' is not supported, only default, linear and "
      "llama3");
  EXPECT_EQ(error_of(phi3 + R"(, "resid_pdrop": 0.1})").code(), StatusCode::kUnimplemented);
}

std::string gemma(int version, const std::string& more = "") {
  const std::string number = std::to_string(version);
  return R"({"architectures": ["Gemma)" + number + R"(ForCausalLM"], "model_type": ")" +
         (version == 2 ? "gemma2" : "gemma3_text") + R"(",
      "hidden_size": 16, "num_hidden_layers": 7, "num_attention_heads": 2, "intermediate_size": 8,
      "num_key_value_heads": 1, "vocab_size": 6, "max_position_embeddings": 64, "head_dim": 8)" +
         more + "}";
}

TEST(HfConfig, ReadsGemma2) {
  const ModelConfig config = parse_hf_config(gemma(2), "c").value();
  EXPECT_EQ(config.activation, MlpActivation::kGeluTanh);
  EXPECT_TRUE(config.norm_plus_one && config.sandwich_norms && config.scaled_embeddings);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.attention_softcap, 50.0f);
  EXPECT_EQ(config.final_softcap, 30.0f);
  EXPECT_EQ(config.query_scalar, 256.0f);
  EXPECT_EQ(config.window, 4096);
  EXPECT_EQ(config.windowed_layers,
            (std::vector<bool>{true, false, true, false, true, false, true}));
  const ModelConfig other =
      parse_hf_config(gemma(2, R"(, "attn_logit_softcapping": null, "query_pre_attn_scalar": 144,
                                   "final_logit_softcapping": 10.0)"),
                      "c")
          .value();
  EXPECT_EQ(other.attention_softcap, 0.0f);
  EXPECT_EQ(other.final_softcap, 10.0f);
  EXPECT_EQ(other.query_scalar, 144.0f);
}

TEST(HfConfig, ReadsGemma3InBothSpellings) {
  const ModelConfig four =
      parse_hf_config(gemma(3, R"(, "rope_theta": 500000.0, "rope_local_base_freq": 20000.0,
          "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window": 512,
          "sliding_window_pattern": 3, "attn_logit_softcapping": null)"),
                      "c")
          .value();
  EXPECT_TRUE(four.qk_norm);
  EXPECT_EQ(four.local_rope_theta, 20000.0f);
  EXPECT_EQ(four.rope_scaling.factor, 8.0f);
  EXPECT_EQ(four.windowed_layers, (std::vector<bool>{true, true, false, true, true, false, true}));
  const ModelConfig five = parse_hf_config(gemma(3, R"(, "rope_parameters": {
          "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500000.0},
          "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0}},
          "sliding_window": 512, "layer_types": ["sliding_attention", "sliding_attention",
          "full_attention", "sliding_attention", "sliding_attention", "full_attention",
          "sliding_attention"])"),
                                           "c")
                               .value();
  EXPECT_EQ(four, five);
  const ModelConfig plain = parse_hf_config(gemma(3), "c").value();
  EXPECT_EQ(plain.rope_theta, 1000000.0f);
  EXPECT_EQ(plain.local_rope_theta, 10000.0f);
  EXPECT_EQ(plain.final_softcap, 0.0f);
}

TEST(HfConfig, RefusesOfGemmaWhatItDoesNotHandle) {
  for (const std::string field :
       {R"("attn_logit_softcapping": 50.0)", R"("hidden_activation": "gelu")",
        R"("use_bidirectional_attention": true)",
        R"("rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0}})"}) {
    const Status status = error_of(gemma(3, ", " + field));
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << field << ": " << status.message();
  }
  EXPECT_EQ(error_of(llama(R"(, "final_logit_softcapping": 30.0)")).code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(error_of(gemma(2, R"(, "final_logit_softcapping": -1)")).message(),
            "config.json: final_logit_softcapping: expected a positive number or null");
}

std::string gpt2(const std::string& more = "") {
  return R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 8, "n_layer": 2,
      "n_head": 2, "n_positions": 32, "vocab_size": 6, "resid_pdrop": 0.1, "n_inner": null)" +
         more + "}";
}

TEST(HfConfig, ReadsGpt2) {
  const ModelConfig config = parse_hf_config(gpt2(), "c").value();
  EXPECT_TRUE(config.layer_norm && config.learned_positions && config.tied_embeddings);
  EXPECT_TRUE(config.attention_bias && config.output_bias && config.mlp_bias);
  EXPECT_FALSE(config.gated_mlp);
  EXPECT_EQ(config.ffn, 32);
  EXPECT_EQ(config.head_width, 4);
  EXPECT_EQ(config.context_length, 32);
  EXPECT_EQ(config.rms_eps, 1e-5f);
  for (const std::string field :
       {R"("activation_function": "relu")", R"("scale_attn_weights": false)",
        R"("scale_attn_by_inverse_layer_idx": true)", R"("add_cross_attention": true)"}) {
    EXPECT_EQ(error_of(gpt2(", " + field)).code(), StatusCode::kUnimplemented) << field;
  }
}

TEST(HfConfig, NamesMissingAndMistypedFields) {
  std::string text = llama();
  text.replace(text.find("\"hidden_size\": 8"), 16, "\"hidden_size\": \"8\"");
  EXPECT_EQ(error_of(text).message(),
            "config.json: hidden_size: expected an integer, got a string");
  text = llama();
  text.replace(text.find("vocab_size"), 10, "vocab_sise");
  EXPECT_EQ(error_of(text).message(), "config.json: vocab_size: is missing, expected an integer");
  EXPECT_EQ(error_of("{").code(), StatusCode::kInvalidArgument);
}

TEST(HfConfig, DamagedTextNeverCrashes) {
  const std::string text =
      llama(R"(, "rope_scaling": {"rope_type": "linear", "factor": 2.0}, "eos_token_id2": [1, 2])");
  const auto parse = [](const std::string& bytes) { (void)parse_hf_config(bytes, "c").ok(); };
  for_each_truncation(text, parse);
  for_each_damage(text, 10'000, parse);
}

TEST(HfConfig, WhatIsWrittenReadsBackTheSame) {
  for (const std::string family :
       {"gemma2", "gemma3", "gpt2", "llama", "mistral", "phi3", "qwen2", "qwen3"}) {
    ModelConfig config = tiny_config(family);
    if (family == "qwen2") {
      config.window = 7;
      config.windowed_layers = {false, true};
    }
    config.tied_embeddings = true;
    config.eos_tokens = {2, 3};
    if (family != "gpt2") config.rope_theta = 123456.7f;
    if (family != "gpt2") {
      config.rope_scaling.kind = RopeScaling::Kind::kLlama3;
      config.rope_scaling.factor = 32.0f;
      config.rope_scaling.original_context = 8192;
    }
    const Json json = make_hf_config(config, "bfloat16").value();
    EXPECT_EQ(parse_hf_config(json_text(json), "c").value(), config);
    EXPECT_EQ(json.at("torch_dtype"), "bfloat16");
  }
}

TEST(HfConfig, CannotSayFactorsOrForeignBiases) {
  ModelConfig config = tiny_config();
  config.rope_scaling.kind = RopeScaling::Kind::kFactors;
  EXPECT_EQ(make_hf_config(config, "float32").status().code(), StatusCode::kUnimplemented);
  config = tiny_config("qwen2");
  config.attention_bias = false;
  EXPECT_EQ(make_hf_config(config, "float32").status().code(), StatusCode::kUnimplemented);
  config = tiny_config("llama");
  config.attention_bias = true;  // Llama's class has q, k, v and o biases together
  EXPECT_EQ(make_hf_config(config, "float32").status().code(), StatusCode::kUnimplemented);
}

TEST(GenerationConfig, ReadsSuggestionsAndWritesThemBack) {
  const GenerationConfig read =
      parse_generation_config(
          R"({"eos_token_id": [2, 5], "do_sample": true, "temperature": 0.6, "top_p": 0.9,
                                  "top_k": 20, "transformers_version": "5"})",
          "g")
          .value();
  EXPECT_EQ(read.eos_tokens, (std::vector<int32_t>{2, 5}));
  EXPECT_EQ(read.temperature, 0.6f);
  EXPECT_EQ(read.top_k, 20);
  EXPECT_FALSE(read.min_p.has_value());
  EXPECT_EQ(
      json_text(make_generation_config(tiny_config(), read)),
      R"({"bos_token_id":1,"eos_token_id":[2,5],"pad_token_id":null,"do_sample":true,"temperature":0.6,)"
      R"("top_k":20,"top_p":0.9})");
  EXPECT_EQ(parse_generation_config(R"({"top_k": -1})", "g").status().message(),
            "g: top_k: expected a count, got -1");
}

}  // namespace
}  // namespace mainspring
