// 50 steps of DPO, IPO and SFT on a tiny model in f32 against TRL's trainers (make_trl_curves.py):
// same weights, sequences, order and optimizer.
#include <gtest/gtest.h>

#include <cmath>

#include "mainspring/engine/engine.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/train/preference.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

class TrlCurves : public testing::Test {
 protected:
  void SetUp() override {
    golden_ = test::read_json("tests/golden/trl/golden.json");
    executor_ = test::make_executor();
    model_ = load_model(test::source_path("tests/golden/tiny/llama_tied")).value();
    engine_ =
        Engine::create(model_, *executor_, {.compute = DType::kF32, .max_sequence_tokens = 64})
            .value();
    id_ = engine_->add_full().value();
  }

  // `pairs`: rows are chosen and rejected in turn.
  std::vector<Datum> batch(const Json& run, size_t step, bool pairs) const {
    std::vector<Datum> datums;
    for (const Json& place : run["batches"][step]) {
      const Json& row = run["rows"][place.get<size_t>()];
      datums.push_back(make_next_token_datum(row["tokens"].get<std::vector<int32_t>>(),
                                             row["mask"].get<std::vector<uint8_t>>()));
      if (!pairs) continue;
      datums.back().group = static_cast<int64_t>((datums.size() - 1) / 2);
      datums.back().role = datums.size() % 2 == 1 ? kChosen : kRejected;
    }
    return datums;
  }

  void update(float lr, double normaliser) {
    const Json& s = golden_["settings"];
    const auto done = engine_->optim_step(id_, {.lr = lr,
                                                .beta1 = s["betas"][0].get<float>(),
                                                .beta2 = s["betas"][1].get<float>(),
                                                .eps = s["eps"].get<float>(),
                                                .weight_decay = s["weight_decay"].get<float>(),
                                                .max_grad_norm = s["max_grad_norm"].get<float>(),
                                                .normaliser = normaliser});
    ASSERT_TRUE(done.ok() && done->applied);
  }

  void expect_preference_curve(const std::string& name, const LossCall& loss) {
    const Json& run = golden_[name];
    ASSERT_EQ(run["losses"].size(), 50u);
    ReferenceLogprobs reference;
    double largest = 0;
    for (size_t step = 0; step < 50; ++step) {
      std::vector<Datum> datums = batch(run, step, true);
      ASSERT_TRUE(reference.add(*engine_, datums).ok());
      const auto result = engine_->forward_backward(id_, datums, loss);
      ASSERT_TRUE(result.ok()) << result.status().to_string();
      const double pairs = num_judged(loss.name, datums);
      const double want = run["losses"][step].get<double>();
      const double error = std::abs(result->loss_sum / pairs - want);
      largest = std::max(largest, error / (1.0 + want));
      EXPECT_LE(error, 1e-4 * (1.0 + want)) << name << " step " << step;
      // TRL's margins are of sums; IPO's here are of means, as its loss is.
      if (loss.name == "dpo") {
        EXPECT_NEAR(result->metrics.at("rewards/margins").mean(),
                    run["margins"][step].get<double>(), 1e-4)
            << "step " << step;
      }
      update(golden_["settings"]["lr"][name].get<float>(), pairs);
    }
    EXPECT_GT(reference.num_kept(), 0);
    std::printf("%s: largest |loss - TRL's| / (1 + loss) %.2g\n", name.c_str(), largest);
  }

  Json golden_;
  std::unique_ptr<Executor> executor_;
  std::shared_ptr<const LoadedModel> model_;
  std::unique_ptr<Engine> engine_;
  ModelId id_ = kBaseModel;
};

TEST_F(TrlCurves, Dpo) { expect_preference_curve("dpo", {"dpo", {{"beta", 0.1}}}); }

TEST_F(TrlCurves, Ipo) { expect_preference_curve("dpo_ipo", {"dpo_ipo", {{"beta", 0.1}}}); }

TEST_F(TrlCurves, Sft) {
  const Json& run = golden_["sft"];
  ASSERT_EQ(run["losses"].size(), 50u);
  double largest = 0;
  for (size_t step = 0; step < 50; ++step) {
    const auto result =
        engine_->forward_backward(id_, batch(run, step, false), "cross_entropy").value();
    const double error =
        std::abs(result.loss_sum / result.weight_sum - run["losses"][step].get<double>());
    largest = std::max(largest, error);
    EXPECT_LE(error, 1e-4) << "step " << step;
    update(golden_["settings"]["lr"]["sft"].get<float>(), result.weight_sum);
  }
  std::printf("sft: largest |loss - TRL's| %.2g\n", largest);
}

}  // namespace
}  // namespace mainspring
