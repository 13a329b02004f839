// Loss spikes put into a run: what train.spikes makes of them.
#include <gtest/gtest.h>

#include <fstream>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/train/trainer.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

using Spoil = std::function<void(std::vector<Datum>&, double&)>;

constexpr uint64_t kBadSample = 60;  // of the batch of step 15

bool is_bad(const std::vector<Datum>& datums) {
  return datums.front().sample_index <= kBadSample && kBadSample <= datums.back().sample_index;
}

// The bad batch is to predict nothing but `token`.
Spoil garbage(int32_t token) {
  return [token](std::vector<Datum>& datums, double&) {
    if (!is_bad(datums)) return;
    for (Datum& datum : datums) std::fill(datum.targets.begin(), datum.targets.end(), token);
  };
}

// Its step is so much too long: its own loss is usual, the next one is not.
Spoil too_long(double factor) {
  return [factor](std::vector<Datum>& datums, double& rate_factor) {
    if (is_bad(datums)) rate_factor = factor;
  };
}

class Spikes : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream rows(dir_.path() + "/rows.jsonl");
    for (int i = 0; i < 24; ++i) {
      rows << "{\"tokens\": [";
      for (int t = 0; t < 12 + i % 5; ++t) rows << (t > 0 ? ", " : "") << (7 * t + i % 3) % 200;
      rows << "]}\n";
    }
    std::ofstream(dir_.path() + "/recipe.toml")
        << "seed = 3\n[model]\npath = \"" << test::source_path("tests/golden/tiny/llama_gqa")
        << "\"\n[data]\nfiles = [\"" << dir_.path()
        << "/rows.jsonl\"]\nmax_tokens = 64\nformat = \"tokens\"\nheld_out = 0.2\n"
        << "[tune]\nmode = \"full\"\n[train]\nsteps = 24\nbatch_size = 4\nspike_window = 8\n"
        << "spike_factor = 5\n"
        << "[optim]\nlr = 0.002\nschedule = \"constant\"\n[checkpoint]\nevery = 4\n";
  }

  Result<TrainResult> run(const std::string& name, const std::vector<std::string>& sets,
                          const Spoil& spoil, bool resume = false, int64_t stop_after = -1) {
    const auto recipe = load_recipe(dir_.path() + "/recipe.toml", sets);
    if (!recipe.ok()) return recipe.status();
    const auto executor = test::make_executor();
    int64_t asked = 0;
    return run_training(*recipe, *executor,
                        {.run_dir = dir_.path() + "/" + name,
                         .resume = resume,
                         .dry_run = false,
                         .should_stop = [&] { return stop_after >= 0 && asked++ >= stop_after; },
                         .before_step = spoil,
                         .facts = {},
                         .say = {}});
  }

  std::string digest(const std::string& name) {
    return load_newest_checkpoint(dir_.path() + "/" + name + "/checkpoints")
        .value()
        .checkpoint->manifest.digest;
  }

  const TestDir dir_;
};

TEST_F(Spikes, ASkippedBatchLeavesNoTrace) {
  const std::vector<std::string> skip{"train.spikes=skip"};
  ASSERT_TRUE(run("a", skip, garbage(150)).ok());
  ASSERT_TRUE(run("b", skip, garbage(199)).ok());
  EXPECT_EQ(digest("a"), digest("b"));
  EXPECT_NE(dir_.read("a/events.jsonl").find("step 16 not applied: its loss"), std::string::npos)
      << dir_.read("a/events.jsonl");
  ASSERT_TRUE(run("c", {"train.spikes=ignore"}, garbage(150)).ok());
  ASSERT_TRUE(run("d", {"train.spikes=ignore"}, garbage(199)).ok());
  EXPECT_NE(digest("c"), digest("d"));
}

TEST_F(Spikes, ARollbackGoesBackAndLeavesTheSpoilingBatchOut) {
  const std::vector<std::string> back{"train.spikes=rollback"};
  const TrainResult a = run("a", back, too_long(500)).value();
  ASSERT_TRUE(run("b", back, too_long(900)).ok());
  EXPECT_EQ(digest("a"), digest("b"));
  EXPECT_EQ(a.steps_done, 24);
  const std::string events = dir_.read("a/events.jsonl");
  EXPECT_NE(
      events.find("step 16 spoiled the weights: back to step 12, its batch (samples 60 to 63) "
                  "is left out"),
      std::string::npos)
      << events;
  const TrainResult ignored = run("c", {"train.spikes=ignore"}, too_long(500)).value();
  EXPECT_LT(a.last_eval_loss, ignored.last_eval_loss - 0.5);
}

TEST_F(Spikes, ARollbackSkipsABatchThatSpoiledNothing) {
  ASSERT_TRUE(run("a", {"train.spikes=rollback"}, garbage(150)).ok());
  const std::string events = dir_.read("a/events.jsonl");
  EXPECT_NE(events.find("step 16 not applied"), std::string::npos) << events;
  EXPECT_EQ(events.find("spoiled"), std::string::npos);
}

TEST_F(Spikes, AStoppedRunGoesOnToTheSameBitsOnEverySide) {
  const std::vector<std::string> back{"train.spikes=rollback"};
  ASSERT_TRUE(run("whole", back, too_long(500)).ok());
  for (int64_t stop : {14, 16, 19}) {  // before the spike, after the rollback, past it
    const std::string name = "cut" + std::to_string(stop);
    ASSERT_TRUE(run(name, back, too_long(500), false, stop).ok());
    ASSERT_TRUE(run(name, back, too_long(500), true).ok());
    EXPECT_EQ(digest(name), digest("whole")) << stop;
  }
}

TEST_F(Spikes, TooManyEndTheRun) {
  const auto always = [](std::vector<Datum>& datums, double&) {
    if (datums.front().sample_index < kBadSample) return;
    for (Datum& datum : datums) std::fill(datum.targets.begin(), datum.targets.end(), 150);
  };
  const auto result = run("a", {"train.spikes=skip", "train.max_spikes=3"}, always);
  EXPECT_EQ(result.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(result.status().message().find("4 loss spikes"), std::string::npos)
      << result.status().to_string();
}

TEST_F(Spikes, ARollbackWithoutCheckpointsIsRefused) {
  EXPECT_NE(run("a", {"train.spikes=rollback", "checkpoint.every=0"}, {})
                .status()
                .message()
                .find("set checkpoint.every"),
            std::string::npos);
  EXPECT_NE(run("a", {"train.spikes=rollback", "checkpoint.keep_last=1"}, {})
                .status()
                .message()
                .find("checkpoint.keep_last of 2 or more"),
            std::string::npos);
  EXPECT_NE(run("a", {"train.spikes=rolback"}, {}).status().message().find("\"rollback\""),
            std::string::npos);
}

}  // namespace
}  // namespace mainspring
