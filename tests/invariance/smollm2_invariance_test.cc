// Promise 1 on the real model: the checks of `mainspring verify`, in bf16.
#include <gtest/gtest.h>

#include "mainspring/train/exactness_checks.h"
#include "tests/support/golden_files.h"
#include "tests/support/smollm2.h"

namespace mainspring {
namespace {

TEST(SmolLM2Invariance, EveryWayOfComputingGivesTheSameBits) {
  const auto model = load_model(test::smollm2_path());
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  ExactnessOptions options;
  options.make_executor = [](const std::string& isa, int threads) {
    return cpu::make_cpu_executor({.num_threads = threads, .isa = isa});
  };
  for (const ExactnessCheck& check : run_exactness_checks(*model, options, {})) {
    EXPECT_TRUE(check.equal) << check.name << ": " << check.detail;
  }
}

}  // namespace
}  // namespace mainspring
