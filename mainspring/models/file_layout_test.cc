#include "mainspring/models/file_layout.h"

#include <gtest/gtest.h>

#include "mainspring/models/model_files_for_test.h"

namespace mainspring {
namespace {

TEST(FileLayout, OfMostFamiliesIsTheParametersThemselves) {
  const ModelConfig config = tiny_config("qwen3");
  const auto parameters = model_parameters(config);
  const auto files = file_tensors(config);
  ASSERT_EQ(files.size(), parameters.size());
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(files[i].name, parameters[i].name);
    EXPECT_EQ(files[i].shape, parameters[i].shape);
  }
}

TEST(FileLayout, OfPhi3FusesWhatSharesAnInput) {
  const auto files = file_tensors(tiny_config("phi3"));
  std::vector<std::string> names;
  for (const FileTensor& file : files) names.push_back(file.name);
  EXPECT_EQ((std::vector<std::string>{names.begin() + 1, names.begin() + 7}),
            (std::vector<std::string>{
                "model.layers.0.input_layernorm.weight", "model.layers.0.self_attn.qkv_proj.weight",
                "model.layers.0.self_attn.o_proj.weight",
                "model.layers.0.post_attention_layernorm.weight",
                "model.layers.0.mlp.gate_up_proj.weight", "model.layers.0.mlp.down_proj.weight"}));
  EXPECT_EQ(files[2].shape, (std::vector<int64_t>{8 + 4 + 4, 8}));
  ASSERT_EQ(files[2].parts.size(), 3u);
  EXPECT_EQ(files[2].parts[1].name, "model.layers.0.self_attn.k_proj.weight");
}

TEST(FileLayout, CutsFusedRowsWithoutCopies) {
  const ModelConfig config = tiny_config("phi3");
  const TensorSet weights = tiny_weights(config);
  const TensorSet files = files_of(config, weights);
  const TensorSet cut = parameters_of_files(config, FileKind::kHuggingFace, files).value();
  ASSERT_EQ(cut.size(), weights.size());
  for (const auto& [name, tensor] : weights) {
    EXPECT_EQ(cut.at(name).shape, tensor.shape) << name;
    EXPECT_EQ(read_f32(cut.at(name)), read_f32(tensor)) << name;
  }
  const StoredTensor& fused = files.at("model.layers.1.mlp.gate_up_proj.weight");
  EXPECT_EQ(cut.at("model.layers.1.mlp.gate_proj.weight").data, fused.data);
  EXPECT_EQ(cut.at("model.layers.1.mlp.up_proj.weight").owner, fused.owner);
}

TEST(FileLayout, OfGpt2IsTransposedUnderItsOwnNames) {
  const ModelConfig config = tiny_config("gpt2");
  const TensorSet weights = tiny_weights(config);
  const TensorSet files = files_of(config, weights);
  EXPECT_EQ(files.at("transformer.h.1.attn.c_attn.weight").shape, (std::vector<int64_t>{8, 24}));
  EXPECT_EQ(files.at("transformer.h.1.attn.c_attn.bias").shape, (std::vector<int64_t>{24}));
  EXPECT_EQ(files.at("transformer.wpe.weight").shape, (std::vector<int64_t>{64, 8}));
  EXPECT_TRUE(files.contains("transformer.ln_f.bias"));
  // Element (in 2, out 1 of k) of the fused matrix is k_proj's (1, 2).
  const std::vector<float> fused = read_f32(files.at("transformer.h.1.attn.c_attn.weight"));
  const std::vector<float> k = read_f32(weights.at("model.layers.1.self_attn.k_proj.weight"));
  EXPECT_EQ(fused[2 * 24 + 8 + 1], k[1 * 8 + 2]);
  const TensorSet back = parameters_of_files(config, FileKind::kHuggingFace, files).value();
  ASSERT_EQ(back.size(), weights.size());
  for (const auto& [name, tensor] : weights)
    EXPECT_EQ(read_f32(back.at(name)), read_f32(tensor)) << name;
  const auto gguf = file_tensors(config, FileKind::kGguf);
  EXPECT_EQ(gguf[4].name, "model.layers.0.self_attn.qkv_proj.weight");
  EXPECT_EQ(gguf[4].shape, (std::vector<int64_t>{24, 8}));
  EXPECT_FALSE(gguf[4].is_transposed);
}

TEST(FileLayout, NamesTheFilesTensorThatIsWrong) {
  const ModelConfig config = tiny_config("phi3");
  TensorSet files = files_of(config, tiny_weights(config));
  files["model.layers.0.mlp.gate_up_proj.weight"] = files["model.layers.0.mlp.down_proj.weight"];
  EXPECT_EQ(
      parameters_of_files(config, FileKind::kHuggingFace, files).status().message(),
      "tensor 'model.layers.0.mlp.gate_up_proj.weight': expected shape [16, 8] by the config, "
      "got [8, 8]");
  files.erase("model.layers.0.mlp.gate_up_proj.weight");
  EXPECT_EQ(parameters_of_files(config, FileKind::kHuggingFace, files).status().message(),
            "missing tensors: model.layers.0.mlp.gate_up_proj.weight");
}

TEST(FileLayout, FindsTheModuleThatHoldsALinear) {
  const std::string layer = "model.layers.3.";
  const ModelConfig phi3 = tiny_config("phi3");
  EXPECT_EQ(file_module(phi3, layer + "self_attn.k_proj"), layer + "self_attn.qkv_proj");
  EXPECT_EQ(file_module(phi3, layer + "mlp.up_proj"), layer + "mlp.gate_up_proj");
  EXPECT_EQ(file_module(phi3, layer + "self_attn.o_proj"), layer + "self_attn.o_proj");
  EXPECT_EQ(file_module(tiny_config(), layer + "mlp.up_proj"), layer + "mlp.up_proj");
}

}  // namespace
}  // namespace mainspring
