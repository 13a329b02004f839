#include <gtest/gtest.h>

#include "mainspring/io/fuzz_util.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/models/model_files_for_test.h"
#include "mainspring/weights/quantise.h"

namespace mainspring {
namespace {

Status error_of(const std::string& path) { return load_model(path).status(); }

void expect_equal(const TensorSet& got, const TensorSet& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_EQ(got.at(name).shape, tensor.shape) << name;
    EXPECT_EQ(read_f32(got.at(name)), read_f32(tensor)) << name;
  }
}

TEST(LoadModel, NamesAPathThatIsNotThere) {
  EXPECT_EQ(error_of("/no/such/model").code(), StatusCode::kNotFound);
}

// ---- Hugging Face folders
// --------------------------------------------------------------------------------

TEST(LoadHf, GivesTheFoldersTensorsWithoutCopies) {
  const TestDir dir;
  const ModelConfig config = tiny_config();
  const TensorSet weights = tiny_weights(config);
  const auto model = load_model(write_hf_folder(dir, config, weights)).value();
  EXPECT_EQ(model->config, config);
  expect_equal(model->weights, weights);
  EXPECT_EQ(model->weights.begin()->second.owner,
            model->weights.rbegin()->second.owner);  // one mapping
  EXPECT_EQ(model->size_bytes, 4 * model->num_parameters);
}

TEST(LoadHf, ReadsEveryGoldenModel) {
  for (const std::string name :
       {"llama_bf16", "llama_bias", "llama_gqa", "llama_headdim", "llama_rope_linear",
        "llama_rope_llama3", "llama_sharded", "llama_tied", "llama_untied", "qwen2", "qwen3",
        "mistral", "phi3", "qwen2_window", "gemma2", "gemma3", "gpt2"}) {
    const auto model = load_model(golden("tiny/" + name));
    EXPECT_TRUE(model.ok()) << model.status().to_string();
  }
}

TEST(LoadHf, NamesMissingUnexpectedAndMisshapenTensors) {
  const ModelConfig config = tiny_config();
  const auto status_of = [&config](const std::function<void(TensorSet&)>& change) {
    const TestDir dir;
    TensorSet weights = tiny_weights(config);
    change(weights);
    const Status status = error_of(write_hf_folder(dir, config, weights));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message().substr(dir.path().size());
  };
  EXPECT_EQ(status_of([](TensorSet& t) { t.erase("model.norm.weight"); }),
            "/hf: missing tensors: model.norm.weight");
  EXPECT_EQ(status_of([](TensorSet& t) {
              t["model.layers.2.mlp.up_proj.weight"] = t["model.layers.1.mlp.up_proj.weight"];
            }),
            "/hf: tensors that the config does not have: model.layers.2.mlp.up_proj.weight");
  EXPECT_EQ(status_of([](TensorSet& t) {
              t["model.layers.0.self_attn.k_proj.weight"] =
                  t["model.layers.0.self_attn.q_proj.weight"];
            }),
            "/hf: tensor 'model.layers.0.self_attn.k_proj.weight': expected shape [4, 8] by the "
            "config, got [8, 8]");
}

TEST(LoadHf, DropsAStoredHeadThatEqualsTheTiedEmbedding) {
  const TestDir dir;
  ModelConfig config = tiny_config();
  TensorSet weights = tiny_weights(config);
  config.tied_embeddings = true;
  weights["lm_head.weight"] = weights["model.embed_tokens.weight"];
  const auto model = load_model(write_hf_folder(dir, config, weights)).value();
  EXPECT_FALSE(model->weights.contains("lm_head.weight"));
}

TEST(LoadHf, RefusesAStoredHeadThatDiffersFromTheTiedEmbedding) {
  const TestDir dir;
  ModelConfig config = tiny_config();
  const TensorSet weights = tiny_weights(config);
  config.tied_embeddings = true;
  EXPECT_NE(error_of(write_hf_folder(dir, config, weights)).message().find("tie_word_embeddings"),
            std::string::npos);
}

TEST(LoadHf, PassesOverBuffersThatAreRecomputed) {
  const TestDir dir;
  const ModelConfig config = tiny_config();
  TensorSet weights = tiny_weights(config);
  weights["model.layers.0.self_attn.rotary_emb.inv_freq"] =
      make_tensor("", {2}, DType::kF32, {1, 2});
  EXPECT_TRUE(load_model(write_hf_folder(dir, config, weights)).ok());
}

TEST(LoadHf, TakesGpt2sFirstFolders) {
  const TestDir dir;
  const ModelConfig config = tiny_config("gpt2");
  const TensorSet weights = tiny_weights(config);
  TensorSet files;
  for (auto& [name, tensor] : files_of(config, weights))
    files[name.substr(std::string("transformer.").size())] = tensor;
  files["h.0.attn.bias"] = make_tensor("", {1, 1, 2, 2}, DType::kF32, {1, 0, 1, 1});  // a mask
  expect_equal(load_model(write_hf_folder(dir, config, files)).value()->weights, weights);
}

TEST(LoadHf, ReadsTokenizerTemplatesAndGenerationConfig) {
  const TestDir dir;
  const ModelConfig config = tiny_config();
  const std::string folder = write_hf_folder(dir, config, tiny_weights(config));
  dir.write("hf/tokenizer.json", "{}");
  dir.write(
      "hf/tokenizer_config.json",
      R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "unk_token": null,
                "chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]})");
  dir.write("hf/generation_config.json", R"({"eos_token_id": [2, 3], "temperature": 0.5})");
  const auto model = load_model(folder).value();
  EXPECT_EQ(model->tokenizer.tokenizer_json, "{}");
  EXPECT_EQ(model->tokenizer.bos_token, "<s>");
  EXPECT_EQ(model->tokenizer.eos_token, "</s>");
  EXPECT_EQ(model->tokenizer.unk_token, "");
  EXPECT_EQ(model->tokenizer.chat_template, "D");
  EXPECT_EQ(model->tokenizer.named_chat_templates.at("tool_use"), "T");
  EXPECT_EQ(model->generation.eos_tokens, (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(model->generation.temperature, 0.5f);
  dir.write("hf/chat_template.jinja", "J");  // goes before tokenizer_config.json
  dir.write("hf/additional_chat_templates/rag.jinja", "R");
  const auto again = load_model(folder).value();
  EXPECT_EQ(again->tokenizer.chat_template, "J");
  EXPECT_EQ(again->tokenizer.named_chat_templates.at("rag"), "R");
  dir.write("hf/tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_NE(
      error_of(folder).message().find("tokenizer_config.json: chat_template: expected a string"),
      std::string::npos);
}

// ---- GGUF files
// --------------------------------------------------------------------------------------------

class LoadGguf : public testing::Test {
 protected:
  std::string write(const GgufBuilder& builder) const {
    return dir_.write("m.gguf", builder.build());
  }
  Status error_of(const GgufBuilder& builder) const { return load_model(write(builder)).status(); }
  GgufBuilder whole(const ModelConfig& config, const std::vector<std::string>& skip = {}) const {
    GgufBuilder builder = gguf_metadata(config);
    add_gguf_tensors(config, tiny_weights(config), builder, skip);
    return builder;
  }
  TestDir dir_;
};

TEST_F(LoadGguf, GivesTheSameModelAsTheHfFolder) {
  for (const std::string family : {"llama", "qwen2", "qwen3"}) {
    const ModelConfig config = tiny_config(family);
    const auto model = load_model(write(whole(config))).value();
    EXPECT_EQ(model->config, config);
    expect_equal(model->weights, tiny_weights(config));
  }
}

TEST_F(LoadGguf, PutsPermutedBiasesBackToo) {
  ModelConfig config = tiny_config();
  config.attention_bias = true;
  config.output_bias = true;
  const auto model = load_model(write(whole(config))).value();
  EXPECT_EQ(model->config, config);
  expect_equal(model->weights, tiny_weights(config));
}

TEST_F(LoadGguf, KeepsQuantisedTensorsAndPutsTheirRowsBack) {
  ModelConfig config = tiny_config();
  config.d = 32;
  TensorSet weights = tiny_weights(config);
  const std::string hf_name = "model.layers.0.self_attn.q_proj.weight";
  const StoredTensor quantised = quantise(weights.at(hf_name), DType::kQ8_0).value();
  const StoredTensor stored = quantise(make_tensor("", {8, 32}, DType::kF32,
                                                   permuted(read_f32(weights.at(hf_name)), 32, 4)),
                                       DType::kQ8_0)
                                  .value();
  GgufBuilder builder = gguf_metadata(config);
  add_gguf_tensors(config, weights, builder, {"blk.0.attn_q.weight"});
  builder.add_tensor(
      "blk.0.attn_q.weight", kGgmlQ8_0, {32, 8},
      std::string(static_cast<const char*>(stored.data), static_cast<size_t>(stored.size_bytes)));
  const auto model = load_model(write(builder)).value();
  const StoredTensor& got = model->weights.at(hf_name);
  EXPECT_EQ(got.dtype, DType::kQ8_0);
  EXPECT_EQ(std::memcmp(got.data, quantised.data, static_cast<size_t>(quantised.size_bytes)), 0);
}

TEST_F(LoadGguf, WithoutAnOutputTensorIsTied) {
  ModelConfig config = tiny_config();
  config.tied_embeddings = true;
  EXPECT_EQ(load_model(write(whole(config))).value()->config, config);
}

TEST_F(LoadGguf, RecognisesPublishedLlama3FactorsAndKeepsOthers) {
  ModelConfig config = tiny_config();
  config.head_width = 4;
  config.rope_theta = 500000.0f;
  // Wavelengths of the two pairs: 2 pi and 2 pi * 707. 8,192 / 4 = 2,048 is above the first, below
  // the second; 8,192 / 4,443 = 1.844: s = 0.2813, factor 1 / (0.7187 / 8 + 0.2813).
  const double s = (8192.0 / (6.283185307179586 * 707.1067811865476) - 1.0) / 3.0;
  const auto middle = static_cast<float>(1.0 / ((1.0 - s) / 8.0 + s));
  GgufBuilder builder = whole(config);
  builder.add_f32_tensor("rope_freqs.weight", {2}, {1.0f, middle});
  const auto model = load_model(write(builder)).value();
  // The largest factor is not 8 here, so no published scaling fits: the numbers are kept.
  EXPECT_EQ(model->config.rope_scaling.kind, RopeScaling::Kind::kFactors);
  EXPECT_EQ(model->config.rope_scaling.factors, (std::vector<float>{1.0f, middle}));
  config.rope_theta = 1e9f;  // the second wavelength is 2 pi * 31,623, beyond 8,192
  GgufBuilder long_waves = whole(config);
  long_waves.add_f32_tensor("rope_freqs.weight", {2}, {1.0f, 8.0f});
  const auto known = load_model(write(long_waves)).value();
  EXPECT_EQ(known->config.rope_scaling.kind, RopeScaling::Kind::kLlama3);
  EXPECT_EQ(known->config.rope_scaling.factor, 8.0f);
  EXPECT_EQ(known->config.rope_scaling.original_context, 8192);
}

TEST_F(LoadGguf, ReadsLinearRopeScalingInBothSpellings) {
  for (const bool old : {false, true}) {
    GgufBuilder builder = whole(tiny_config());
    if (old) {
      builder.add_f32("llama.rope.scale_linear", 2.0f);
    } else {
      builder.add_text("llama.rope.scaling.type", "linear")
          .add_f32("llama.rope.scaling.factor", 2.0f);
    }
    const auto model = load_model(write(builder)).value();
    EXPECT_EQ(model->config.rope_scaling.kind, RopeScaling::Kind::kLinear);
    EXPECT_EQ(model->config.rope_scaling.factor, 2.0f);
  }
}

TEST_F(LoadGguf, RefusesWhatItDoesNotHandleByName) {
  const ModelConfig config = tiny_config();
  struct Case {
    GgufBuilder builder;
    const char* expected;
  };
  ModelConfig other = config;
  other.family = "lama";
  const Case cases[] = {
      {gguf_metadata(other),
       "general.architecture 'lama' is not supported; supported are gemma2, gemma3, gpt2, llama, "
       "phi3, "
       "qwen2, qwen3 (nearest: llama)"},
      {whole(config).add_u32("llama.expert_count", 8),
       "metadata 'llama.expert_count': 8 is not supported"},
      {whole(config).add_f32("llama.logit_scale", 2),
       "metadata 'llama.logit_scale' is not supported"},
      {whole(config).add_text("llama.rope.scaling.type", "yarn"),
       "'yarn' is not supported, only none and linear"},
      {whole(config).add_u32("llama.rope.dimension_count", 2),
       "rope.dimension_count': 2 is not supported"},
      {whole(config).add_u32("llama.attention.value_length", 2), "attention.value_length"},
      {whole(tiny_config("qwen2")).add_u32("qwen2.attention.sliding_window", 16),
       "metadata 'qwen2.attention.sliding_window': 16 is not supported, only 0"},
      {whole(config).add_f32("llama.final_logit_softcapping", 30.0f),
       "metadata 'llama.final_logit_softcapping': is not supported with this architecture"},
      {whole(tiny_config("gemma3")).add_f32("gemma3.attn_logit_softcapping", 50.0f),
       "metadata 'gemma3.attn_logit_softcapping': is not supported with this architecture"},
      {whole(tiny_config("phi3")).add_f32_tensor("rope_factors_long.weight", {1}, {2}),
       "tensor 'rope_factors_long.weight': longrope scaling is not supported"},
      {whole(config).add_f32_tensor("blk.0.attn_sinks.weight", {2}, {1, 2}),
       "tensor 'blk.0.attn_sinks.weight' is none"},
      {whole(config, {"output.weight"})
           .add_tensor("output.weight", 11, {256, 1}, std::string(110, 'x')),
       "type Q3_K is not supported, only F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K "
       "and Q6_K"},
  };
  for (const Case& item : cases) {
    const Status status = error_of(item.builder);
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << status.message();
    EXPECT_NE(status.message().find(item.expected), std::string::npos) << status.message();
  }
}

TEST_F(LoadGguf, NamesMissingTensorsAndKeys) {
  const ModelConfig config = tiny_config();
  EXPECT_NE(error_of(whole(config, {"blk.1.ffn_up.weight"}))
                .message()
                .find("missing tensors: model.layers.1.mlp.up_proj.weight"),
            std::string::npos);
  EXPECT_NE(error_of(whole(config, {"token_embd.weight"})).message().find("token_embd.weight"),
            std::string::npos);
  GgufBuilder no_keys;
  no_keys.add_text("general.architecture", "llama");
  EXPECT_EQ(error_of(no_keys).code(), StatusCode::kNotFound);
}

TEST_F(LoadGguf, RefusesAQuantisedVector) {
  ModelConfig config = tiny_config();
  config.d = 32;
  GgufBuilder builder = gguf_metadata(config);
  add_gguf_tensors(config, tiny_weights(config), builder, {"output_norm.weight"});
  builder.add_tensor("output_norm.weight", kGgmlQ8_0, {32}, std::string(34, '\0'));
  EXPECT_NE(error_of(builder).message().find("a vector of type q8_0"), std::string::npos);
}

TEST_F(LoadGguf, DamagedFilesNeverCrash) {
  const ModelConfig config = tiny_config();
  std::string bytes = whole(config).build();
  const auto parse = [this](const std::string& damaged) {
    const auto model = load_model(dir_.write("f.gguf", damaged));
    if (model.ok()) {
      for (const auto& [name, tensor] : (*model)->weights) (void)read_f32(tensor);
    }
  };
  for_each_damage(bytes, 1000, parse);
  // Most of the file is data; the header is where damage matters.
  const std::string data = bytes.substr(3072);
  for_each_damage(bytes.substr(0, 3072), 2000,
                  [&](const std::string& head) { parse(head + data); });
}

}  // namespace
}  // namespace mainspring
