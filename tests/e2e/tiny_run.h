// A tiny model trained from a recipe in a folder of its own: what several tests share.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/train/trainer.h"
#include "tests/support/golden_files.h"
#include "tests/support/tiny_recipe.h"

namespace mainspring {

/// How far a call goes, and on what.
struct TinyRunPart {
  bool resume = false;
  int64_t stop_after = -1;  // steps; -1: never
  int threads = 2;
  std::string isa = {};
};

class TinyRun : public testing::Test {
 protected:
  void SetUp() override {
    test::write_tiny_recipe(
        dir_,
        "[tune]\nmode = \"full\"\nrank = 4\n[train]\nsteps = 20\nbatch_size = 4\n"
        "[optim]\nlr = 0.002\n");
  }

  Result<TrainResult> run(const std::string& name, const std::vector<std::string>& sets,
                          const TinyRunPart& part = {}) {
    const auto recipe = load_recipe(dir_ + "/recipe.toml", sets);
    if (!recipe.ok()) return recipe.status();
    const auto executor = test::make_executor(part.threads, part.isa);
    int64_t asked = 0;
    said_.clear();
    samples_.clear();
    TrainOptions options;
    options.run_dir = dir_ + "/" + name;
    options.resume = part.resume;
    options.should_stop = [&] { return part.stop_after >= 0 && asked++ >= part.stop_after; };
    options.before_step = [&](std::vector<Datum>& datums, double&) {
      std::vector<uint64_t>& batch = samples_.emplace_back();
      for (const Datum& datum : datums) batch.push_back(datum.sample_index);
    };
    options.say = [&](const std::string& line) { said_ += line + "\n"; };
    return run_training(*recipe, *executor, options);
  }

  std::string refusal(const std::vector<std::string>& sets) {
    return run("refused", sets).status().message();
  }

  Checkpoint newest(const std::string& name) {
    return *load_newest_checkpoint(dir_ + "/" + name + "/checkpoints").value().checkpoint;
  }
  std::string digest(const std::string& name) { return newest(name).manifest.digest; }

  /// A cut and resumed run's digest is that of one that was not; both are left in the folder.
  void expect_resumes(const std::string& name, const std::vector<std::string>& sets) {
    ASSERT_TRUE(run(name + "-whole", sets).ok());
    ASSERT_TRUE(run(name + "-cut", sets, {.stop_after = 7}).ok());
    const auto resumed = run(name + "-cut", sets, {.resume = true});
    ASSERT_TRUE(resumed.ok()) << resumed.status().to_string();
    EXPECT_EQ(digest(name + "-whole"), digest(name + "-cut")) << name;
  }

  std::string text(const std::string& name) {
    std::ifstream in(dir_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TestDir folder_;
  const std::string& dir_ = folder_.path();
  std::string said_;
  std::vector<std::vector<uint64_t>> samples_;  // of the last run's batches
};

}  // namespace mainspring
