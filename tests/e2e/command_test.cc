// Training and looking at its results through the commands: exit codes and what is printed.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "mainspring/cli/cmd_inspect.h"
#include "mainspring/cli/cmd_mup_check.h"
#include "mainspring/cli/cmd_profile.h"
#include "mainspring/cli/cmd_train.h"
#include "mainspring/io/test_dir.h"
#include "tests/support/golden_files.h"

namespace mainspring::cli {
namespace {

namespace fs = std::filesystem;

// Commands by path, with their flags' variables: what a parser of the command line would set.
class FakeFlags final : public Flags {
 public:
  void text(const std::string& name, std::string* value, const std::string&) override {
    texts_[name] = value;
  }
  void required_text(const std::string& name, std::string* value, const std::string&) override {
    texts_[name] = value;
  }
  void texts(const std::string&, std::vector<std::string>*, const std::string&) override {}
  void choice(const std::string& name, std::string* value, const std::vector<std::string>&,
              const std::string&) override {
    texts_[name] = value;
  }
  void integer(const std::string&, int64_t*, int64_t, const std::string&, int64_t) override {}
  void number(const std::string&, double*, const std::string&) override {}
  void toggle(const std::string&, bool*, const std::string&) override {}
  void positional(const std::string& name, std::string* value, bool, const std::string&) override {
    texts_[name] = value;
  }

  std::map<std::string, std::string*> texts_;
  std::function<int()> run_;
};

class FakeRegistry final : public CommandRegistry {
 public:
  Flags& add(const std::string& path, const std::string&, std::function<int()> run) override {
    commands_[path].run_ = std::move(run);
    return commands_[path];
  }
  std::map<std::string, FakeFlags> commands_;
};

class Commands : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream rows(dir_ + "/rows.jsonl");
    for (int i = 0; i < 8; ++i) rows << "{\"tokens\": [1, 2, 3, " << i + 4 << "]}\n";
    std::ofstream(dir_ + "/recipe.toml")
        << "[model]\npath = \"" << test::source_path("tests/golden/tiny/llama_gqa")
        << "\"\n[data]\nfiles = [\"" << dir_
        << "/rows.jsonl\"]\nmax_tokens = 16\nformat = \"tokens\"\n"
        << "[tune]\nrank = 2\n[train]\nsteps = 2\nbatch_size = 2\n";
  }

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

  TestDir folder_;
  const std::string& dir_ = folder_.path();
};

// The place is looked at before the work: nothing is measured, no step is printed.
TEST_F(Commands, APlaceThatTakesNoFileIsRefusedBeforeTheWork) {
  std::ofstream(dir_ + "/file") << "x";
  testing::internal::CaptureStdout();
  ProfileFlags profile;
  profile.recipe = dir_ + "/recipe.toml";
  profile.out = dir_ + "/file/page";
  EXPECT_NE(run_profile(profile), 0);
  MupCheckFlags mup;
  mup.recipe = dir_ + "/new.toml";
  std::ofstream(mup.recipe) << "[model]\nfamily = \"llama\"\nlayers = 1\nhidden = 16\nheads = 2\n"
                            << "context = 16\n[data]\nfiles = [\"" << dir_
                            << "/rows.jsonl\"]\n[tune]\nmode = \"full\"\n";
  mup.out = dir_ + "/nowhere/page.html";
  EXPECT_NE(run_mup_check(mup), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST_F(Commands, TrainStoppedByASignalSavesAndExitsAsTheShellExpects) {
  EXPECT_EQ(train_until_signal("int", SIGINT), 130);
  EXPECT_EQ(train_until_signal("term", SIGTERM), 143);
  for (const char* run : {"int", "term"}) {
    EXPECT_FALSE(fs::is_empty(dir_ + "/" + run + "/checkpoints")) << run;
  }
  EXPECT_EQ(train("done"), 0);
}

TEST_F(Commands, InspectCheckpointTakesARunItsCheckpointsOrOneOfThem) {
  ASSERT_EQ(train("a", {"checkpoint.every=1"}), 0);
  FakeRegistry registry;
  add_inspect(registry);
  FakeFlags& command = registry.commands_.at("inspect checkpoint");
  const auto printed = [&](const std::string& target, int expected_code) {
    *command.texts_.at("run") = dir_ + "/" + target;
    testing::internal::CaptureStdout();
    EXPECT_EQ(command.run_(), expected_code) << target;
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_NE(printed("a", 0).find("step 2 "), std::string::npos);
  EXPECT_NE(printed("a/checkpoints", 0).find("step 2 "), std::string::npos);
  EXPECT_NE(printed("a/checkpoints/step-000001", 0).find("step 1 "), std::string::npos);
  EXPECT_EQ(printed("a/checkpoints/step-000009", 1), "");
  EXPECT_EQ(printed("a/samples", 1), "");
}

}  // namespace
}  // namespace mainspring::cli
