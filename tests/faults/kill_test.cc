// `kill -9` at random moments, then --resume: the same bits as the run that was never killed.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/data/shard_set.h"
#include "mainspring/io/json.h"
#include "mainspring/io/test_dir.h"
#include "tests/faults/run_program.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

class Killed : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream rows(dir_ + "/rows.jsonl");
    for (int i = 0; i < 40; ++i) {
      rows << "{\"tokens\": [";
      for (int t = 0; t < 20 + i % 7; ++t) rows << (t > 0 ? ", " : "") << (11 * t + i) % 200;
      rows << "]}\n";
    }
    std::ofstream(dir_ + "/recipe.toml")
        << "[model]\npath = \"" << test::source_path("tests/golden/tiny/llama_gqa")
        << "\"\n[data]\nfiles = [\"" << dir_
        << "/rows.jsonl\"]\nmax_tokens = 64\nformat = \"tokens\"\n"
        << "[tune]\nmode = \"full\"\n[train]\nsteps = 60\nbatch_size = 4\n"
        << "[optim]\nlr = 0.001\n[checkpoint]\nevery = 3\n";
  }

  // Starts `mainspring train`, kills it after `kill_ms` (never if < 0), and gives its exit status.
  int train(const std::string& run, bool resume, int kill_ms,
            const std::vector<std::string>& sets = {}) {
    std::vector<std::string> arguments{"train",          dir_ + "/recipe.toml", "--run-dir",
                                       dir_ + "/" + run, "--threads",           "1"};
    if (resume) arguments.push_back("--resume");
    for (const std::string& set : sets) {
      arguments.push_back("--set");
      arguments.push_back(set);
    }
    return run_program(dir_, std::move(arguments), kill_ms);
  }

  std::string digest(const std::string& run) {
    return load_newest_checkpoint(dir_ + "/" + run + "/checkpoints")
        .value()
        .checkpoint->manifest.digest;
  }

  TestDir folder_;
  const std::string& dir_ = folder_.path();
};

TEST_F(Killed, AtRandomMomentsAndResumedGivesTheSameBits) {
  ASSERT_EQ(train("whole", false, -1), 0);
  int kills = 0;
  for (int kill_ms : {40, 90, 170, 260, 390, 530}) {
    const bool first = !fs::exists(dir_ + "/cut");
    const int status = train("cut", !first, kill_ms);
    if (WIFSIGNALED(status)) ++kills;
  }
  EXPECT_GT(kills, 0) << "no kill hit the run: it is too short for this test";
  ASSERT_EQ(train("cut", fs::exists(dir_ + "/cut"), -1), 0);
  EXPECT_EQ(digest("whole"), digest("cut"));
}

// What a sweep's results.json says that training decides; times are left out.
std::string table_of(const std::string& path) {
  Json json = read_json_file(path).value();
  for (Json& point : json["points"]) {
    point.erase("tokens_per_s");
    point.erase("seconds");
  }
  return json_text(json, 1);
}

/// Steps that the points of a sweep have written down.
int num_steps(const std::string& sweep) {
  int lines = 0;
  if (!fs::exists(sweep + "/points")) return 0;
  for (const auto& point : fs::directory_iterator(sweep + "/points")) {
    std::ifstream file(point.path() / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) ++lines;
  }
  return lines;
}

TEST_F(Killed, ASweepInTheMidstOfItsPointsAndResumedGivesTheSameTable) {
  std::ofstream(dir_ + "/grid.toml")
      << "recipe = \"" << dir_ << "/recipe.toml\"\nmetric = \"train_loss\"\n"
      << "[set]\ntrain.steps = 20\n[grid]\noptim.lr = [0.001, 0.01]\nseed = [0, 1]\n";
  const auto arguments = [&](const std::string& name) {
    std::vector<std::string> result{"sweep",           dir_ + "/grid.toml", "--sweep-dir",
                                    dir_ + "/" + name, "--threads",         "1"};
    if (fs::exists(dir_ + "/" + name + "/sweep.json")) result.push_back("--resume");
    return result;
  };
  ASSERT_EQ(run_program(dir_, arguments("whole"), -1), 0);
  // Of 80 steps, 20 a point with a checkpoint every third.
  for (const int steps : {1, 11, 20, 34, 55, 79}) {
    const int status = run_program_until(dir_, arguments("cut"),
                                         [&] { return num_steps(dir_ + "/cut") >= steps; });
    EXPECT_TRUE(WIFSIGNALED(status)) << steps;
  }
  ASSERT_EQ(run_program(dir_, arguments("cut"), -1), 0);
  EXPECT_EQ(table_of(dir_ + "/whole/results.json"), table_of(dir_ + "/cut/results.json"));
  for (const auto& point : fs::directory_iterator(dir_ + "/whole/points")) {
    const std::string name = "/points/" + point.path().filename().string();
    EXPECT_EQ(digest("whole" + name), digest("cut" + name)) << name;
  }
}

TEST_F(Killed, AMixtureThatChangesAtResumeIsTheSameHoweverOftenItIsKilled) {
  std::ofstream(dir_ + "/more.jsonl") << "{\"tokens\": [5, 6, 7, 8]}\n{\"tokens\": [9, 8, 7]}\n";
  const std::vector<std::string> changed{
      "data.files=[\"" + dir_ + "/rows.jsonl\", \"" + dir_ + "/more.jsonl\"]",
      "data.weights=[3, 1]"};
  for (const char* run : {"whole", "cut"}) {
    ASSERT_EQ(train(run, false, -1, {"train.steps=9", "optim.schedule=constant"}), 0);
  }
  std::vector<std::string> sets = changed;
  sets.push_back("optim.schedule=constant");
  ASSERT_EQ(train("whole", true, -1, sets), 0);
  int kills = 0;
  for (int kill_ms : {40, 90, 170, 260, 390, 530}) {
    if (WIFSIGNALED(train("cut", true, kill_ms, sets))) ++kills;
  }
  EXPECT_GT(kills, 0) << "no kill hit the run: it is too short for this test";
  ASSERT_EQ(train("cut", true, -1, sets), 0);
  EXPECT_EQ(digest("whole"), digest("cut"));
  const auto newest = load_newest_checkpoint(dir_ + "/cut/checkpoints").value();
  EXPECT_EQ(newest.checkpoint->state.data.mixture.size(), 2u);
}

// Starts `mainspring data build` on the rows, kills it after `kill_ms` (never if < 0).
int build_shards(const std::string& dir, const std::string& out, int kill_ms) {
  return run_program(
      dir,
      {"data", "build", "--in", dir + "/text.jsonl", "--out", dir + "/" + out, "--held-out", "0.1",
       "--near-duplicates", "0.8", "--piece-mib", "1", "--threads", "2"},
      kill_ms);
}

TEST(KilledBuild, AtRandomMomentsGoesOnToTheSameShards) {
  const TestDir dir;
  std::ofstream rows(dir.path() + "/text.jsonl");
  for (int i = 0; i < 12000; ++i) {
    rows << "{\"text\": \"";
    for (int w = 0; w < 60; ++w) rows << "w" << (i * 131 + w * w * 7) % 9973 << " ";
    rows << "\"}\n";
  }
  rows.close();
  ASSERT_EQ(build_shards(dir.path(), "whole", -1), 0);
  int kills = 0;
  for (int kill_ms : {15, 40, 70, 110, 160, 220, 300, 400}) {
    if (WIFSIGNALED(build_shards(dir.path(), "cut", kill_ms))) ++kills;
  }
  EXPECT_GT(kills, 1) << "no kill hit the build: it is too short for this test";
  ASSERT_EQ(build_shards(dir.path(), "cut", -1), 0);
  const ShardIndex whole = read_shard_index(dir.path() + "/whole").value();
  const ShardIndex cut = read_shard_index(dir.path() + "/cut").value();
  EXPECT_EQ(whole.digest(), cut.digest());
  EXPECT_GT(whole.train.size(), 3u);
  EXPECT_TRUE(ShardSet::open(dir.path() + "/cut").value()->verify().ok());
}

}  // namespace
}  // namespace mainspring
