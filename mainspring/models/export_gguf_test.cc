#include "mainspring/models/export_gguf.h"

#include <gtest/gtest.h>

#include <cstring>

#include "mainspring/io/gguf.h"
#include "mainspring/models/model_files_for_test.h"
#include "mainspring/models/model_text.h"
#include "mainspring/weights/quantise.h"

namespace mainspring {
namespace {

class ExportGguf : public testing::Test {
 protected:
  std::shared_ptr<const LoadedModel> model_of(const ModelConfig& config) {
    return load_model(write_hf_folder(dir_, config, tiny_weights(config))).value();
  }
  std::shared_ptr<const LoadedModel> exported(const LoadedModel& model, DType dtype) {
    const std::string path = dir_.file(std::string(dtype_name(dtype)) + ".gguf");
    const Status status = export_gguf(model, path, {.dtype = dtype});
    EXPECT_TRUE(status.ok()) << status.to_string();
    return load_model(path).value();
  }
  void expect_the_converters_tensors(const std::string& family);
  TestDir dir_;
};

TEST_F(ExportGguf, GivesTheSameConfigAndBitsOfEveryFamily) {
  for (const char* family :
       {"gemma2", "gemma3", "gpt2", "llama", "mistral", "phi3", "qwen2", "qwen3"}) {
    TestDir dir;
    const ModelConfig config = tiny_config(family);
    const auto model = load_model(write_hf_folder(dir, config, tiny_weights(config))).value();
    ASSERT_TRUE(export_gguf(*model, dir.file("m.gguf"), {.dtype = DType::kF32}).ok()) << family;
    const auto back = load_model(dir.file("m.gguf")).value();
    EXPECT_EQ(back->config, model->config) << family;
    ASSERT_EQ(back->weights.size(), model->weights.size());
    for (const auto& [name, tensor] : model->weights) {
      const StoredTensor& got = back->weights.at(name);
      ASSERT_EQ(got.dtype, DType::kF32);
      ASSERT_EQ(got.shape, tensor.shape);
      EXPECT_EQ(std::memcmp(got.data, tensor.data, static_cast<size_t>(tensor.size_bytes)), 0)
          << family << " " << name;
    }
    EXPECT_EQ(dir.count(), 2);  // hf and the file, nothing temporary
  }
}

TEST_F(ExportGguf, AMistralWithoutAWindowComesBackAsTheLlamaItIs) {
  ModelConfig config = tiny_config("mistral");
  config.window = 0;
  config.windowed_layers.clear();
  const auto model = model_of(config);
  ASSERT_EQ(model->config.family, "mistral");
  const auto back = exported(*model, DType::kF32);
  ModelConfig expected = model->config;
  expected.family = "llama";
  EXPECT_EQ(back->config, expected);
}

TEST_F(ExportGguf, MatricesGetTheTypeAndVectorsStayWide) {
  ModelConfig config = tiny_config();
  config.d = config.ffn = 32;
  config.head_width = 16;
  const auto model = model_of(config);
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kQ8_0}) {
    const auto back = exported(*model, dtype);
    for (const auto& [name, tensor] : model->weights) {
      const StoredTensor& got = back->weights.at(name);
      ASSERT_EQ(got.dtype, tensor.shape.size() == 2 ? dtype : DType::kF32) << name;
      if (dtype == DType::kQ8_0 && tensor.shape.size() == 2) {
        EXPECT_EQ(read_f32(got), read_f32(quantise(tensor, dtype).value())) << name;
      } else {
        EXPECT_EQ(read_f32(got), read_f32(to_dtype(tensor, got.dtype))) << name;
      }
    }
  }
  EXPECT_EQ(GgufFile::open(dir_.file("q8_0.gguf")).value()->get_int("general.file_type").value(),
            7);
}

// The layout that llama.cpp's converter gives: add_gguf_tensors is an independent writer of it.
void ExportGguf::expect_the_converters_tensors(const std::string& family) {
  const ModelConfig config = tiny_config(family);
  exported(*model_of(config), DType::kF32);
  GgufBuilder builder = gguf_metadata(config);
  add_gguf_tensors(config, tiny_weights(config), builder);
  const auto expected = GgufFile::open(dir_.write("expected.gguf", builder.build())).value();
  const auto got = GgufFile::open(dir_.file("f32.gguf")).value();
  ASSERT_EQ(got->tensors().size(), expected->tensors().size());
  for (const auto& [name, tensor] : expected->tensors()) {
    const GgufTensor& other = got->tensors().at(name);
    ASSERT_EQ(other.dims, tensor.dims) << name;
    EXPECT_EQ(std::memcmp(other.data, tensor.data, static_cast<size_t>(tensor.size_bytes)), 0)
        << name;
  }
  for (const auto& [key, value] : expected->metadata()) {
    if (key.starts_with("tokenizer.") || (config.learned_positions && key.find("rope") != key.npos))
      continue;
    ASSERT_TRUE(got->has(key)) << key;
    EXPECT_EQ(got->metadata().find(key)->second.type, value.type) << key;
    EXPECT_EQ(got->metadata().find(key)->second.integer, value.integer) << key;
    EXPECT_EQ(got->metadata().find(key)->second.number, value.number) << key;
    EXPECT_EQ(got->metadata().find(key)->second.string, value.string) << key;
  }
}

TEST_F(ExportGguf, HasTheTensorsOfTheConverter) { expect_the_converters_tensors("llama"); }
TEST_F(ExportGguf, FusesAsTheConverterDoes) { expect_the_converters_tensors("phi3"); }
TEST_F(ExportGguf, AddsTheOneOfNormsAsTheConverterDoes) { expect_the_converters_tensors("gemma3"); }
TEST_F(ExportGguf, NamesGpt2sTensorsAsTheConverterDoes) { expect_the_converters_tensors("gpt2"); }

TEST_F(ExportGguf, StretchedFrequenciesComeBack) {
  ModelConfig config = tiny_config();
  config.rope_scaling = {.kind = RopeScaling::Kind::kLinear, .factor = 4.0f};
  EXPECT_EQ(exported(*model_of(config), DType::kF32)->config.rope_scaling, config.rope_scaling);
  config.rope_scaling = {.kind = RopeScaling::Kind::kLlama3,
                         .factor = 8.0f,
                         .low_freq_factor = 1.0f,
                         .high_freq_factor = 4.0f,
                         .original_context = 8192};
  config.rope_theta = 500000.0f;
  config.head_width = 16;  // enough pairs that some are stretched all the way
  EXPECT_EQ(exported(*model_of(config), DType::kBF16)->config.rope_scaling, config.rope_scaling);
}

TEST_F(ExportGguf, TakesTokenizerTemplateAndEveryEndOfReply) {
  const auto model = load_model(golden("tiny/qwen2")).value();
  auto many = *model;
  many.generation.eos_tokens = {309, 311, 310};
  const auto back = exported(many, DType::kF16);
  EXPECT_EQ(back->config.eos_tokens, (std::vector<int32_t>{309, 311, 310}));
  EXPECT_EQ(back->tokenizer.chat_template, model->tokenizer.chat_template);
  EXPECT_FALSE(back->tokenizer.chat_template.empty());
  const auto before = make_model_text(*model).value().tokenizer;
  const auto after = make_model_text(*back).value().tokenizer;
  for (const char* text : {"the hen  and 42 caf\xc3\xa9", "<|im_start|>user\nhi<|im_end|>"}) {
    EXPECT_EQ(after->encode(text).value(), before->encode(text).value());
  }
  many.generation.eos_tokens = {1, 2, 3, 4};
  EXPECT_EQ(export_gguf(many, dir_.file("four.gguf"), {}).code(), StatusCode::kUnimplemented);
}

TEST_F(ExportGguf, AModelWithoutTokenizerSaysSo) {
  const auto back = exported(*model_of(tiny_config()), DType::kF32);
  const auto file = GgufFile::open(dir_.file("f32.gguf")).value();
  EXPECT_EQ(file->metadata().find("tokenizer.ggml.model")->second.string, "none");
  EXPECT_FALSE(back->tokenizer.gguf.has_value());
  EXPECT_EQ(make_model_text(*back).value().tokenizer, nullptr);
}

TEST_F(ExportGguf, AnExportedFileExportsToTheSameBytes) {
  const auto model = load_model(golden("tiny/qwen2")).value();
  const auto once = exported(*model, DType::kBF16);
  ASSERT_TRUE(export_gguf(*once, dir_.file("twice.gguf"), {.dtype = DType::kBF16}).ok());
  EXPECT_TRUE(dir_.read("twice.gguf") == dir_.read("bf16.gguf"));
}

TEST_F(ExportGguf, RefusesWhatTheFileCannotHold) {
  const auto model = model_of(tiny_config());
  const auto refused = [&](const LoadedModel& m, DType dtype) {
    const Status status = export_gguf(m, dir_.file("no.gguf"), {.dtype = dtype});
    EXPECT_FALSE(dir_.has("no.gguf"));
    return status.message();
  };
  EXPECT_NE(refused(*model, DType::kQ8_0).find("rows of 8 are no whole number"), std::string::npos);
  LoadedModel big = *model;
  std::vector<float> values(64, 1.0f);
  values[11] = 70000.0f;
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  big.weights[name] = make_tensor(name, {8, 8}, DType::kF32, values);
  EXPECT_NE(refused(big, DType::kF16).find("up_proj.weight': row 1, column 3 is beyond f16"),
            std::string::npos);
  LoadedModel other = *model;
  other.config.family = "bloom";
  EXPECT_NE(refused(other, DType::kF32).find("family 'bloom'"), std::string::npos);
  TensorSet weights;
  weights["nothing"] = make_tensor("nothing", {1}, DType::kF32, {1});
  EXPECT_EQ(export_gguf(*model, dir_.file("no.gguf"), {.weights = &weights}).code(),
            StatusCode::kInvalidArgument);
  dir_.write("there.gguf", "x");
  EXPECT_EQ(export_gguf(*model, dir_.file("there.gguf"), {}).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(dir_.read("there.gguf"), "x");
}

}  // namespace
}  // namespace mainspring
