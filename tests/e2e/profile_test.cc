// Profiles of a tiny model's steps: they change no bit, their books balance, ops are all there.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "mainspring/cli/cmd_profile.h"
#include "mainspring/io/json.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/lab/profile.h"
#include "mainspring/train/trainer.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

class ProfileRun : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream rows(dir_ + "/rows.jsonl");
    for (int i = 0; i < 16; ++i) {
      rows << "{\"tokens\": [";
      for (int t = 0; t < 11 + i % 5; ++t) rows << (t > 0 ? ", " : "") << (7 * t + i % 3) % 200;
      rows << "]}\n";
    }
    std::ofstream(dir_ + "/recipe.toml")
        << "seed = 3\n[model]\npath = \"" << test::source_path("tests/golden/tiny/llama_gqa")
        << "\"\n[data]\nfiles = [\"" << dir_
        << "/rows.jsonl\"]\nmax_tokens = 64\nformat = \"tokens\"\n"
        << "[tune]\nrank = 4\n[train]\nsteps = 4\nbatch_size = 4\n[optim]\nlr = 0.002\n";
  }

  ProfiledRun run(Timeline* timeline, const std::vector<std::string>& sets, int64_t steps = 3,
                  const std::string& isa = "") {
    const Recipe recipe = load_recipe(dir_ + "/recipe.toml", sets).value();
    const auto executor = test::make_executor(2, isa);
    return run_profile(recipe, *executor, {.steps = steps, .warmup_steps = 1, .timeline = timeline})
        .value();
  }

  TestDir folder_;
  const std::string& dir_ = folder_.path();
};

TEST_F(ProfileRun, ATimelineChangesNoBit) {
  for (const std::string mode : {"lora", "full"}) {
    for (const std::string recompute : {"none", "full"}) {
      const std::vector<std::string> sets{"tune.mode=" + mode, "train.recompute=" + recompute,
                                          "train.gradient_leaf=2"};
      Timeline timeline(1 << 14);
      const ProfiledRun timed = run(&timeline, sets);
      const ProfiledRun plain = run(nullptr, sets);
      EXPECT_EQ(timed.digest, plain.digest) << mode << recompute;
      EXPECT_EQ(timed.loss_sums, plain.loss_sums);
      EXPECT_FALSE(timeline.spans().empty());
    }
  }
}

TEST_F(ProfileRun, ItsStepsAreThoseOfATrainingRun) {
  Timeline timeline(1 << 14);
  const ProfiledRun profiled = run(&timeline, {});
  const Recipe recipe = load_recipe(dir_ + "/recipe.toml", {}).value();
  const auto executor = test::make_executor();
  TrainOptions options;
  options.run_dir = dir_ + "/run";
  ASSERT_TRUE(run_training(recipe, *executor, options).ok());
  std::ifstream metrics(dir_ + "/run/metrics.jsonl");
  std::vector<double> sums;
  for (std::string line; std::getline(metrics, line);) {
    sums.push_back(parse_json(line, "metrics").value()["loss_sum"].get<double>());
  }
  ASSERT_EQ(sums.size(), 4u);
  EXPECT_EQ(profiled.loss_sums, std::vector<double>(sums.begin() + 1, sums.end()));
}

TEST_F(ProfileRun, BooksBalanceAndEveryPhaseIsThere) {
  Timeline timeline(1 << 14);
  const ProfiledRun profiled = run(&timeline, {"train.recompute=full"});
  const Profile profile = make_profile(timeline, {1e11, 1e10}, ProfileBy::kOp);
  EXPECT_EQ(profile.time_of([](const ProfileLine&) { return true; }) + profile.unattributed_ns,
            profile.wall_ns);
  EXPECT_EQ(profile.step_ns.size(), 3u);
  EXPECT_GE(profile.rows, profiled.num_tokens);
  EXPECT_GT(profiled.model_flops, 0);
  std::set<std::string> names;
  for (const ProfileLine& line : profile.lines) {
    names.insert(line.name + "/" + line.phase);
    EXPECT_GE(line.own_ns, 0) << line.name;
  }
  for (const char* name :
       {"linear/forward", "linear/recompute", "attention_grad/backward", "head_logprob/forward",
        "adamw/update", "data/", "pack batch/", "copy inputs/", "read results/",
        "optimizer outside kernels/", "clear gradients/", "weight layouts/", "profiler/"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST_F(ProfileRun, WhatThreadsWaitedIsInTheBooksOfTwoThreadsOnly) {
  const auto waited = [](const Timeline& timeline) {
    int64_t ns = 0;
    for (const Span& span : timeline.spans()) {
      EXPECT_LE(span.waiting_ns, span.end_ns - span.begin_ns);
      ns += span.waiting_ns;
    }
    return ns;
  };
  Timeline two(1 << 14);
  run(&two, {});
  EXPECT_GT(waited(two), 0);  // the ops of so small a model are run by one thread
  const Profile profile = make_profile(two, {1e11, 1e10}, ProfileBy::kOp);
  EXPECT_EQ(profile.time_of([](const ProfileLine&) { return true; }) + profile.unattributed_ns,
            profile.wall_ns);
  Timeline one(1 << 14);
  const Recipe recipe = load_recipe(dir_ + "/recipe.toml", {}).value();
  const auto executor = test::make_executor(1);
  ASSERT_TRUE(run_profile(recipe, *executor, {.steps = 1, .timeline = &one}).ok());
  EXPECT_EQ(waited(one), 0);
}

// An adapter leaves the head alone: its gradient is one product, as the head is, for the logits are
// kept.
TEST_F(ProfileRun, TheHeadsGradientCountsOnlyWhatIsComputed) {
  Timeline timeline(1 << 14);
  run(&timeline, {"tune.mode=lora"});
  double head = 0;
  double grad = 0;
  for (const Span& span : timeline.spans()) {
    const std::string& name = timeline.label(span.label).name;
    if (name == "head_logprob") head += span.cost.flops;
    if (name == "head_logprob_grad") grad += span.cost.flops;
  }
  EXPECT_GT(head, 0);
  EXPECT_EQ(grad, head);
}

TEST_F(ProfileRun, TheCountedWorkIsTheSameOnEveryPath) {
  Timeline scalar(1 << 14);
  Timeline fastest(1 << 14);
  const std::string digest = run(&scalar, {}, 1, "scalar").digest;
  EXPECT_EQ(run(&fastest, {}, 1).digest, digest);
  ASSERT_EQ(scalar.spans().size(), fastest.spans().size());
  double flops = 0;
  for (size_t i = 0; i < scalar.spans().size(); ++i) {
    EXPECT_EQ(scalar.spans()[i].cost.flops, fastest.spans()[i].cost.flops);
    EXPECT_EQ(scalar.spans()[i].parent, fastest.spans()[i].parent);
    flops += scalar.spans()[i].cost.flops;
  }
  EXPECT_GT(flops, 1e5);
}

TEST_F(ProfileRun, TheCommandLeavesAPageATraceAndFigures) {
  cli::ProfileFlags flags;
  flags.recipe = dir_ + "/recipe.toml";
  flags.steps = 2;
  flags.out = dir_ + "/new/profile";
  flags.nominal_peak = 1;
  testing::internal::CaptureStdout();
  ASSERT_EQ(cli::run_profile(flags), 0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("unattributed"), std::string::npos);
  const Json figures = read_json_file(flags.out + "/profile.json").value();
  EXPECT_EQ(figures["steps"], 2);
  EXPECT_GT(figures["memory_bandwidth"].get<double>(), 1e8);
  int64_t sum = figures["unattributed_ns"].get<int64_t>();
  for (const Json& line : figures["lines"]) sum += line["own_ns"].get<int64_t>();
  EXPECT_EQ(sum, figures["wall_ns"].get<int64_t>());
  const Json trace = read_json_file(flags.out + "/trace.json").value();
  EXPECT_GT(trace["traceEvents"].size(), 100u);
  std::ifstream page(flags.out + "/profile.html");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  EXPECT_NE(text.find("layers.0"), std::string::npos);
  EXPECT_NE(text.find("nominal peak"), std::string::npos);
}

std::string refusal(const cli::ProfileFlags& flags) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(cli::run_profile(flags), 1);
  return testing::internal::GetCapturedStderr();
}

TEST_F(ProfileRun, BadInputIsRefusedByName) {
  cli::ProfileFlags flags;
  EXPECT_NE(refusal(flags).find("got neither"), std::string::npos);
  flags.recipe = dir_ + "/recipe.toml";
  flags.nominal_peak = -1;
  EXPECT_NE(refusal(flags).find("--nominal-peak"), std::string::npos);
  flags.model.model = test::source_path("tests/golden/tiny/llama_gqa");
  EXPECT_NE(refusal(flags).find("got both"), std::string::npos);
  flags.recipe.clear();
  flags.nominal_peak = 0;
  flags.decode.prompt_tokens = 1'000'000;
  EXPECT_NE(refusal(flags).find("--prompt-tokens"), std::string::npos);
  flags.sets = {"train.steps=2"};
  EXPECT_NE(refusal(flags).find("--set"), std::string::npos);
}

TEST_F(ProfileRun, DecodingIsTimedWithoutAChangeOfATokenAndItsBooksBalance) {
  cli::ModelFlags model;
  model.model = test::source_path("tests/golden/tiny/llama_gqa");
  const auto session = cli::ModelSession::open(model).value();
  const cli::DecodeFlags flags{.sequences = 3, .prompt_tokens = 9};
  Timeline timeline(1 << 14);
  const cli::DecodedRun timed = decode_on(*session, flags, 4, 1, &timeline).value();
  const cli::DecodedRun plain = decode_on(*session, flags, 4, 1, nullptr).value();
  EXPECT_EQ(timed.digest, plain.digest);
  EXPECT_EQ(timed.num_tokens, 4 * 3);
  const Profile profile = make_profile(timeline, {1e11, 1e10}, ProfileBy::kOp);
  EXPECT_EQ(profile.time_of([](const ProfileLine&) { return true; }) + profile.unattributed_ns,
            profile.wall_ns);
  EXPECT_EQ(profile.step_ns.size(), 4u);
  EXPECT_EQ(profile.rows, 4 * 3);
}

}  // namespace
}  // namespace mainspring
