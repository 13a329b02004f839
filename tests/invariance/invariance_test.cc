// Promise 1 on tiny models and on SmolLM2: bit equality across everything that must not matter.
#include <gtest/gtest.h>

#include <cstdlib>

#include "mainspring/exec/cpu/isa.h"
#include "mainspring/train/exactness_checks.h"
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

void expect_all_hold(const std::string& path, const ExactnessOptions& options, size_t num_checks) {
  const auto model = load_model(path);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  const auto checks = run_exactness_checks(*model, options, {});
  EXPECT_EQ(checks.size(), num_checks);
  for (const ExactnessCheck& check : checks) {
    EXPECT_TRUE(check.equal) << path << ": " << check.name << ": " << check.detail;
  }
}

class TinyInvariance : public testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(TinyInvariance, EveryWayOfComputingGivesTheSameBits) {
  const auto& [variant, compute] = GetParam();
  ExactnessOptions options = options_for(compute, true);
  for (cpu::Isa isa : cpu::supported_isas()) options.isas.emplace_back(cpu::isa_name(isa));
  expect_all_hold(test::source_path(std::string("tests/golden/tiny/") + variant), options,
                  15 + 2 * (options.isas.size() - 1));
}

INSTANTIATE_TEST_SUITE_P(Variants, TinyInvariance,
                         testing::Combine(testing::Values("llama_gqa", "llama_tied", "llama_bias",
                                                          "qwen2", "qwen3"),
                                          testing::Values(DType::kBF16, DType::kF32)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::string(dtype_name(std::get<1>(info.param)));
                         });

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
