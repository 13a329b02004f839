// Training and looking at its results through the commands: exit codes and what is printed.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "mainspring/cli/cmd_train.h"
#include "tests/support/golden_files.h"

namespace mainspring::cli {
namespace {

namespace fs = std::filesystem;

class Commands : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "commands_" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    std::ofstream rows(dir_ + "/rows.jsonl");
    for (int i = 0; i < 8; ++i) rows << "{\"tokens\": [1, 2, 3, " << i + 4 << "]}\n";
    std::ofstream(dir_ + "/recipe.toml")
        << "[model]\npath = \"" << test::source_path("tests/golden/tiny/llama_gqa")
        << "\"\n[data]\nfiles = [\"" << dir_
        << "/rows.jsonl\"]\nmax_tokens = 16\nformat = \"tokens\"\n"
        << "[tune]\nrank = 2\n[train]\nsteps = 2\nbatch_size = 2\n";
  }
  void TearDown() override { fs::remove_all(dir_); }

  int train(const std::string& run, const std::vector<std::string>& sets = {},
            bool resume = false) {
    TrainFlags flags;
    flags.recipe = dir_ + "/recipe.toml";
    flags.run_dir = dir_ + "/" + run;
    flags.sets = sets;
    flags.threads = 1;
    flags.resume = resume;
    return run_train(flags);
  }

  // As a shell or a scheduler would, once the run has done a step.
  int train_until_signal(const std::string& run, int signal) {
    std::thread sender([&, signal] {
      const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!fs::exists(dir_ + "/" + run + "/metrics.jsonl") &&
             std::chrono::steady_clock::now() < give_up) {
        std::this_thread::yield();
      }
      ::kill(::getpid(), signal);
    });
    const int code = train(run, {"train.steps=1000000"});
    sender.join();
    return code;
  }

  std::string dir_;
};

TEST_F(Commands, TrainStoppedByASignalSavesAndExitsAsTheShellExpects) {
  EXPECT_EQ(train_until_signal("int", SIGINT), 130);
  EXPECT_EQ(train_until_signal("term", SIGTERM), 143);
  for (const char* run : {"int", "term"}) {
    EXPECT_FALSE(fs::is_empty(dir_ + "/" + run + "/checkpoints")) << run;
  }
  EXPECT_EQ(train("done"), 0);
}

}  // namespace
}  // namespace mainspring::cli
