// A mixture that changes where a run is resumed: the same bits however often it is stopped.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/train/trainer.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

class MixtureRun : public testing::Test {
 protected:
  void SetUp() override {
    for (int file = 0; file < 3; ++file) {
      std::ofstream rows(path(file));
      for (int i = 0; i < 20 + 3 * file; ++i) {
        rows << "{\"tokens\": [";
        for (int t = 0; t < 10 + i % 5; ++t)
          rows << (t > 0 ? ", " : "") << (7 * t + 31 * file + i % 4) % 200;
        rows << "]}\n";
      }
    }
    std::ofstream(dir_ + "/recipe.toml")
        << "seed = 3\n[model]\npath = \"" << test::source_path("tests/golden/tiny/llama_gqa")
        << "\"\n[data]\nfiles = [\"" << path(0) << "\"]\nmax_tokens = 64\nformat = \"tokens\"\n"
        << "[tune]\nrank = 4\n[train]\nsteps = 18\nbatch_size = 3\n[optim]\nlr = 0.01\n"
        << "[checkpoint]\nevery = 2\nkeep_last = 9\n";
  }
  std::string path(int file) const { return dir_ + "/rows" + std::to_string(file) + ".jsonl"; }
  std::string files(int n) const {
    std::string list;
    for (int file = 0; file < n; ++file) list += (file > 0 ? ", \"" : "\"") + path(file) + "\"";
    return "data.files=[" + list + "]";
  }
  // Trains until `step` is done.
  Status go(const std::string& name, const std::vector<std::string>& sets, int64_t step) {
    const auto recipe = load_recipe(dir_ + "/recipe.toml", sets);
    if (!recipe.ok()) return recipe.status();
    const std::string run = dir_ + "/" + name;
    const bool resume = std::filesystem::exists(run);
    const int64_t done = resume ? newest(name).state.step : 0;
    const auto executor = test::make_executor();
    int64_t asked = 0;
    return run_training(*recipe, *executor,
                        {.run_dir = run,
                         .resume = resume,
                         .dry_run = false,
                         .should_stop = [&] { return asked++ >= step - done; },
                         .facts = {},
                         .say = {}})
        .status();
  }
  Checkpoint newest(const std::string& name) const {
    return load_newest_checkpoint(dir_ + "/" + name + "/checkpoints").value().checkpoint.value();
  }
  std::string digest(const std::string& name) const { return newest(name).manifest.digest; }
  std::string events(const std::string& name) const {
    std::ifstream in(dir_ + "/" + name + "/events.jsonl", std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TestDir folder_;
  const std::string& dir_ = folder_.path();
  const std::vector<std::string> second_{files(2), "data.weights=[1, 2]"};
  const std::vector<std::string> third_{files(3), "data.weights=[0, 1, 3]"};
};

TEST_F(MixtureRun, ChangedTwiceAtResumeGivesTheSameBitsHoweverOftenItIsStopped) {
  ASSERT_TRUE(go("whole", {}, 6).ok());
  ASSERT_TRUE(go("whole", second_, 12).ok());
  ASSERT_TRUE(go("whole", third_, 18).ok());

  for (const int64_t step : {3, 6}) ASSERT_TRUE(go("cut", {}, step).ok()) << step;
  for (const int64_t step : {7, 10, 12}) ASSERT_TRUE(go("cut", second_, step).ok()) << step;
  for (const int64_t step : {13, 18}) ASSERT_TRUE(go("cut", third_, step).ok()) << step;
  EXPECT_EQ(digest("cut"), digest("whole"));

  const DataState data = newest("cut").state.data;
  ASSERT_EQ(data.mixture.size(), 3u);
  EXPECT_EQ(data.mixture[1].from_sample, 18u);
  EXPECT_EQ(data.mixture[2].from_sample, 36u);
  EXPECT_EQ(data.cursors.size(), 3u);
  EXPECT_GT(data.cursors[2], 0);

  ASSERT_TRUE(go("unchanged", {}, 18).ok());
  EXPECT_NE(digest("unchanged"), digest("whole"));
}

TEST_F(MixtureRun, TheChangeIsWrittenDown) {
  ASSERT_TRUE(go("run", {}, 4).ok());
  ASSERT_TRUE(go("run", second_, 6).ok());
  const std::string text = events("run");
  EXPECT_NE(text.find("\"mixture\""), std::string::npos) << text;
  EXPECT_NE(text.find("mixture from sample 12 on: " + path(0) + " 33.3 %, " + path(1) + " 66.7 %"),
            std::string::npos)
      << text;
  const size_t once = text.find("mixture from sample");
  EXPECT_EQ(text.find("mixture from sample", once + 1), std::string::npos);
  ASSERT_TRUE(go("run", second_, 8).ok());
  EXPECT_EQ(events("run").find("mixture from sample", once + 1), std::string::npos)
      << "the same mixture is no change";
}

TEST_F(MixtureRun, AFallBackToACheckpointBeforeTheChangeAppliesItThere) {
  ASSERT_TRUE(go("run", {}, 6).ok());
  ASSERT_TRUE(go("run", second_, 8).ok());
  std::filesystem::remove_all(dir_ + "/run/checkpoints/step-000008");
  std::filesystem::remove_all(dir_ + "/run/checkpoints/step-000006");
  ASSERT_TRUE(go("run", second_, 12).ok());
  ASSERT_TRUE(go("straight", {}, 4).ok());
  ASSERT_TRUE(go("straight", second_, 12).ok());
  EXPECT_EQ(digest("run"), digest("straight"));
}

TEST_F(MixtureRun, ASourceThatIsGoneIsRefusedWithTheWayOut) {
  ASSERT_TRUE(go("run", second_, 4).ok());
  const Status gone = go("run", {}, 6);
  EXPECT_EQ(gone.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(gone.message().find("source 2 is gone"), std::string::npos) << gone.message();
  EXPECT_NE(gone.message().find("weight 0"), std::string::npos) << gone.message();
  ASSERT_TRUE(go("run", {files(2), "data.weights=[1, 0]"}, 6).ok()) << "its place with weight 0";
}

}  // namespace
}  // namespace mainspring
