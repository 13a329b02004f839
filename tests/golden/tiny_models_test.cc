// Every variant of the tiny models against transformers in f32: logits, loss and every gradient.
#include <gtest/gtest.h>

#include "mainspring/engine/engine.h"
#include "mainspring/models/decoder.h"
#include "mainspring/models/file_layout.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/sample/forward_model.h"
#include "mainspring/weights/dequantise.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

using test::distance;

struct Golden {
  std::shared_ptr<const LoadedModel> model;
  Json json;
  Safetensors tensors;
  std::vector<std::vector<int32_t>> sequences;
};

Golden load_golden(const std::string& folder) {
  Golden golden;
  golden.model = load_model(test::source_path(folder)).value();
  golden.json = test::read_json(folder + "/golden.json");
  golden.tensors = open_safetensors(test::source_path(folder + "/golden.safetensors")).value();
  for (const Json& sequence : golden.json["sequences"]) {
    golden.sequences.push_back(sequence["tokens"].get<std::vector<int32_t>>());
  }
  return golden;
}

std::vector<Datum> datums_of(const Golden& golden) {
  std::vector<Datum> datums;
  for (const auto& tokens : golden.sequences) {
    datums.push_back(make_next_token_datum(tokens, std::vector<uint8_t>(tokens.size(), 1)));
  }
  return datums;
}

class TinyModel : public testing::TestWithParam<const char*> {};

TEST_P(TinyModel, LogitsEqualTransformers) {
  const Golden golden = load_golden(std::string("tests/golden/tiny/") + GetParam());
  const auto executor = test::make_executor();
  const ParameterSet base = borrow_parameters(*executor, golden.model->weights);
  ForwardModel model{.compute = DType::kF32,
                     .config = golden.model->config,
                     .base = &base,
                     .adapters = {},
                     .weight_version = 0};
  auto forward =
      Forward::create(
          *executor, model,
          {.ending = Forward::Ending::kLogits, .capacity = {128, 128}, .rope_positions = 128})
          .value();
  for (size_t s = 0; s < golden.sequences.size(); ++s) {
    const auto& tokens = golden.sequences[s];
    std::copy(tokens.begin(), tokens.end(), forward->tokens());
    const Segment segment{.row_begin = 0, .num_rows = static_cast<int32_t>(tokens.size())};
    std::vector<int32_t> picked(tokens.size());
    for (size_t i = 0; i < picked.size(); ++i) picked[i] = static_cast<int32_t>(i);
    const RowTable table{static_cast<int32_t>(tokens.size()), {&segment, 1}, picked};
    forward->run(table, nullptr);
    const SafetensorsEntry& expected = golden.tensors.tensors.at("logits." + std::to_string(s));
    EXPECT_LT(distance(forward->result(), reinterpret_cast<const float*>(expected.data),
                       tokens.size() * static_cast<size_t>(golden.model->config.vocabulary)),
              2e-5)
        << "sequence " << s;
  }
}

TEST_P(TinyModel, LossAndEveryGradientEqualTransformers) {
  const Golden golden = load_golden(std::string("tests/golden/tiny/") + GetParam());
  const auto executor = test::make_executor();
  auto engine =
      Engine::create(golden.model, *executor, {.compute = DType::kF32, .max_sequence_tokens = 128})
          .value();
  const ModelId id = engine->add_full().value();
  const auto result = engine->forward_backward(id, datums_of(golden), "cross_entropy").value();
  const double expected_loss = golden.json["loss_sum"].get<double>();
  EXPECT_NEAR(result.loss_sum, expected_loss, 1e-4 * expected_loss);
  EXPECT_EQ(result.weight_sum, golden.json["token_count"].get<double>());
  const TensorSet gradients = engine->gradients(id).value();
  size_t num_parts = 0;
  for (const FileTensor& file : file_tensors(golden.model->config)) {
    const auto expected = golden.tensors.tensors.find("grad." + file.name);
    ASSERT_NE(expected, golden.tensors.tensors.end()) << file.name;
    std::vector<StoredTensor> parts;
    for (const ParameterSpec& part : file.parts) parts.push_back(gradients.at(part.name));
    num_parts += parts.size();
    const std::vector<float> got = read_f32(join_parts(file, parts));
    ASSERT_EQ(expected->second.size_bytes, static_cast<int64_t>(got.size() * sizeof(float)));
    EXPECT_LT(
        distance(got.data(), reinterpret_cast<const float*>(expected->second.data), got.size()),
        1e-4)
        << file.name;
  }
  EXPECT_EQ(num_parts, gradients.size());
}

INSTANTIATE_TEST_SUITE_P(AllVariants, TinyModel,
                         testing::Values("llama_tied", "llama_untied", "llama_gqa", "llama_headdim",
                                         "llama_bias", "llama_rope_llama3", "llama_rope_linear",
                                         "llama_bf16", "llama_sharded", "qwen2", "qwen3", "mistral",
                                         "phi3", "qwen2_window", "gemma2", "gemma3", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mainspring
