// Preference training from a recipe on a tiny model.
#include <cmath>

#include "mainspring/losses/losses.h"
#include "mainspring/train/preference.h"
#include "mainspring/train/setup.h"
#include "mainspring/weights/digest.h"
#include "tests/e2e/tiny_run.h"

namespace mainspring {
namespace {

class PreferenceRun : public TinyRun {
 protected:
  void SetUp() override {
    std::ofstream rows(dir_ + "/pairs.jsonl");
    for (int i = 0; i < 24; ++i) {
      Json row;
      for (int t = 0; t < 4 + i % 4; ++t) row["prompt"].push_back((7 * t + i) % 200);
      for (int t = 0; t < 3 + i % 3; ++t) row["chosen"].push_back((5 * t + i) % 200);
      for (int t = 0; t < 2 + i % 5; ++t) row["rejected"].push_back((11 * t + 3 * i) % 200);
      rows << row.dump() << "\n";
    }
    std::ofstream(dir_ + "/recipe.toml")
        << "kind = \"preference\"\nseed = 3\n[model]\npath = \""
        << test::source_path("tests/golden/tiny/llama_gqa") << "\"\n[data]\nfiles = [\"" << dir_
        << "/pairs.jsonl\"]\nmax_tokens = 64\nformat = \"tokens\"\nheld_out = 0.2\n"
        << "[tune]\nmode = \"lora\"\nrank = 4\n[train]\nsteps = 16\nbatch_size = 4\n"
        << "[optim]\nlr = 0.01\n";
  }

  std::vector<Json> lines(const std::string& name) {
    std::vector<Json> out;
    std::istringstream in(text(name));
    for (std::string line; std::getline(in, line);) {
      out.push_back(parse_json(line, name).value());
    }
    return out;
  }

  TrainSetup make_setup(Executor& executor) {
    auto setup = set_up(load_recipe(dir_ + "/recipe.toml", {}).value(), executor);
    EXPECT_TRUE(setup.ok()) << setup.status().to_string();
    return std::move(setup).value();
  }

  static std::string state_digest(TrainSetup& setup) {
    return digest_of(setup.engine->state(setup.id).value().tensors).hex();
  }
};

TEST_F(PreferenceRun, LearnsToTellTheAnswersApart) {
  const auto result = run("dpo", {"train.steps=40"});
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  const auto metrics = lines("dpo/metrics.jsonl");
  ASSERT_GE(metrics.size(), 40u);
  EXPECT_NEAR(metrics.front()["loss"].get<double>(), std::log(2.0), 1e-6);
  EXPECT_EQ(metrics.front()["rewards/margins"].get<double>(), 0.0);
  EXPECT_LT(metrics.back()["loss"].get<double>(), 0.3);
  EXPECT_GT(metrics.back()["rewards/margins"].get<double>(), 1.0);
  EXPECT_EQ(metrics.back()["rewards/accuracies"].get<double>(), 1.0);
  EXPECT_GT(metrics.back()["rewards/chosen"].get<double>(),
            metrics.back()["rewards/rejected"].get<double>());
  EXPECT_EQ(metrics.back()["judged"].get<double>(), 4.0);
  EXPECT_NEAR(result->first_eval_loss, std::log(2.0), 1e-6);
  EXPECT_NE(said_.find("5 held out; 40 steps of 4 pairs"), std::string::npos) << said_;
}

TEST_F(PreferenceRun, EveryLossTakesItsSteps) {
  for (const std::string& loss : preference_loss_names()) {
    SCOPED_TRACE(loss);
    const auto result = run(loss, {"preference.loss=" + loss, "train.steps=2"});
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    const auto metrics = lines(loss + "/metrics.jsonl");
    ASSERT_FALSE(metrics.empty());
    EXPECT_TRUE(metrics.back().contains("rewards/chosen"));
    EXPECT_TRUE(metrics.back()["applied"].get<bool>());
    EXPECT_EQ(metrics.back()["judged"].get<double>(), loss == "kto" ? 8.0 : 4.0);
  }
}

TEST_F(PreferenceRun, ResumesWithTheSameBits) {
  expect_resumes("dpo", {});
  expect_resumes("kto", {"preference.loss=kto"});
}

TEST_F(PreferenceRun, TheMicroBatchChangesNoBit) {
  ASSERT_TRUE(run("whole", {"tune.mode=full"}).ok());
  ASSERT_TRUE(run("small", {"tune.mode=full", "train.micro_batch_rows=64"}).ok());
  EXPECT_EQ(digest("whole"), digest("small"));
  ASSERT_TRUE(run("kto", {"preference.loss=kto"}).ok());
  ASSERT_TRUE(run("kto-small", {"preference.loss=kto", "train.micro_batch_rows=64"}).ok());
  EXPECT_EQ(digest("kto"), digest("kto-small"));
}

TEST_F(PreferenceRun, EightBatchesOfOnePairAreABatchOfEight) {
  const auto executor = test::make_executor();
  TrainSetup together = make_setup(*executor);
  TrainSetup apart = make_setup(*executor);
  for (int step = 0; step < 3; ++step) {
    ReferenceLogprobs reference;
    std::vector<Datum> datums = together.data->next(8).value();
    ASSERT_EQ(datums.size(), 16u);
    ASSERT_TRUE(reference.add(*together.engine, datums).ok());
    const auto whole = together.engine->forward_backward(together.id, datums, "dpo").value();
    double sum = 0;
    for (int pair = 0; pair < 8; ++pair) {
      ReferenceLogprobs of_pair;
      std::vector<Datum> one = apart.data->next(1).value();
      ASSERT_TRUE(of_pair.add(*apart.engine, one).ok());
      sum += apart.engine->forward_backward(apart.id, one, "dpo").value().loss_sum;
    }
    EXPECT_EQ(whole.loss_sum, sum) << step;
    const AdamwOptions options{.lr = 0.01f, .max_grad_norm = 1.0f, .normaliser = 8.0};
    ASSERT_TRUE(together.engine->optim_step(together.id, options).value().applied);
    ASSERT_TRUE(apart.engine->optim_step(apart.id, options).value().applied);
    EXPECT_EQ(state_digest(together), state_digest(apart)) << step;
  }
}

TEST_F(PreferenceRun, TheReferenceIsComputedOncePerSequence) {
  const auto executor = test::make_executor();
  TrainSetup setup = make_setup(*executor);
  ReferenceLogprobs reference;
  std::vector<Datum> datums = setup.data->next(2).value();
  std::vector<Datum> again = datums;
  ASSERT_TRUE(reference.add(*setup.engine, datums).ok());
  const int64_t kept = reference.num_kept();
  EXPECT_EQ(kept, 4);
  ASSERT_TRUE(reference.add(*setup.engine, again).ok());
  EXPECT_EQ(reference.num_kept(), kept);
  EXPECT_EQ(datums[3].inputs, again[3].inputs);
  ReferenceLogprobs none(0);
  std::vector<Datum> third = again;
  ASSERT_TRUE(none.add(*setup.engine, third).ok());
  EXPECT_EQ(none.num_kept(), 0);
  EXPECT_EQ(third[3].inputs, again[3].inputs);
}

TEST(Mismatched, APromptGetsTheNextOnesAnswer) {
  std::vector<Datum> datums{make_next_token_datum({1, 2, 3, 4}, {0, 0, 1, 1}),
                            make_next_token_datum({5, 6, 7}, {0, 1, 1})};
  datums[0].role = datums[1].role = kChosen;
  ASSERT_TRUE(add_mismatched(datums).ok());
  ASSERT_EQ(datums.size(), 4u);
  EXPECT_EQ(datums[2].tokens, (std::vector<int32_t>{1, 2, 6}));
  EXPECT_EQ(datums[2].targets, (std::vector<int32_t>{2, 6, 7}));
  EXPECT_EQ(datums[2].weights, (std::vector<float>{0, 1, 1}));
  EXPECT_EQ(datums[3].tokens, (std::vector<int32_t>{5, 3}));
  EXPECT_EQ(datums[3].targets, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(datums[3].role, kMismatched);
  std::vector<Datum> one{datums[0]};
  EXPECT_EQ(add_mismatched(one).code(), StatusCode::kInvalidArgument);
}

TEST_F(PreferenceRun, RefusesWhatDoesNotGoTogether) {
  EXPECT_NE(refusal({"preference.beta=-1"}).find("loss dpo: beta: expected 0"), std::string::npos);
  EXPECT_NE(refusal({"preference.gamma=1"}).find("loss dpo has no setting \"gamma\""),
            std::string::npos);
  EXPECT_NE(refusal({"data.format=chat"}).find("prompt, chosen and rejected"), std::string::npos);
  EXPECT_NE(refusal({"data.loss_on=all"}).find("only the answers"), std::string::npos);
  EXPECT_NE(refusal({"train.z_loss=0.1"}).find("supervised"), std::string::npos);
  EXPECT_NE(refusal({"preference.loss=kto", "train.batch_size=1"}).find("2 or more"),
            std::string::npos);
  EXPECT_NE(refusal({"kind=supervised", "preference.beta=1"}).find("belongs to kind"),
            std::string::npos);
  EXPECT_NE(load_recipe(dir_ + "/recipe.toml", {"preference.loss=dpo_ipoo"})
                .status()
                .message()
                .find("nearest is \"dpo_ipo\""),
            std::string::npos);
}

TEST_F(PreferenceRun, TheRecipeFileRunsAsItStands) {
  const auto recipe = load_recipe(
      test::source_path("recipes/dpo.toml"),
      {"model.path=" + test::source_path("tests/golden/tiny/qwen2"),
       "data.files=" + test::source_path("recipes/preferences.jsonl"), "data.max_tokens=128",
       "train.steps=2", "optim.warmup_steps=0", "train.sample_prompts=[]"});
  ASSERT_TRUE(recipe.ok()) << recipe.status().to_string();
  const auto executor = test::make_executor();
  TrainOptions options;
  options.run_dir = dir_ + "/recipe-run";
  const auto result = run_training(*recipe, *executor, options);
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(result->steps_done, 2);
  EXPECT_NEAR(result->first_eval_loss, std::log(2.0), 1e-6);
}

}  // namespace
}  // namespace mainspring
