// Reinforcement learning end to end on tiny models: every algorithm takes its steps with a mismatch
// of 0, a cut run resumes with the same bits, a recorded step replays to the same gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/io/json.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/text/byte_tokenizer.h"
#include "mainspring/train/rl/replay.h"
#include "mainspring/train/rl/rl_learner.h"
#include "mainspring/train/rl/rl_trainer.h"
#include "mainspring/train/rl/rollout_records.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

struct RlPart {
  bool resume = false;
  int64_t stop_after = -1;  // steps; -1: never
  int threads = 2;
};

class TinyRl : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(dir_ + "/recipe.toml")
        << "kind = \"rl\"\nseed = 5\n[model]\nfamily = \"llama\"\nlayers = 1\nhidden = 32\n"
        << "heads = 2\nvocab = 12\ncontext = 32\ntokenizer = \"none\"\ndtype = \"f32\"\n"
        << "[tune]\nmode = \"full\"\n[env]\nname = \"max\"\n"
        << "[rl]\nprompts_per_step = 32\ngroup_size = 16\nmax_new_tokens = 2\nmax_tokens = 8\n"
        << "eval_prompts = 10\n[train]\nsteps = 2\n[optim]\nlr = 0.003\nschedule = \"constant\"\n";
  }

  Result<Recipe> recipe(std::vector<std::string> sets) {
    return load_recipe(dir_ + "/recipe.toml", sets);
  }

  Result<RlResult> run(const std::string& name, const std::vector<std::string>& sets,
                       const RlPart& part = {}) {
    auto loaded = recipe(sets);
    if (!loaded.ok()) return loaded.status();
    const auto executor = test::make_executor(part.threads);
    int64_t asked = 0;
    TrainOptions options;
    options.run_dir = dir_ + "/" + name;
    options.resume = part.resume;
    options.should_stop = [&] { return part.stop_after >= 0 && asked++ >= part.stop_after; };
    options.say = [&](const std::string& line) { said_ += line + "\n"; };
    return run_rl(*loaded, *executor, options);
  }

  std::string refusal(const std::vector<std::string>& sets) {
    return run("refused", sets).status().message();
  }

  std::string digest(const std::string& name) {
    return load_newest_checkpoint(dir_ + "/" + name + "/checkpoints")
        .value()
        .checkpoint->manifest.digest;
  }

  std::vector<Json> metrics(const std::string& name) {
    std::vector<Json> lines;
    std::ifstream file(dir_ + "/" + name + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      lines.push_back(parse_json(line, name).value());
    }
    return lines;
  }

  /// A tokenizer with a chat template: bytes, and a control token behind a reply. The keys of a
  /// recipe that take it.
  std::vector<std::string> chat_model() {
    std::ofstream(dir_ + "/tokenizer.json") << byte_tokenizer_json();
    Json config = parse_json(byte_tokenizer_config_json(), "config").value();
    config["chat_template"] =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
        "{% if m.role == 'assistant' %}<|endoftext|>{% endif %}|{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    std::ofstream(dir_ + "/tokenizer_config.json") << json_text(config);
    return {"model.tokenizer=" + dir_, "model.vocab=0"};
  }

  TestDir folder_;
  const std::string& dir_ = folder_.path();
  std::string said_;
};

TEST_F(TinyRl, EveryAlgorithmStepsWithAMismatchOfZero) {
  for (const std::string& algorithm : rl_algorithm_names()) {
    const auto result = run(algorithm, {"rl.algorithm=" + algorithm});
    ASSERT_TRUE(result.ok()) << algorithm << ": " << result.status().to_string();
    EXPECT_EQ(result->steps_done, 2) << algorithm;
    EXPECT_EQ(result->largest_mismatch, 0.0) << algorithm;
    bool applied = false;
    for (const Json& line : metrics(algorithm)) {
      EXPECT_EQ(line["mismatch/max_abs"].get<double>(), 0.0) << algorithm;
      if (line["reward/std"].get<double>() > 0.0) {  // some steps sample no right answer
        applied = true;
        EXPECT_TRUE(line["applied"].get<bool>()) << algorithm;
        EXPECT_GT(line["grad_norm"].get<double>(), 0.0) << algorithm;
      }
    }
    EXPECT_TRUE(applied) << algorithm << ": no step had anything to learn";
  }
}

TEST_F(TinyRl, TheMismatchIsZeroUnderEveryLawAndLayout) {
  const std::vector<std::vector<std::string>> cases{
      {"rl.temperature=0.7", "rl.top_p=0.8"},
      {"rl.top_k=3", "rl.min_p=0.05"},
      {"rl.sampler_batch=3"},  // groups are cut over batches of the sampler
      {"train.micro_batch_rows=32"},
      {"model.dtype=bf16"}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto result = run("law" + std::to_string(i), cases[i]);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(result->largest_mismatch, 0.0) << cases[i][0];
  }
}

TEST_F(TinyRl, ThreadsAndBatchesChangeNoBit) {
  ASSERT_TRUE(run("one", {}, {.threads = 1}).ok());
  ASSERT_TRUE(run("two", {"train.micro_batch_rows=32", "rl.sampler_batch=5"}).ok());
  EXPECT_EQ(digest("one"), digest("two"));
}

// Normalisers and baselines are in the datums, so calls of any size give one gradient.
TEST_F(TinyRl, SplittingABatchChangesNoGradient) {
  ASSERT_TRUE(run("whole", {"rl.normaliser=token_sum", "rl.merge_equal=false"}).ok());
  const auto loaded = recipe({"rl.normaliser=token_sum", "rl.merge_equal=false"});
  const auto rollouts = read_rollouts(dir_ + "/whole", 1);
  ASSERT_TRUE(rollouts.ok());
  const RlBatch batch = make_rl_batch(rollouts->groups, loaded->rl, 0).value();
  ASSERT_EQ(batch.datums.size(), 512u);
  std::vector<double> norms;
  for (const size_t size : {size_t{512}, size_t{60}, size_t{1}}) {
    const auto executor = test::make_executor();
    TrainSetup setup;
    ASSERT_TRUE(set_up_model(*loaded, *executor, setup).ok());
    ASSERT_TRUE(set_up_engine(*loaded, *executor, 8, "rl.max_tokens", setup).ok());
    const std::span<const Datum> all(batch.datums);
    for (size_t i = 0; i < all.size(); i += size) {
      const auto part = all.subspan(i, std::min(size, all.size() - i));
      ASSERT_TRUE(setup.engine->forward_backward(setup.id, part, rl_loss_call(loaded->rl)).ok());
    }
    norms.push_back(
        setup.engine->optim_step(setup.id, {.normaliser = batch.normaliser})->grad_norm);
  }
  EXPECT_EQ(norms[0], norms[1]);
  EXPECT_EQ(norms[0], norms[2]);
  EXPECT_EQ(norms[0], metrics("whole")[0]["grad_norm"].get<double>());
}

// The ratio of a synchronous step is exactly 1, so one pass with signed weights has the gradient of
// the objectives in two.
TEST_F(TinyRl, APlainPolicyGradientIsThatOfTheObjectives) {
  std::vector<Json> lines;
  for (const std::string loss : {"policy_gradient", "importance_sampling", "ppo"}) {
    ASSERT_TRUE(run(loss, {"train.steps=1", "rl.loss=" + loss}).ok()) << loss;
    lines.push_back(metrics(loss)[0]);
    EXPECT_EQ(lines.back()["mismatch/max_abs"].get<double>(), 0.0);
  }
  ASSERT_GT(lines[0]["grad_norm"].get<double>(), 0.0);
  EXPECT_EQ(lines[0]["grad_norm"], lines[1]["grad_norm"]);
  EXPECT_EQ(lines[0]["grad_norm"], lines[2]["grad_norm"]);
}

TEST_F(TinyRl, ACutRunResumesWithTheSameBits) {
  const std::vector<std::string> sets{"train.steps=6", "checkpoint.every=2", "rl.curriculum=true",
                                      "rl.algorithm=dapo"};
  ASSERT_TRUE(run("whole", sets).ok());
  ASSERT_TRUE(run("cut", sets, {.stop_after = 3}).ok());
  const auto resumed = run("cut", sets, {.resume = true});
  ASSERT_TRUE(resumed.ok()) << resumed.status().to_string();
  EXPECT_EQ(digest("whole"), digest("cut"));
  ASSERT_EQ(metrics("cut").size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    for (const char* key : {"loss_sum", "grad_norm", "reward/mean", "entropy/sampled"}) {
      EXPECT_EQ(metrics("cut")[i][key], metrics("whole")[i][key]) << i << key;
    }
  }
}

TEST_F(TinyRl, AStepReplaysToTheSameGradient) {
  ASSERT_TRUE(run("run", {"train.steps=5", "checkpoint.every=2"}).ok());
  const auto executor = test::make_executor();
  double largest = 0.0;
  for (const int64_t step : {1, 2, 4, 5}) {
    const auto replayed = replay_rl_step(dir_ + "/run", step, *executor, {});
    ASSERT_TRUE(replayed.ok()) << replayed.status().to_string();
    EXPECT_TRUE(replayed->is_equal()) << step;
    largest = std::max(largest, replayed->grad_norm);
    EXPECT_EQ(replayed->mismatch, 0.0);
    EXPECT_EQ(replayed->from_step, step == 5 ? 4 : step > 2 ? 2 : 0);
  }
  EXPECT_GT(largest, 0.0);
  EXPECT_EQ(replay_rl_step(dir_ + "/run", 9, *executor, {}).status().code(), StatusCode::kNotFound);
}

// On the samples of one step the weights may move several times: the first ratio is exactly 1,
// later ones are not; such a step replays and resumes as any other.
TEST_F(TinyRl, SeveralUpdatesOnAStepsSamplesMoveTheRatio) {
  const std::vector<std::string> sets{"train.steps=4", "checkpoint.every=2", "rl.updates=3",
                                      "optim.lr=0.01", "rl.normaliser=token_sum"};
  ASSERT_TRUE(run("whole", sets).ok());
  ASSERT_TRUE(run("cut", sets, {.stop_after = 3}).ok());
  ASSERT_TRUE(run("cut", sets, {.resume = true}).ok());
  EXPECT_EQ(digest("whole"), digest("cut"));
  ASSERT_TRUE(run("single", {"train.steps=4", "optim.lr=0.01", "rl.normaliser=token_sum"}).ok());
  EXPECT_NE(digest("whole"), digest("single"));
  bool moved = false;
  for (const Json& line : metrics("whole")) {
    EXPECT_EQ(line["mismatch/max_abs"].get<double>(), 0.0);
    moved = moved || line.value("loss/approx_kl", 0.0) > 0.0;
  }
  EXPECT_TRUE(moved);
  for (const Json& line : metrics("single")) EXPECT_EQ(line.value("loss/approx_kl", 0.0), 0.0);
  const auto executor = test::make_executor();
  const auto replayed = replay_rl_step(dir_ + "/whole", 4, *executor, {});
  ASSERT_TRUE(replayed.ok()) << replayed.status().to_string();
  EXPECT_TRUE(replayed->is_equal());
  EXPECT_NE(refusal({"rl.updates=2", "rl.loss=policy_gradient"}).find("rl.updates"),
            std::string::npos);
}

// A norm of 0 could hide it: an emptied file, and one without a sample's line.
TEST_F(TinyRl, RolloutsWithMissingLinesAreNoReplay) {
  ASSERT_TRUE(run("run", {}).ok());
  const std::string path = rollouts_path(dir_ + "/run", 1);
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  const auto executor = test::make_executor();
  for (const size_t kept : {size_t{0}, lines.size() - 1}) {
    std::ofstream cut(path);
    for (size_t i = 0; i < kept; ++i) cut << lines[i] << "\n";
    cut.close();
    const Status status = replay_rl_step(dir_ + "/run", 1, *executor, {}).status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << kept;
    EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
  }
}

// Resampling that can find nothing is left between its rounds, and the step begins again later.
TEST_F(TinyRl, AStopInTheMiddleOfAStepLosesNothing) {
  const std::vector<std::string> sets{"rl.no_variance=resample", "rl.resample_rounds=500",
                                      "rl.top_k=1", "rl.curriculum=true"};
  const auto stopped = run("run", sets, {.stop_after = 3});
  ASSERT_TRUE(stopped.ok()) << stopped.status().to_string();
  EXPECT_TRUE(stopped->stopped);
  EXPECT_EQ(stopped->steps_done, 0);
}

TEST_F(TinyRl, ACheckpointKnowsTheEnvironmentsEndToken) {
  const auto result = run("run", {});
  ASSERT_TRUE(result.ok());
  const auto model = load_model(result->newest_checkpoint);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ((*model)->config.eos_tokens, (std::vector<int32_t>{11}));
}

TEST_F(TinyRl, WaitSharesAddUpToOne) {
  ASSERT_TRUE(run("run", {}).ok());
  double sum = 0;
  const Json last = metrics("run").back();
  for (const auto& [key, value] : last.items()) {
    if (key.starts_with("wait/")) sum += value.get<double>();
  }
  EXPECT_NEAR(sum, 1.0, 1e-9);
}

TEST_F(TinyRl, GroupsWithoutVarianceAreReplaced) {
  ASSERT_TRUE(run("kept", {"train.steps=1"}).ok());
  ASSERT_TRUE(run("replaced", {"train.steps=1", "rl.no_variance=resample"}).ok());
  const Json kept = metrics("kept")[0];
  const Json replaced = metrics("replaced")[0];
  ASSERT_GT(kept["groups/no_variance"].get<double>(), 0.0);
  EXPECT_EQ(kept["groups/sampled"].get<double>(), 32.0);
  EXPECT_GT(replaced["groups/sampled"].get<double>(), 32.0);
}

TEST_F(TinyRl, AnAdapterLearnsInAChatEnvironment) {
  const std::vector<std::string> model = chat_model();
  const auto result =
      run("chat", {"env.name=jsonmax", model[0], model[1], "model.context=512", "rl.max_tokens=400",
                   "rl.max_new_tokens=8", "rl.kl=k3", "rl.kl_weight=0.1",
                   "rl.advantage=reinforce_pp", "rl.group_size=2"});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(result->largest_mismatch, 0.0);
  EXPECT_EQ(result->steps_done, 2);
}

// The files of recipes/ as they stand but for a tiny model of random weights, fewer prompts and two
// steps.
TEST_F(TinyRl, EveryRecipeFileTakesTwoSteps) {
  const std::string python = test::source_path("mainspring/env/worker/fixture_python");
  ::setenv("PYTHONPATH", python.c_str(), 1);  // stands in for the library reasoning-gym
  ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  const std::vector<std::string> model = chat_model();
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("recipes"))) {
    const std::string name = entry.path().stem().string();
    if (!name.starts_with("rl_")) continue;
    ++num_files;
    std::vector<std::string> sets{"train.steps=2", "optim.warmup_steps=0", "rl.prompts_per_step=2",
                                  "rl.group_size=2", "rl.eval_prompts=2"};
    if (name != "rl_max" && name != "rl_ppo") {
      sets.insert(sets.end(),
                  {"model.path=", "tune.mode=full", "model.family=llama", "model.layers=1",
                   "model.hidden=32", "model.heads=2", "model.context=1024", "rl.max_tokens=1000",
                   "rl.max_new_tokens=6", model[0], model[1]});
    }
    const auto loaded = load_recipe(entry.path().string(), sets);
    ASSERT_TRUE(loaded.ok()) << name << ": " << loaded.status().to_string();
    const auto executor = test::make_executor(2);
    TrainOptions options;
    options.run_dir = dir_ + "/" + name;
    const auto result = run_rl(*loaded, *executor, options);
    ASSERT_TRUE(result.ok()) << name << ": " << result.status().to_string();
    EXPECT_EQ(result->steps_done, 2) << name;
    EXPECT_EQ(result->largest_mismatch, 0.0) << name;
    for (const Json& line : metrics(name)) EXPECT_FALSE(line.contains("episodes/failed")) << name;
  }
  ::unsetenv("PYTHONPATH");
  EXPECT_GE(num_files, 4);
}

TEST_F(TinyRl, BadRecipesAreRefusedBeforeWork) {
  EXPECT_NE(refusal({"env.name=maxx"}).find("max"), std::string::npos);
  EXPECT_NE(refusal({"env.settings.colour=red"}).find("colour"), std::string::npos);
  EXPECT_NE(refusal({"rl.group_size=1"}).find("rl.group_size"), std::string::npos);
  EXPECT_NE(refusal({"rl.algorithm=gpro"}).find("nearest is \"grpo\""), std::string::npos);
  EXPECT_NE(refusal({"model.vocab=8"}).find("has 12 tokens, the model only 8"), std::string::npos);
  EXPECT_NE(refusal({"env.name=jsonmax"}).find("no tokenizer"), std::string::npos);
  EXPECT_NE(refusal({"rl.max_tokens=64"}).find("rl.max_tokens"), std::string::npos);
  EXPECT_NE(refusal({"rl.kl=k1"}).find("rl.kl_weight"), std::string::npos);
  EXPECT_NE(refusal({"rl.keep_rollouts=3", "checkpoint.every=5"}).find("rl.keep_rollouts"),
            std::string::npos);
  EXPECT_NE(refusal({"train.eval_every=3"}).find("set rl.eval_every"), std::string::npos);
  EXPECT_NE(refusal({"train.batch_size=3"}).find("rl.prompts_per_step"), std::string::npos);
  EXPECT_NE(refusal({"data.held_out=0.5"}).find("data.held_out"), std::string::npos);
  for (const std::string key : {"prompts_per_step", "top_k", "resample_rounds", "group_size"}) {
    EXPECT_NE(
        refusal({"rl." + key + "=9000000000000000000"}).find("rl." + key + ": expected at most"),
        std::string::npos)
        << key;
  }
  EXPECT_NE(refusal({"kind=supervised"}).find("belongs to kind"), std::string::npos);
  EXPECT_NE(refusal({"data.files=[\"x.jsonl\"]"}).find("data.files"), std::string::npos);
}

// What a preset decides is recorded, with where it came from, and can be set besides.
TEST_F(TinyRl, AnAlgorithmIsAPresetOfChoices) {
  const auto loaded = recipe({"rl.clip_high=0.5", "rl.algorithm=dapo"});
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_EQ(loaded->rl.no_variance, "resample");
  EXPECT_EQ(loaded->rl.clip_high, 0.5);
  EXPECT_EQ(loaded->rl.clip_low, 0.2);
  std::map<std::string, std::string> origins;
  for (const RecipeValue& value : loaded->values) origins[value.key] = value.origin;
  EXPECT_EQ(origins["rl.no_variance"], "--set rl.algorithm (rl.algorithm)");
  EXPECT_EQ(origins["rl.clip_high"], "--set rl.clip_high");
  EXPECT_EQ(origins["rl.kl_weight"], "--set rl.algorithm (rl.algorithm)");
}

}  // namespace
}  // namespace mainspring
