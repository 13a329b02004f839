#include "mainspring/models/adapter.h"

#include <functional>

#include <gtest/gtest.h>

#include "mainspring/models/model_files_for_test.h"

namespace mainspring {
namespace {

constexpr const char* kModule = "model.layers.0.self_attn.k_proj";  // (4, 8) in tiny_config

/// Rank 2 on one module: A counts up, B alternates.
TensorSet pair_of(const std::string& module = kModule) {
  TensorSet set;
  std::vector<float> a;
  std::vector<float> b;
  for (int i = 0; i < 16; ++i) a.push_back(static_cast<float>(i));
  for (int i = 0; i < 8; ++i) b.push_back(i % 2 == 0 ? 1.0f : -1.0f);
  set[module + ".lora_A.weight"] = make_tensor("", {2, 8}, DType::kF32, a);
  set[module + ".lora_B.weight"] = make_tensor("", {4, 2}, DType::kF32, b);
  return set;
}

TEST(MakeAdapter, TakesRanksFromShapes) {
  const Adapter adapter = make_adapter(tiny_config(), pair_of(), 8.0f, 0.1f).value();
  EXPECT_EQ(adapter.modules.at(kModule).rank, 2);
  EXPECT_EQ(adapter.modules.at(kModule).scale, 4.0f);  // 8 / 2
  EXPECT_EQ(adapter.dropout, 0.1f);
}

TEST(MakeAdapter, RefusesTensorsThatDoNotFit) {
  const auto message_of = [](const std::function<void(TensorSet&)>& change) {
    TensorSet set = pair_of();
    change(set);
    return make_adapter(tiny_config(), set, 8.0f, 0.0f).status().message();
  };
  const std::string a = std::string(kModule) + ".lora_A.weight";
  const std::string b = std::string(kModule) + ".lora_B.weight";
  EXPECT_NE(message_of([&](TensorSet& s) { s.erase(b); }).find("has lora_A alone"),
            std::string::npos);
  EXPECT_NE(message_of([&](TensorSet& s) {
              s[b] = s[a];
            }).find("expected lora_A [r, 8] and lora_B [4, r]"),
            std::string::npos);
  EXPECT_NE(message_of([&](TensorSet& s) {
              s["lm_head.lora_A.weight"] = s[a];
            }).find("no linear 'lm_head'"),
            std::string::npos);
  EXPECT_NE(message_of([&](TensorSet& s) {
              s["x.lora_magnitude_vector"] = s[a];
            }).find("expected a name"),
            std::string::npos);
  EXPECT_NE(message_of([&](TensorSet& s) { s.clear(); }).find("no tensors"), std::string::npos);
}

TEST(Merge, AddsTheScaledProductInF32) {
  const Adapter adapter = make_adapter(tiny_config(), pair_of(), 1.0f, 0.0f).value();  // scale 0.5
  const StoredTensor weight = make_tensor("w", {4, 8}, DType::kBF16, std::vector<float>(32, 1.0f));
  const StoredTensor merged = merge_module(adapter, kModule, weight);
  EXPECT_EQ(merged.dtype, DType::kF32);
  // Each row of B is (1, -1): A's first row minus its second is -8 everywhere; 1 + 0.5 * -8.
  EXPECT_EQ(read_f32(merged), std::vector<float>(32, -3.0f));
}

TEST(Merge, SharesWhatTheAdapterDoesNotTouch) {
  const TensorSet weights = tiny_weights(tiny_config());
  const TensorSet merged =
      merge_adapter(weights, make_adapter(tiny_config(), pair_of(), 1.0f, 0.0f).value());
  int changed = 0;
  for (const auto& [name, tensor] : weights) changed += merged.at(name).data != tensor.data ? 1 : 0;
  EXPECT_EQ(changed, 1);
  EXPECT_NE(merged.at(std::string(kModule) + ".weight").data,
            weights.at(std::string(kModule) + ".weight").data);
}

// ---- PEFT folders
// ------------------------------------------------------------------------------------------

ModelConfig golden_config(const std::string& name) {
  return load_model(golden("tiny/" + name)).value()->config;
}

TEST(LoadPeft, ReadsScalesOfPatternsAndOfRankStabilisedAdapters) {
  const ModelConfig config = golden_config("llama_gqa");
  const Adapter plain = load_peft(golden("peft/lora"), config).value();
  EXPECT_EQ(plain.modules.size(), 14u);
  EXPECT_EQ(plain.modules.at("model.layers.0.mlp.up_proj").scale, 2.0f);  // 8 / 4
  const Adapter patterned = load_peft(golden("peft/lora_pattern"), config).value();
  EXPECT_EQ(patterned.modules.at("model.layers.0.mlp.up_proj").scale, 2.0f);
  EXPECT_EQ(patterned.modules.at("model.layers.0.mlp.down_proj").rank, 6);
  EXPECT_EQ(patterned.modules.at("model.layers.0.mlp.down_proj").scale, 2.0f);     // 12 / 6
  EXPECT_EQ(patterned.modules.at("model.layers.1.self_attn.q_proj").scale, 1.5f);  // 3 / 2
  EXPECT_EQ(patterned.modules.at("model.layers.0.self_attn.q_proj").scale, 2.0f);
  const Adapter stabilised = load_peft(golden("peft/lora_rslora"), config).value();
  EXPECT_EQ(stabilised.modules.at("model.layers.0.self_attn.q_proj").scale, 4.0f);  // 8 / sqrt(4)
  EXPECT_TRUE(load_peft(golden("peft/lora_qwen2"), golden_config("qwen2")).ok());
}

TEST(LoadPeft, RefusesAnAdapterOfAnotherModel) {
  EXPECT_EQ(load_peft(golden("peft/lora"), tiny_config()).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(load_peft("/no/such/adapter", tiny_config()).status().code(), StatusCode::kNotFound);
}

class Peft : public testing::Test {
 protected:
  void SetUp() override {
    const Adapter adapter = make_adapter(tiny_config(), pair_of(), 8.0f, 0.25f).value();
    ASSERT_TRUE(export_peft(adapter, tiny_config(), "base", dir_.file("a")).ok());
  }
  /// The status of loading after one field of adapter_config.json was changed.
  Status with_field(const std::string& key, const Json& value) {
    Json json = parse_json(dir_.read("a/adapter_config.json"), "c").value();
    json[key] = value;
    dir_.write("b/adapter_config.json", json_text(json));
    dir_.write("b/adapter_model.safetensors", dir_.read("a/adapter_model.safetensors"));
    return load_peft(dir_.file("b"), tiny_config()).status();
  }
  TestDir dir_;
};

TEST_F(Peft, ReadsBackWhatItWrote) {
  const Adapter back = load_peft(dir_.file("a"), tiny_config()).value();
  EXPECT_EQ(back.modules.at(kModule).rank, 2);
  EXPECT_EQ(back.modules.at(kModule).scale, 4.0f);
  EXPECT_EQ(back.dropout, 0.25f);
  EXPECT_EQ(back.base_model, "base");
  for (const auto& [name, tensor] : pair_of())
    EXPECT_EQ(read_f32(back.tensors.at(name)), read_f32(tensor));
}

TEST_F(Peft, NamesOnlyTheModulesItHas) {
  const Json json = parse_json(dir_.read("a/adapter_config.json"), "c").value();
  // k_proj exists in two layers, the adapter has one of them.
  EXPECT_EQ(json_text(json.at("target_modules")), R"(["model.layers.0.self_attn.k_proj"])");
  EXPECT_EQ(json_text(json.at("lora_alpha")), "8");
}

TEST_F(Peft, RefusesFieldsThatWouldChangeResults) {
  const std::pair<const char*, Json> fields[] = {
      {"use_dora", true},
      {"bias", "all"},
      {"modules_to_save", {"lm_head"}},
      {"fan_in_fan_out", true},
      {"layer_replication", Json::array({Json::array({0, 2})})},
      {"lora_bias", true},
      {"trainable_token_indices", {1, 2}},
      {"peft_type", "LOHA"},
      {"init_lora_weights", "pissa"},
      {"a_field_of_the_future", 3},
      {"rank_pattern", {{"k_.*", 2}}},
  };
  for (const auto& [key, value] : fields) {
    const Status status = with_field(key, value);
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << key;
    EXPECT_NE(status.message().find(std::string("adapter_config.json: ") + key), std::string::npos)
        << status.message();
  }
}

TEST_F(Peft, AcceptsFieldsThatAreSwitchedOff) {
  EXPECT_TRUE(with_field("a_field_of_the_future", false).ok());
  EXPECT_TRUE(with_field("modules_to_save", nullptr).ok());
  EXPECT_TRUE(with_field("init_lora_weights", "gaussian").ok());
}

TEST_F(Peft, RefusesARankThatTheTensorsDoNotHave) {
  EXPECT_NE(with_field("r", 3).message().find(
                "rank 3 for 'model.layers.0.self_attn.k_proj', but its tensors have rank 2"),
            std::string::npos);
}

TEST_F(Peft, RefusesTensorsOfModulesThatTheConfigurationDoesNotChoose) {
  EXPECT_NE(with_field("target_modules", {"q_proj"})
                .message()
                .find("target_modules: does not choose 'model.layers.0.self_attn.k_proj'"),
            std::string::npos);
  EXPECT_NE(
      with_field("layers_to_transform", Json::array({1})).message().find("layers_to_transform"),
      std::string::npos);
  EXPECT_TRUE(with_field("target_modules", {"k_proj", "q_proj"}).ok());
  EXPECT_TRUE(with_field("target_modules", "all-linear").ok());
  EXPECT_TRUE(with_field("layers_to_transform", 0).ok());
}

TEST_F(Peft, RefusesPickledWeights) {
  dir_.write("c/adapter_config.json", dir_.read("a/adapter_config.json"));
  dir_.write("c/adapter_model.bin", "x");
  EXPECT_EQ(load_peft(dir_.file("c"), tiny_config()).status().code(), StatusCode::kUnimplemented);
}

TEST(ExportPeft, KeepsEveryScaleAndRankOfTheGoldenAdapters) {
  const TestDir dir;
  const ModelConfig config = golden_config("llama_gqa");
  for (const std::string name : {"lora", "lora_pattern", "lora_rslora"}) {
    const Adapter adapter = load_peft(golden("peft/" + name), config).value();
    ASSERT_TRUE(export_peft(adapter, config, "", dir.file(name)).ok());
    const Adapter back = load_peft(dir.file(name), config).value();
    ASSERT_EQ(back.modules.size(), adapter.modules.size());
    for (const auto& [module, spec] : adapter.modules) {
      EXPECT_EQ(back.modules.at(module).rank, spec.rank);
      EXPECT_EQ(back.modules.at(module).scale, spec.scale);
    }
    for (const auto& [tensor_name, tensor] : adapter.tensors) {
      EXPECT_EQ(read_f32(back.tensors.at(tensor_name)), read_f32(tensor));
    }
    EXPECT_EQ(back.base_model, adapter.base_model);
    EXPECT_EQ(export_peft(adapter, config, "", dir.file(name)).code(), StatusCode::kAlreadyExists);
  }
}

}  // namespace
}  // namespace mainspring
