// Exported GGUF files against those that llama.cpp loaded and continued with the same tokens
// (check_llama_cpp.py): the same metadata keys of the same types, the same tensors.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "mainspring/io/gguf.h"
#include "mainspring/io/json.h"
#include "mainspring/models/export_gguf.h"
#include "mainspring/models/loaded_model.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

constexpr const char* kResults = "tests/golden/llama_cpp/results.json";

TEST(LlamaCpp, ContinuedEveryFileWithTheSameTokens) {
  const Json file = test::read_json(kResults);
  size_t families = 0;
  for (const Json& row : file["results"]) {
    EXPECT_EQ(row["same"], row["prompts"]) << row["file"];
    EXPECT_EQ(row["prompts"], 8) << row["file"];
    families += row["file"].get<std::string>().ends_with(" q8_0") ? 1 : 0;
  }
  EXPECT_EQ(families, 8u);  // each in four types, and two with their tokenizers
  EXPECT_EQ(file["results"].size(), 8u * 4 + 2);
}

class LlamaCppFile : public testing::TestWithParam<const char*> {};

/// "string", or "array/string".
std::string type_of(const GgufValue& value) {
  const auto name = [](GgufType type) {
    const std::string_view name = gguf_type_name(type);
    // Spelt as the gguf package does.
    if (name == "u32") return std::string("uint32");
    if (name == "i32") return std::string("int32");
    if (name == "f32") return std::string("float32");
    return std::string(name);
  };
  return value.type == GgufType::kArray ? "array/" + name(value.element) : name(value.type);
}

TEST_P(LlamaCppFile, HasTheKeysAndTensorsThatLoaded) {
  const std::string label = GetParam();
  const std::string variant = label.substr(0, label.find('+'));
  auto model = *load_model(test::source_path("tests/golden/tiny/" + variant)).value();
  // As in check_llama_cpp.py.
  if (label == variant) model.tokenizer = {};
  if (model.config.family == "gemma2" || model.config.family == "gemma3") {
    model.config.query_scalar = static_cast<float>(model.config.head_width);
  }
  if (model.config.family == "mistral" || model.config.family == "phi3") model.config.window = 256;
  const std::string path = testing::TempDir() + "llama_cpp_" + variant + ".gguf";
  std::filesystem::remove(path);
  const Status status = export_gguf(model, path, {.dtype = DType::kF32});
  ASSERT_TRUE(status.ok()) << status.to_string();
  const auto file = GgufFile::open(path).value();
  Json keys = Json::object();
  for (const auto& [key, value] : file->metadata()) keys[std::string(key)] = type_of(value);
  Json tensors = Json::object();
  for (const auto& [name, tensor] : file->tensors()) tensors[name] = std::string(tensor.type_name);
  const Json expected = test::read_json(kResults)["files"][label];
  std::filesystem::remove(path);
  const auto sorted = [](const Json& json) {
    return json.get<std::map<std::string, std::string>>();
  };
  EXPECT_EQ(sorted(keys), sorted(expected["keys"]));
  EXPECT_EQ(sorted(tensors), sorted(expected["tensors"]));
}

INSTANTIATE_TEST_SUITE_P(Families, LlamaCppFile,
                         testing::Values("llama_gqa", "mistral", "gemma2", "gemma3", "gpt2", "phi3",
                                         "qwen2", "qwen3", "llama_tied+tokenizer",
                                         "qwen2+tokenizer"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '+', '_');
                           return name;
                         });

}  // namespace
}  // namespace mainspring
