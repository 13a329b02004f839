#include "mainspring/models/export.h"

#include <gtest/gtest.h>

#include "mainspring/models/model_files_for_test.h"

namespace mainspring {
namespace {

class Export : public testing::Test {
 protected:
  std::shared_ptr<const LoadedModel> model_of(const ModelConfig& config) {
    return load_model(write_hf_folder(dir_, config, tiny_weights(config))).value();
  }
  TestDir dir_;
};

TEST_F(Export, ReadsBackTheSame) {
  const auto model = model_of(tiny_config());
  ASSERT_TRUE(export_hf_folder(*model, dir_.file("out"), {.dtype = DType::kF32}).ok());
  const auto back = load_model(dir_.file("out")).value();
  EXPECT_EQ(back->config, model->config);
  ASSERT_EQ(back->weights.size(), model->weights.size());
  for (const auto& [name, tensor] : model->weights)
    EXPECT_EQ(read_f32(back->weights.at(name)), read_f32(tensor));
  EXPECT_EQ(dir_.count(), 2);  // hf and out, nothing temporary
}

TEST_F(Export, RoundsToBf16AndSaysSo) {
  const auto model = model_of(tiny_config());
  ASSERT_TRUE(export_hf_folder(*model, dir_.file("out"), {}).ok());
  const auto back = load_model(dir_.file("out")).value();
  for (const auto& [name, tensor] : model->weights) {
    EXPECT_EQ(back->weights.at(name).dtype, DType::kBF16);
    EXPECT_EQ(read_f32(back->weights.at(name)), read_f32(to_dtype(tensor, DType::kBF16)));
  }
  const Json config = parse_json(back->config_json, "c").value();
  EXPECT_EQ(config.at("torch_dtype"), "bfloat16");
}

TEST_F(Export, KeepsTheSourcesConfigTokenizerAndTemplates) {
  write_hf_folder(dir_, tiny_config(), tiny_weights(tiny_config()));
  Json config = parse_json(dir_.read("hf/config.json"), "c").value();
  config.erase("torch_dtype");
  config["dtype"] = "float32";  // as transformers 5 writes it
  config["my_note"] = "kept";
  dir_.write("hf/config.json", json_text(config));
  dir_.write("hf/tokenizer.json", "{\"t\": 1}");
  dir_.write("hf/tokenizer_config.json", R"({"chat_template": "A"})");
  dir_.write("hf/special_tokens_map.json", "{}");
  dir_.write("hf/generation_config.json", R"({"top_k": 3})");
  dir_.write("hf/additional_chat_templates/rag.jinja", "R");
  ASSERT_TRUE(export_hf_folder(*load_model(dir_.file("hf")).value(), dir_.file("out"), {}).ok());
  const Json written = parse_json(dir_.read("out/config.json"), "c").value();
  EXPECT_EQ(written.at("my_note"), "kept");
  EXPECT_EQ(written.at("dtype"), "bfloat16");
  EXPECT_FALSE(written.contains("torch_dtype"));
  EXPECT_EQ(dir_.read("out/tokenizer.json"), "{\"t\": 1}");
  EXPECT_EQ(dir_.read("out/special_tokens_map.json"), "{}");
  EXPECT_EQ(dir_.read("out/generation_config.json"), R"({"top_k": 3})");
  EXPECT_EQ(dir_.read("out/chat_template.jinja"), "A");
  EXPECT_EQ(dir_.read("out/additional_chat_templates/rag.jinja"), "R");
}

TEST_F(Export, CutsShardsAtTheGivenSize) {
  const auto model = model_of(tiny_config());
  ASSERT_TRUE(
      export_hf_folder(*model, dir_.file("out"), {.dtype = DType::kF32, .max_shard_bytes = 2000})
          .ok());
  EXPECT_FALSE(dir_.has("out/model.safetensors"));
  EXPECT_TRUE(dir_.has("out/model.safetensors.index.json"));
  const auto back = load_model(dir_.file("out")).value();
  for (const auto& [name, tensor] : model->weights)
    EXPECT_EQ(read_f32(back->weights.at(name)), read_f32(tensor));
  const Json index = parse_json(dir_.read("out/model.safetensors.index.json"), "i").value();
  EXPECT_EQ(index.at("metadata").at("total_size"), model->size_bytes);
}

TEST_F(Export, TrainedWeightsReplaceTheModelsOwn) {
  const auto model = model_of(tiny_config());
  TensorSet trained;
  trained["model.norm.weight"] =
      make_tensor("model.norm.weight", {8}, DType::kF32, std::vector<float>(8, 7.0f));
  ASSERT_TRUE(export_hf_folder(*model, dir_.file("out"), {.weights = &trained}).ok());
  EXPECT_EQ(read_f32(load_model(dir_.file("out")).value()->weights.at("model.norm.weight")),
            std::vector<float>(8, 7.0f));
  trained["x"] = trained["model.norm.weight"];
  EXPECT_EQ(export_hf_folder(*model, dir_.file("bad"), {.weights = &trained}).message(),
            "the model has no tensor 'x'");
  EXPECT_FALSE(dir_.has("bad"));
}

TEST_F(Export, MergesAnAdapterInF32) {
  const ModelConfig config = tiny_config();
  const auto model = model_of(config);
  const std::string module = "model.layers.0.self_attn.k_proj";
  TensorSet pair;
  pair[module + ".lora_A.weight"] =
      make_tensor("", {1, 8}, DType::kF32, std::vector<float>(8, 0.5f));
  pair[module + ".lora_B.weight"] =
      make_tensor("", {4, 1}, DType::kF32, std::vector<float>(4, 0.25f));
  const Adapter adapter = make_adapter(config, pair, 2.0f, 0.0f).value();
  ASSERT_TRUE(
      export_hf_folder(*model, dir_.file("out"), {.dtype = DType::kF32, .adapter = &adapter}).ok());
  const std::vector<float> before = read_f32(model->weights.at(module + ".weight"));
  const std::vector<float> after =
      read_f32(load_model(dir_.file("out")).value()->weights.at(module + ".weight"));
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(after[i], before[i] + 0.25f);  // 2 * 0.25 * 0.5
}

TEST_F(Export, RefusesAFolderThatExists) {
  const auto model = model_of(tiny_config());
  EXPECT_EQ(export_hf_folder(*model, dir_.file("hf"), {}).code(), StatusCode::kAlreadyExists);
}

TEST_F(Export, OfAGgufFileIsTheSameModel) {
  for (const std::string family : {"qwen3", "mistral", "phi3", "gemma2", "gemma3", "gpt2"}) {
    const ModelConfig config = tiny_config(family);
    GgufBuilder builder = gguf_metadata(config);
    add_gguf_tensors(config, tiny_weights(config), builder);
    const auto model = load_model(dir_.write(family + ".gguf", builder.build())).value();
    ASSERT_TRUE(export_hf_folder(*model, dir_.file(family), {.dtype = DType::kF32}).ok());
    const auto back = load_model(dir_.file(family)).value();
    EXPECT_EQ(back->config, config) << family;
    for (const auto& [name, tensor] : model->weights)
      EXPECT_EQ(read_f32(back->weights.at(name)), read_f32(tensor)) << family << " " << name;
  }
}

class ExportFiles : public Export, public testing::WithParamInterface<const char*> {};

TEST_P(ExportFiles, AreLaidOutAsTheFamilysAre) {
  const auto model = model_of(tiny_config(GetParam()));
  ASSERT_TRUE(export_hf_folder(*model, dir_.file("out"), {.dtype = DType::kF32}).ok());
  const Safetensors before = open_safetensors(dir_.file("hf/model.safetensors")).value();
  const Safetensors after = open_safetensors(dir_.file("out/model.safetensors")).value();
  ASSERT_EQ(after.tensors.size(), before.tensors.size());
  for (const auto& [name, tensor] : before.tensors) {
    ASSERT_TRUE(after.tensors.contains(name)) << name;
    const SafetensorsEntry& own = after.tensors.at(name);
    EXPECT_EQ(own.shape, tensor.shape) << name;
    ASSERT_EQ(own.size_bytes, tensor.size_bytes) << name;
    EXPECT_EQ(std::memcmp(own.data, tensor.data, static_cast<size_t>(own.size_bytes)), 0) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ExportFiles, testing::Values("phi3", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(Export, RefusesAConfigThatCannotBeSaid) {
  auto model = std::make_shared<LoadedModel>(*model_of(tiny_config()));
  model->config_json.clear();
  model->config.rope_scaling.kind = RopeScaling::Kind::kFactors;
  EXPECT_EQ(export_hf_folder(*model, dir_.file("out"), {}).code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace mainspring
