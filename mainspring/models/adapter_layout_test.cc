#include "mainspring/models/adapter_layout.h"

#include <gtest/gtest.h>

#include "mainspring/models/model_files_for_test.h"

namespace mainspring {
namespace {

const std::string kAttention = "model.layers.0.self_attn.";

void add_pair(TensorSet& set, const std::string& module, int64_t out, int64_t rank, float start) {
  std::vector<float> a;
  std::vector<float> b;
  for (int64_t i = 0; i < rank * 8; ++i) a.push_back(start + static_cast<float>(i));
  for (int64_t i = 0; i < out * rank; ++i) b.push_back(start - static_cast<float>(i));
  set[module + ".lora_A.weight"] = make_tensor("", {rank, 8}, DType::kF32, a);
  set[module + ".lora_B.weight"] = make_tensor("", {out, rank}, DType::kF32, b);
}

TEST(AdapterLayout, CutsAFusedPairIntoItsParts) {
  TensorSet fused;
  add_pair(fused, kAttention + "qkv_proj", 16, 2, 1.0f);
  add_pair(fused, kAttention + "o_proj", 8, 2, 5.0f);
  const SplitAdapter split = split_adapter(tiny_config("phi3"), fused);
  ASSERT_EQ(split.tensors.size(), 8u);
  const std::vector<float> a = read_f32(fused.at(kAttention + "qkv_proj.lora_A.weight"));
  const std::vector<float> b = read_f32(fused.at(kAttention + "qkv_proj.lora_B.weight"));
  for (const char* part : {"q_proj", "k_proj", "v_proj"})
    EXPECT_EQ(read_f32(split.tensors.at(kAttention + part + ".lora_A.weight")), a);
  // rows 0-7 are q's, 8-11 k's, 12-15 v's
  EXPECT_EQ(read_f32(split.tensors.at(kAttention + "k_proj.lora_B.weight")),
            std::vector<float>(b.begin() + 8 * 2, b.begin() + 12 * 2));
  EXPECT_EQ(split.file_modules.at(kAttention + "v_proj"), kAttention + "qkv_proj");
  EXPECT_FALSE(split.file_modules.contains(kAttention + "o_proj"));
}

TEST(AdapterLayout, SetsPartsAlongADiagonal) {
  const ModelConfig config = tiny_config("phi3");
  TensorSet tensors;
  add_pair(tensors, kAttention + "q_proj", 8, 1, 1.0f);
  add_pair(tensors, kAttention + "v_proj", 4, 1, 3.0f);
  const Adapter fused =
      fuse_adapter(config, make_adapter(config, tensors, 2.0f, 0.0f).value()).value();
  const AdapterModule& module = fused.modules.at(kAttention + "qkv_proj");
  EXPECT_EQ(module.rank, 2);
  EXPECT_EQ(module.scale, 2.0f);
  EXPECT_EQ(fused.modules.size(), 1u);
  const std::vector<float> b = read_f32(fused.tensors.at(kAttention + "qkv_proj.lora_B.weight"));
  EXPECT_EQ((std::vector<float>{b.begin(), b.begin() + 4}), (std::vector<float>{1, 0, 0, 0}));
  EXPECT_EQ((std::vector<float>{b.begin() + 16, b.end()}),
            (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 2, 0, 1, 0, 0}));
}

TEST(AdapterLayout, RefusesPartsOfDifferentScales) {
  const ModelConfig config = tiny_config("phi3");
  TensorSet tensors;
  add_pair(tensors, kAttention + "q_proj", 8, 1, 1.0f);
  add_pair(tensors, kAttention + "v_proj", 4, 2, 3.0f);
  const Adapter adapter = make_adapter(config, tensors, 2.0f, 0.0f).value();  // scales 2 and 1
  EXPECT_EQ(fuse_adapter(config, adapter).status().code(), StatusCode::kUnimplemented);
}

TEST(AdapterLayout, NamesGpt2sLinearsAsItsFilesDo) {
  const ModelConfig config = tiny_config("gpt2");
  TensorSet tensors;
  add_pair(tensors, "model.layers.0.self_attn.o_proj", 8, 2, 1.0f);
  const Adapter adapter = make_adapter(config, tensors, 2.0f, 0.0f).value();
  const Adapter files = fuse_adapter(config, adapter).value();
  EXPECT_TRUE(files.modules.contains("transformer.h.0.attn.c_proj"));
  const SplitAdapter split = split_adapter(config, files.tensors);
  EXPECT_EQ(read_f32(split.tensors.at("model.layers.0.self_attn.o_proj.lora_B.weight")),
            read_f32(tensors.at("model.layers.0.self_attn.o_proj.lora_B.weight")));
}

TEST(AdapterLayout, LeavesFamiliesThatFuseNothing) {
  TensorSet tensors;
  add_pair(tensors, kAttention + "k_proj", 4, 2, 1.0f);
  const Adapter adapter = make_adapter(tiny_config(), tensors, 2.0f, 0.0f).value();
  const Adapter fused = fuse_adapter(tiny_config(), adapter).value();
  EXPECT_TRUE(fused.modules.contains(kAttention + "k_proj"));
  EXPECT_EQ(split_adapter(tiny_config(), tensors).tensors.size(), 2u);
}

}  // namespace
}  // namespace mainspring
