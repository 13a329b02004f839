// recipes/dpo.toml on SmolLM2: the first loss is log 2, since policy and reference are one model.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "mainspring/io/test_dir.h"
#include "mainspring/train/trainer.h"
#include "tests/support/golden_files.h"
#include "tests/support/smollm2.h"

namespace mainspring {
namespace {

TEST(SmolLM2Dpo, TheFirstLossIsLogTwo) {
  const TestDir dir;
  const auto recipe = load_recipe(test::source_path("recipes/dpo.toml"),
                                  {"model.path=" + test::smollm2_path(),
                                   "data.files=" + test::source_path("recipes/preferences.jsonl"),
                                   "train.steps=2", "train.batch_size=2", "train.eval_rows=2",
                                   "optim.warmup_steps=0", "train.sample_prompts=[]"});
  ASSERT_TRUE(recipe.ok()) << recipe.status().to_string();
  const auto executor = test::make_executor();
  TrainOptions options;
  options.run_dir = dir.file("run");
  const auto result = run_training(*recipe, *executor, options);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_NEAR(result->first_eval_loss, std::log(2.0), 1e-6);
  std::ifstream metrics(dir.file("run/metrics.jsonl"));
  std::vector<double> losses;
  for (std::string line; std::getline(metrics, line);) {
    losses.push_back(parse_json(line, "metrics.jsonl").value()["loss"].get<double>());
  }
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_NEAR(losses[0], std::log(2.0), 1e-6);
  EXPECT_LT(result->last_eval_loss, result->first_eval_loss);
}

}  // namespace
}  // namespace mainspring
