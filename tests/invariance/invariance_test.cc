// Promise 1 on tiny models and on SmolLM2: bit equality across everything that must not matter.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "mainspring/exec/cpu/isa.h"
#include "mainspring/train/exactness_checks.h"
#include "mainspring/weights/dequantise.h"
#include "mainspring/weights/quantise.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

ExactnessOptions options_for(DType compute, bool full) {
  ExactnessOptions options;
  options.make_executor = [](const std::string& isa, int threads) {
    return cpu::make_cpu_executor({.num_threads = threads, .isa = isa});
  };
  options.compute = compute;
  options.full_weights = full;
  return options;
}

void expect_all_hold(const std::shared_ptr<const LoadedModel>& model,
                     const ExactnessOptions& options, size_t num_checks) {
  const auto checks = run_exactness_checks(model, options, {});
  EXPECT_EQ(checks.size(), num_checks);
  for (const ExactnessCheck& check : checks) {
    EXPECT_TRUE(check.equal) << model->path << ": " << check.name << ": " << check.detail;
  }
}

class TinyInvariance : public testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(TinyInvariance, EveryWayOfComputingGivesTheSameBits) {
  const auto& [variant, compute] = GetParam();
  ExactnessOptions options = options_for(compute, true);
  for (cpu::Isa isa : cpu::supported_isas()) options.isas.emplace_back(cpu::isa_name(isa));
  const auto model = load_model(test::source_path(std::string("tests/golden/tiny/") + variant));
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  expect_all_hold(*model, options, 16 + 2 * (options.isas.size() - 1));
}

INSTANTIATE_TEST_SUITE_P(
    Variants, TinyInvariance,
    testing::Combine(testing::Values("llama_gqa", "llama_tied", "llama_bias", "qwen2", "qwen3",
                                     "mistral", "phi3", "qwen2_window", "gemma2", "gemma3", "gpt2"),
                     testing::Values(DType::kBF16, DType::kF32)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param)) + "_" +
             std::string(dtype_name(std::get<1>(info.param)));
    });

/// One layer of width 256 whose linears are blocks of ggml's, a kind each.
std::shared_ptr<LoadedModel> model_of_blocks() {
  const Safetensors file =
      open_safetensors(test::source_path("tests/golden/ggml_blocks/blocks.safetensors")).value();
  const std::map<std::string, std::pair<std::string, DType>> kinds = {
      {"q_proj", {"Q4_K", DType::kQ4_K}},    {"k_proj", {"Q5_K", DType::kQ5_K}},
      {"v_proj", {"Q6_K", DType::kQ6_K}},    {"o_proj", {"Q5_0", DType::kQ5_0}},
      {"gate_proj", {"Q5_1", DType::kQ5_1}}, {"up_proj", {"Q6_K", DType::kQ6_K}},
      {"down_proj", {"Q4_K", DType::kQ4_K}}};
  auto model = std::make_shared<LoadedModel>();
  model->path = "model of blocks";
  ModelConfig& c = model->config;
  c = load_model(test::source_path("tests/golden/tiny/llama_gqa")).value()->config;
  c.layers = 1;
  c.d = c.ffn = 256;
  c.query_heads = 4;
  c.kv_heads = 2;
  c.head_width = 64;
  for (const ParameterSpec& spec : model_parameters(c)) {
    int64_t count = 1;
    for (const int64_t dim : spec.shape) count *= dim;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>((i * 7919 + 13) % 1009) / 1009.0f - 0.3f);
    StoredTensor tensor = make_tensor(spec.name, spec.shape, DType::kF32, values);
    for (const auto& [module, kind] : kinds) {
      if (spec.name.find(module) == std::string::npos) continue;
      const SafetensorsEntry& blocks = file.tensors.at(kind.first + ".blocks");
      tensor.dtype = kind.second;
      tensor.size_bytes = dtype_bytes(kind.second, count);
      auto bytes = std::make_shared<std::vector<uint8_t>>();
      while (static_cast<int64_t>(bytes->size()) < tensor.size_bytes)
        bytes->insert(bytes->end(), blocks.data, blocks.data + blocks.size_bytes / 3);
      tensor.data = bytes->data();
      tensor.owner = bytes;
    }
    model->weights.emplace(spec.name, std::move(tensor));
  }
  return model;
}

TEST(Invariance, ABaseOfGgufsBlocksIsOneModelHoweverItIsComputed) {
  for (const DType compute : {DType::kBF16, DType::kF32}) {
    ExactnessOptions options = options_for(compute, false);
    for (cpu::Isa isa : cpu::supported_isas()) options.isas.emplace_back(cpu::isa_name(isa));
    expect_all_hold(model_of_blocks(), options, 16 + 2 * (options.isas.size() - 1));
  }
}

// Every matrix, embedding and head included; the tiny model's rows are no multiple of a block.
TEST(Invariance, ABaseOfInt8RowsIsOneModelHoweverItIsComputed) {
  auto model = std::make_shared<LoadedModel>(
      *load_model(test::source_path("tests/golden/tiny/llama_gqa")).value());
  for (auto& [name, tensor] : model->weights) {
    if (tensor.shape.size() == 2) tensor = quantise(tensor, DType::kInt8).value();
  }
  for (const DType compute : {DType::kBF16, DType::kF32}) {
    ExactnessOptions options = options_for(compute, true);
    for (cpu::Isa isa : cpu::supported_isas()) options.isas.emplace_back(cpu::isa_name(isa));
    expect_all_hold(model, options, 16 + 2 * (options.isas.size() - 1));
  }
}

// A check that could not fail would be no check: a changed seed, weight or way must be seen.
TEST(Invariance, AChangedModelIsSeenAsDifferent) {
  const auto model = load_model(test::source_path("tests/golden/tiny/llama_gqa")).value();
  const Datum datum = make_random_datum(model->config.vocabulary, 20, 3);
  const auto executor = test::make_executor();
  auto engine = Engine::create(model, *executor, {.max_sequence_tokens = 64}).value();
  const ModelId a = engine->add_adapter(make_random_adapter(model->config, 1, 4, 0.1f), 5).value();
  const ModelId b = engine->add_adapter(make_random_adapter(model->config, 1, 4, 0.1f), 6).value();
  const auto first = engine->forward(a, {&datum, 1}, "cross_entropy").value();
  const auto second = engine->forward(b, {&datum, 1}, "cross_entropy").value();
  EXPECT_NE(first.logprobs, second.logprobs) << "another dropout key must give another mask";
}

}  // namespace
}  // namespace mainspring
