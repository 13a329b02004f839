// `kill -9` of a reinforcement learning run at any moment, then --resume: the same bits as the run
// that was never killed, in its weights, its metrics and its rollouts.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/io/json.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/train/rl/rollout_records.h"
#include "tests/faults/run_program.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

class KilledRl : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(dir_ + "/recipe.toml")
        << "kind = \"rl\"\nseed = 1\n[model]\nfamily = \"llama\"\nlayers = 1\nhidden = 32\n"
        << "heads = 2\nvocab = 12\ncontext = 32\ntokenizer = \"none\"\ndtype = \"f32\"\n"
        << "init_std = 0.3\n[tune]\nmode = \"full\"\n[env]\nname = \"max\"\n"
        << "[rl]\nalgorithm = \"dapo\"\ncurriculum = true\nprompts_per_step = 8\n"
        << "group_size = 4\nmax_new_tokens = 3\nmax_tokens = 8\neval_every = 7\n"
        << "eval_prompts = 10\n[train]\nsteps = 40\n[optim]\nlr = 0.003\n"
        << "[checkpoint]\nevery = 3\n";
  }

  std::vector<std::string> arguments(const std::string& run) const {
    std::vector<std::string> result{"train",          dir_ + "/recipe.toml", "--run-dir",
                                    dir_ + "/" + run, "--threads",           "1"};
    if (fs::exists(dir_ + "/" + run)) result.push_back("--resume");
    return result;
  }

  int64_t num_steps(const std::string& run) const {
    const auto steps = recorded_steps(dir_ + "/" + run);
    return steps.empty() ? 0 : steps.back();
  }

  std::string digest(const std::string& run) const {
    return load_newest_checkpoint(dir_ + "/" + run + "/checkpoints")
        .value()
        .checkpoint->manifest.digest;
  }

  // What training decides of a step's line; times are left out.
  std::vector<std::string> lines(const std::string& run) const {
    std::vector<std::string> all;
    std::ifstream file(dir_ + "/" + run + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const Json json = parse_json(line, run).value();
      Json kept;
      for (const char* key : {"step", "loss_sum", "grad_norm", "reward/mean", "length/mean",
                              "groups/sampled", "mismatch/max_abs"}) {
        kept[key] = json.at(key);
      }
      all.push_back(json_text(kept));
    }
    return all;
  }

  TestDir folder_;
  const std::string& dir_ = folder_.path();
};

TEST_F(KilledRl, AtAnyMomentAndResumedGivesTheSameBits) {
  ASSERT_EQ(run_program(dir_, arguments("whole"), -1), 0);
  int kills = 0;
  for (const int64_t steps : {1, 4, 9, 10, 17, 26, 38}) {
    const int status =
        run_program_until(dir_, arguments("cut"), [&] { return num_steps("cut") >= steps; });
    if (WIFSIGNALED(status)) ++kills;
  }
  EXPECT_GE(kills, 5) << "few kills hit the run: it is too short for this test";
  for (const int kill_ms : {25, 60}) run_program(dir_, arguments("cut"), kill_ms);
  ASSERT_EQ(run_program(dir_, arguments("cut"), -1), 0);
  EXPECT_EQ(digest("whole"), digest("cut"));
  EXPECT_EQ(lines("whole"), lines("cut"));
  ASSERT_EQ(recorded_steps(dir_ + "/cut"), recorded_steps(dir_ + "/whole"));
  for (const int64_t step : recorded_steps(dir_ + "/whole")) {
    const auto whole = read_rollouts(dir_ + "/whole", step).value();
    const auto cut = read_rollouts(dir_ + "/cut", step).value();
    ASSERT_EQ(whole.advantages, cut.advantages) << step;
    for (size_t g = 0; g < whole.groups.size(); ++g) {
      EXPECT_EQ(whole.groups[g].task_index, cut.groups[g].task_index);
      for (size_t s = 0; s < whole.groups[g].samples.size(); ++s) {
        EXPECT_EQ(whole.groups[g].samples[s].branches[0].tokens,
                  cut.groups[g].samples[s].branches[0].tokens);
        EXPECT_EQ(whole.groups[g].samples[s].branches[0].logprobs,
                  cut.groups[g].samples[s].branches[0].logprobs);
      }
    }
  }
}

}  // namespace
}  // namespace mainspring
