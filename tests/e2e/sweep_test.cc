// A sweep on a tiny model: the bits of single runs, failures that are recorded, stop and resume.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/io/json.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/train/sweep.h"
#include "mainspring/train/trainer.h"
#include "tests/support/golden_files.h"
#include "tests/support/tiny_recipe.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

class Sweeps : public testing::Test {
 protected:
  void SetUp() override {
    test::write_tiny_recipe(dir_,
                            "[tune]\nmode = \"full\"\n[train]\nsteps = 6\nbatch_size = 4\n"
                            "[optim]\nlr = 0.002\n[checkpoint]\nevery = 2\n");
  }

  SweepPlan plan(const std::string& axes, const std::vector<std::string>& sets = {}) {
    std::ofstream(dir_ + "/grid.toml") << "recipe = \"" << dir_ << "/recipe.toml\"\n" << axes;
    return load_sweep(dir_ + "/grid.toml", sets).value();
  }

  Result<SweepResult> sweep(const SweepPlan& plan, const std::string& name, bool resume = false,
                            int64_t stop_after = -1) {
    int64_t asked = 0;
    return run_sweep(
        plan,
        {.dir = dir_ + "/" + name,
         .resume = resume,
         .chosen = chosen_points(plan.record, {}).value(),
         .make_executor = []() -> Result<std::unique_ptr<Executor>> {
           return std::unique_ptr<Executor>(test::make_executor());
         },
         .should_stop = [&asked, stop_after] { return stop_after >= 0 && asked++ >= stop_after; },
         .say = [this](const std::string& line) { said_ += line + "\n"; }});
  }

  std::string digest(const std::string& run) {
    return load_newest_checkpoint(dir_ + "/" + run + "/checkpoints")
        .value()
        .checkpoint->manifest.digest;
  }

  // What training decides; times are left out.
  static std::string table(const SweepResult& result) {
    Json json = sweep_json(result.record);
    for (Json& point : json["points"]) {
      point.erase("tokens_per_s");
      point.erase("seconds");
    }
    return json_text(json, 1);
  }

  const TestDir folder_;
  const std::string dir_ = folder_.path();
  std::string said_;
};

constexpr const char* kRates = "[grid]\noptim.lr = [0.001, 0.01]\nseed = [0, 1]\n";

TEST_F(Sweeps, APointHasTheBitsOfARunOfItsOwn) {
  const SweepPlan p = plan(kRates);
  const SweepResult result = sweep(p, "s").value();
  EXPECT_EQ(result.num_failed, 0);
  const auto recipe =
      load_recipe(dir_ + "/recipe.toml", std::vector<std::string>{"optim.lr=0.01", "seed=1"});
  const auto executor = test::make_executor();
  TrainOptions options;
  options.run_dir = dir_ + "/alone";
  const TrainResult alone = run_training(recipe.value(), *executor, options).value();
  const SweepPoint& point = result.record.points[3];
  EXPECT_EQ(digest("alone"), digest("s/" + point.folder));
  EXPECT_EQ(point.eval_loss, alone.last_eval_loss);
  EXPECT_EQ(point.steps, 6);
  for (const char* file : {"sweep.json", "results.json", "results.csv", "sweep.html"}) {
    EXPECT_TRUE(fs::exists(dir_ + "/s/" + file)) << file;
  }
}

TEST_F(Sweeps, StoppedAnywhereAndResumedGivesTheSameTable) {
  const SweepPlan p = plan(kRates);
  const std::string whole = table(sweep(p, "whole").value());
  for (const int64_t stop_after : {0, 5, 13, 24}) {
    const std::string name = "cut" + std::to_string(stop_after);
    const auto cut = sweep(p, name, false, stop_after);
    ASSERT_TRUE(cut.ok()) << cut.status().message();
    EXPECT_TRUE(cut.value().stopped) << stop_after;
    EXPECT_EQ(table(sweep(p, name, true).value()), whole) << stop_after;
  }
}

TEST_F(Sweeps, EndedPointsStayAndNewValuesAreAdded) {
  ASSERT_TRUE(sweep(plan("[grid]\noptim.lr = [0.001]\n"), "s").ok());
  const auto written = fs::last_write_time(dir_ + "/s/points/lr-0.001/metrics.jsonl");
  said_.clear();
  const SweepResult more = sweep(plan("[grid]\noptim.lr = [0.01, 0.001]\n"), "s", true).value();
  EXPECT_EQ(said_, "point lr=0.01\n");
  EXPECT_EQ(fs::last_write_time(dir_ + "/s/points/lr-0.001/metrics.jsonl"), written);
  EXPECT_EQ(more.record.points[0].state, SweepState::kFinished);
  EXPECT_EQ(more.record.points[1].state, SweepState::kFinished);
}

TEST_F(Sweeps, APointThatDivergesIsRecordedAndTheNextOneTrained) {
  const SweepPlan p = plan("[set]\ntrain.max_grad_norm = 0\n[grid]\noptim.lr = [1e30, 0.001]\n");
  const SweepResult result = sweep(p, "s").value();
  EXPECT_EQ(result.record.points[0].state, SweepState::kFailed);
  EXPECT_NE(result.record.points[0].error.find("lower optim.lr"), std::string::npos);
  EXPECT_EQ(result.record.points[1].state, SweepState::kFinished);
  EXPECT_EQ(result.num_failed, 1);
  EXPECT_EQ(result.num_to_retry, 0);
  said_.clear();
  EXPECT_EQ(table(sweep(p, "s", true).value()), table(result));
  EXPECT_EQ(said_, "") << "a diverged point would only diverge again";
}

TEST_F(Sweeps, ABadPointIsRefusedBeforeAnyIsTrained) {
  const auto late = sweep(plan("[grid]\ndata.max_tokens = [64, 4096]\n"), "s");
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.status().message().find("point max_tokens=4096: data.max_tokens: expected at "
                                         "most"),
            std::string::npos)
      << late.status().message();
  EXPECT_FALSE(fs::exists(dir_ + "/s"));
  const auto no_rows = sweep(plan("[set]\ndata.held_out = 0.0\n[grid]\nseed = [0]\n"), "s");
  ASSERT_FALSE(no_rows.ok());
  EXPECT_NE(no_rows.status().message().find("needs held-out rows"), std::string::npos);
}

TEST_F(Sweeps, AnotherRecipeInTheSameFolderIsRefused) {
  const std::string axes = "[grid]\nseed = [0]\n";
  ASSERT_TRUE(sweep(plan(axes), "s").ok());
  const auto again = sweep(plan(axes), "s");
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.status().message().find("--resume"), std::string::npos);
  const auto other = sweep(plan(axes, {"optim.beta1=0.5"}), "s", true);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.status().message().find("optim.beta1 0.9 -> 0.5"), std::string::npos)
      << other.status().message();
  EXPECT_FALSE(sweep(plan(axes), "none", true).ok());
  EXPECT_TRUE(sweep(plan("title = \"another\"\n" + axes), "s", true).ok());
}

TEST_F(Sweeps, ARemovedPointIsTrainedAgain) {
  const SweepPlan p = plan("[grid]\nseed = [0, 1]\n");
  const SweepResult first = sweep(p, "s").value();
  fs::remove_all(dir_ + "/s/points/seed-0");
  said_.clear();
  EXPECT_EQ(table(sweep(p, "s", true).value()), table(first));
  EXPECT_EQ(said_, "point seed=0\n");
}

}  // namespace
}  // namespace mainspring
