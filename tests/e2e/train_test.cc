// Training runs from recipe to report on a tiny model: loss, resume, refusals, bad steps.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/train/trainer.h"
#include "tests/support/golden_files.h"
#include "tests/support/tiny_recipe.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

// A folder of its own with a data file of pre-tokenised rows.
class TrainRun : public testing::Test {
 protected:
  void SetUp() override {
    test::write_tiny_recipe(
        dir_, "[tune]\nrank = 4\n[train]\nsteps = 20\nbatch_size = 4\n[optim]\nlr = 0.02\n");
  }

  Result<TrainResult> run(const std::string& name, const std::vector<std::string>& sets = {},
                          bool resume = false, int64_t stop_after_questions = -1) {
    const auto recipe = load_recipe(dir_ + "/recipe.toml", sets);
    if (!recipe.ok()) return recipe.status();
    const auto executor = test::make_executor();
    int64_t asked = 0;
    said_.clear();
    TrainOptions options{
        .run_dir = dir_ + "/" + name,
        .resume = resume,
        .dry_run = false,
        .should_stop = [&] { return stop_after_questions >= 0 && asked++ >= stop_after_questions; },
        .facts = {},
        .say = [&](const std::string& line) { said_ += line + "\n"; }};
    return run_training(*recipe, *executor, options);
  }

  // What a dry run refuses; "" if nothing.
  std::string refusal(const std::vector<std::string>& sets, const std::string& name = "dry") {
    const auto recipe = load_recipe(dir_ + "/recipe.toml", sets);
    if (!recipe.ok()) return recipe.status().message();
    const auto executor = test::make_executor();
    const auto result = run_training(*recipe, *executor,
                                     {.run_dir = dir_ + "/" + name,
                                      .resume = false,
                                      .dry_run = true,
                                      .should_stop = {},
                                      .facts = {},
                                      .say = {}});
    return result.ok() ? "" : result.status().message();
  }

  std::string digest(const std::string& name) {
    return load_newest_checkpoint(dir_ + "/" + name + "/checkpoints")
        .value()
        .checkpoint->manifest.digest;
  }

  std::string text(const std::string& name) {
    std::ifstream in(dir_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TestDir folder_;
  const std::string& dir_ = folder_.path();
  std::string said_;
};

TEST_F(TrainRun, LossFallsAndTheRunFolderIsComplete) {
  const TrainResult result = run("a").value();
  EXPECT_EQ(result.steps_done, 20);
  EXPECT_LT(result.last_eval_loss, result.first_eval_loss - 0.5);
  EXPECT_NE(said_.find("rows.jsonl: 24 rows (5 held out)\n"), std::string::npos) << said_;
  for (const char* file : {"run.json", "metrics.jsonl", "evals.jsonl", "events.jsonl",
                           "report.html", "checkpoints/step-000020/adapter_model.safetensors",
                           "checkpoints/step-000020/adapter_config.json"}) {
    EXPECT_TRUE(fs::exists(dir_ + "/a/" + file)) << file;
  }
}

TEST_F(TrainRun, RunJsonNamesTheCompiler) {
  ASSERT_TRUE(run("a", {"train.steps=1"}).ok());
  const std::string info = text("a/run.json");
  EXPECT_TRUE(info.find("\"compiler\": \"GCC ") != std::string::npos ||
              info.find("lang ") != std::string::npos)
      << info;
}

TEST_F(TrainRun, OneOfAThingIsSingular) {
  ASSERT_TRUE(run("a", {"train.steps=1", "train.batch_size=1", "train.micro_batch_rows=64"}).ok());
  EXPECT_NE(said_.find("; 1 step of 1 sequence in micro-batches of at most 64 rows"),
            std::string::npos)
      << said_;
}

TEST_F(TrainRun, TwentyStepsEqualTenStoppedAndTenResumed) {
  for (const std::string mode : {"lora", "full"}) {
    const std::vector<std::string> sets{"tune.mode=" + mode, "optim.lr=0.002"};
    ASSERT_TRUE(run(mode + "-whole", sets).ok());
    const TrainResult first = run(mode + "-cut", sets, false, 10).value();
    EXPECT_TRUE(first.stopped);
    EXPECT_EQ(first.steps_done, 10);
    const TrainResult second = run(mode + "-cut", sets, true).value();
    EXPECT_EQ(second.steps_done, 20);
    EXPECT_EQ(second.first_eval_loss, first.first_eval_loss);
    EXPECT_LT(second.last_eval_loss, second.first_eval_loss);
    EXPECT_EQ(second.num_evals, 2);
    EXPECT_EQ(digest(mode + "-whole"), digest(mode + "-cut"));
  }
}

TEST_F(TrainRun, EveryOptimizerLearnsAndResumesWithTheSameBits) {
  const std::pair<const char*, const char*> cases[] = {
      {"muon", "muon_momentum/model.layers.0.mlp.up_proj.weight"},
      {"lion", "lion_m/model.norm.weight"},
      {"adafactor", "adafactor_column/model.layers.0.mlp.up_proj.weight"}};
  for (const auto& [optimizer, state] : cases) {
    const std::string name = optimizer;
    const std::vector<std::string> sets{"tune.mode=full", "optim.lr=0.001",
                                        "optim.optimizer=" + name};
    const TrainResult whole = run(name + "-whole", sets).value();
    EXPECT_LT(whole.last_eval_loss, whole.first_eval_loss - 0.2) << name;
    ASSERT_TRUE(run(name + "-cut", sets, false, 7).ok());
    ASSERT_TRUE(run(name + "-cut", sets, true).ok());
    EXPECT_EQ(digest(name + "-whole"), digest(name + "-cut")) << name;
    const auto checkpoint = load_newest_checkpoint(dir_ + "/" + name + "-cut/checkpoints").value();
    bool found = false;
    for (const CheckpointFile& file : checkpoint.checkpoint->files) {
      found = found || file.tensors.count(state) > 0;
    }
    EXPECT_TRUE(found) << state;
  }
}

TEST_F(TrainRun, GroupsMoveTheirParametersTheirOwnWay) {
  const std::string norms = "optim.groups=[{params=\"*norm*\", lr_scale=0.0, weight_decay=0.0}]";
  const std::vector<std::string> sets{"tune.mode=full", "train.steps=3", "optim.lr=0.01", norms};
  ASSERT_TRUE(run("a", sets).ok());
  const auto model = load_model(test::source_path("tests/golden/tiny/llama_gqa")).value();
  const auto checkpoint = load_newest_checkpoint(dir_ + "/a/checkpoints").value();
  for (const CheckpointFile& file : checkpoint.checkpoint->files) {
    if (file.role != "model") continue;
    for (const auto& [name, tensor] : file.tensors) {
      const StoredTensor& before = model->weights.at(name);
      const bool same = std::memcmp(tensor.data, before.data, tensor.size_bytes) == 0;
      EXPECT_EQ(same, name.find("norm") != std::string::npos) << name;
    }
  }
}

TEST_F(TrainRun, GroupsAreRefusedByNameBeforeAnyWork) {
  EXPECT_EQ(refusal({"tune.mode=full", "optim.groups=[{params=\"model.nrm.weight\"}]"}),
            "optim.groups: no parameter is named \"model.nrm.weight\", nearest is "
            "\"model.norm.weight\"");
  EXPECT_NE(refusal({"optim.groups=[{params=\"*\", lr_scal=2}]"}).find("\"lr_scale\""),
            std::string::npos);
  EXPECT_NE(refusal({"optim.groups=[{params=\"*\", optimizer=\"moun\"}]"}).find("\"muon\""),
            std::string::npos);
  EXPECT_NE(refusal({"optim.groups=[{optimizer=\"muon\"}]"}).find("params is missing"),
            std::string::npos);
}

TEST_F(TrainRun, AnotherOptimizerIsRefusedOnResume) {
  ASSERT_TRUE(run("a", {}, false, 2).ok());
  const Status status = run("a", {"optim.optimizer=lion"}, true).status();
  EXPECT_NE(status.message().find("the run was made with optim.optimizer \"adamw\", the recipe "
                                  "says \"lion\""),
            std::string::npos)
      << status.to_string();
}

TEST_F(TrainRun, MicroBatchesAndRecomputationChangeNoBit) {
  ASSERT_TRUE(run("a", {"tune.mode=full"}).ok());
  ASSERT_TRUE(
      run("b", {"tune.mode=full", "train.micro_batch_rows=16", "train.recompute=full"}).ok());
  EXPECT_EQ(digest("a"), digest("b"));
}

TEST_F(TrainRun, AnExistingRunFolderIsRefusedWithoutResume) {
  ASSERT_TRUE(run("a", {"train.steps=1"}).ok());
  const auto again = run("a", {"train.steps=1"});
  EXPECT_EQ(again.status().code(), StatusCode::kAlreadyExists) << again.status().to_string();
}

TEST_F(TrainRun, ResumeWithoutACheckpointStartsAtStepZero) {
  EXPECT_EQ(run("a", {"train.steps=2"}, true).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(dir_ + "/a"));
  fs::create_directories(dir_ + "/a");
  EXPECT_EQ(run("a", {"train.steps=2"}, true).value().steps_done, 2);
}

TEST_F(TrainRun, AChangedSeedIsRefusedOnResume) {
  ASSERT_TRUE(run("a", {"train.steps=2"}).ok());
  EXPECT_EQ(run("a", {"train.steps=4", "seed=4"}, true).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(TrainRun, AChangedRecipeIsRefusedByNameOnResume) {
  const std::vector<std::string> sets{"checkpoint.every=4"};
  ASSERT_TRUE(run("a", sets, false, 6).ok());
  const std::string info = text("a/run.json");
  const std::pair<const char*, const char*> cases[] = {
      {"tune.rank=8", "the run was made with tune.rank 4, the recipe says 8"},
      {"tune.mode=full", "the run was made with tune.mode \"lora\", the recipe says \"full\""},
      {"train.batch_size=8", "the run was made with train.batch_size 4, the recipe says 8"},
      {"data.held_out=0.5", "the run was made with data.held_out 0.2, the recipe says 0.5"},
      {"seed=4", "the run was made with seed 3, the recipe says 4"},
  };
  for (const auto& [set, expected] : cases) {
    const Status status = run("a", {"checkpoint.every=4", set}, true).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find(expected), std::string::npos) << status.to_string();
  }
  EXPECT_EQ(text("a/run.json"), info);  // a refused resume leaves the run as it was
  EXPECT_TRUE(run("a", sets, true).ok());
}

TEST_F(TrainRun, AChangeThatSteersTheRunOnIsRecordedOnResume) {
  ASSERT_TRUE(run("a", {}, false, 6).ok());
  ASSERT_TRUE(run("a", {"optim.lr=0.05", "train.steps=8", "train.micro_batch_rows=16"}, true).ok());
  const std::string expected =
      "resumed at step 6 with train.steps 20 -> 8, train.micro_batch_rows 0 -> 16, optim.lr 0.02 "
      "-> 0.05";
  EXPECT_NE(text("a/events.jsonl").find(expected), std::string::npos);
  EXPECT_NE(said_.find(expected), std::string::npos) << said_;
}

TEST_F(TrainRun, FewerStepsThanAreDoneAreRefusedOnResume) {
  ASSERT_TRUE(run("a", {"train.steps=8"}).ok());
  const std::string info = text("a/run.json");
  const Status status = run("a", {"train.steps=6"}, true).status();
  EXPECT_NE(status.message().find("has done 8 steps, train.steps is 6: to go on, set it above 8"),
            std::string::npos)
      << status.to_string();
  EXPECT_EQ(text("a/run.json"), info);
  EXPECT_EQ(run("a", {"train.steps=8"}, true).value().steps_done, 8);
}

TEST_F(TrainRun, DataFilesMayMoveButNotChangeTheirRowsOnResume) {
  ASSERT_TRUE(run("a", {}, false, 6).ok());
  std::ofstream(dir_ + "/other.jsonl") << text("rows.jsonl") << "{\"tokens\": [1, 2, 3]}\n";
  const std::string other = "data.files=" + dir_ + "/other.jsonl";
  const Status status = run("a", {other}, true).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("the run was made with data.files ["), std::string::npos)
      << status.to_string();
  fs::copy_file(dir_ + "/rows.jsonl", dir_ + "/other.jsonl", fs::copy_options::overwrite_existing);
  EXPECT_TRUE(run("a", {other}, true).ok());
}

TEST_F(TrainRun, NonFiniteStepsAreNotAppliedKeptAndEndTheRun) {
  const auto result =
      run("a", {"optim.lr=1e30", "train.max_grad_norm=0", "optim.schedule=constant"});
  EXPECT_EQ(result.status().code(), StatusCode::kFailedPrecondition) << result.status().to_string();
  EXPECT_NE(result.status().message().find("3 steps in a row"), std::string::npos);
  EXPECT_FALSE(fs::is_empty(dir_ + "/a/bad_batches"));
}

TEST_F(TrainRun, DryRunTouchesNothing) {
  const auto recipe = load_recipe(dir_ + "/recipe.toml", {}).value();
  const auto executor = test::make_executor();
  std::string said;
  TrainOptions options{.run_dir = dir_ + "/dry",
                       .dry_run = true,
                       .should_stop = {},
                       .facts = {},
                       .say = [&](const std::string& line) { said += line; }};
  ASSERT_TRUE(run_training(recipe, *executor, options).ok());
  EXPECT_FALSE(fs::exists(dir_ + "/dry"));
  EXPECT_NE(said.find("20 steps of 4 sequences"), std::string::npos);
}

TEST_F(TrainRun, DryRunRefusesAnUnknownPass) {
  EXPECT_EQ(refusal({"train.disabled_passes=dead_cod"}),
            "train.disabled_passes: no pass is named \"dead_cod\", nearest is \"dead_code\"");
  EXPECT_NE(refusal({"train.disabled_passes=foo"}).find("there are constant_folding, "),
            std::string::npos);
  EXPECT_EQ(refusal({"train.disabled_passes=dead_code"}), "");
}

TEST_F(TrainRun, ARankAboveTheSmallestTargetedSideIsRefused) {
  EXPECT_EQ(refusal({"tune.rank=100000000"}),
            "tune.rank: expected at most 32, the smaller side of the smallest targeted matrix "
            "(model.layers.0.self_attn.k_proj, 32 x 64), got 100000000");
  EXPECT_EQ(refusal({"tune.rank=32"}), "");
  EXPECT_EQ(refusal({"tune.rank=64", "tune.targets=[\"q_proj\", \"up_proj\"]"}), "");
  EXPECT_EQ(refusal({"tune.rank=100", "tune.mode=full"}), "");  // of no use, so of no harm
}

TEST_F(TrainRun, DryRunRefusesAFolderThatTheRunCouldNotUse) {
  std::ofstream(dir_ + "/file") << "x";
  EXPECT_NE(refusal({}, "file/run").find(dir_ + "/file"), std::string::npos);
  ASSERT_TRUE(run("a", {"train.steps=1"}).ok());
  EXPECT_NE(refusal({}, "a").find("holds a run already"), std::string::npos);
}

}  // namespace
}  // namespace mainspring
