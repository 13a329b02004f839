// Further targets of a position (a teacher's distribution): log-probabilities, gradients, cuts.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mainspring/base/elementary.h"
#include "mainspring/train/exactness_checks.h"
#include "tests/invariance/call_bench.h"

namespace mainspring {
namespace {

using test::CallBench;
using test::Gradients;

double norm_of(const Gradients& gradient) {
  double squares = 0.0;
  for (const auto& [name, values] : gradient) {
    for (float x : values) squares += static_cast<double>(x) * static_cast<double>(x);
  }
  return std::sqrt(squares);
}

class CandidatesTest : public testing::Test {
 protected:
  /// Datums whose positions have the target, its neighbours, and at odd positions one fewer.
  std::vector<Datum> datums(size_t k) const {
    std::vector<Datum> result;
    for (uint64_t i = 0; i < 6; ++i) {
      Datum datum = make_random_datum(model_->config.vocabulary, 5 + 3 * (i % 4), 40 + i);
      datum.sample_index = i;
      for (size_t t = 0; t < datum.tokens.size(); ++t) {
        for (size_t j = 0; j < k; ++j) {
          const auto id = (static_cast<size_t>(datum.targets[t]) + 7 * j) %
                          static_cast<size_t>(model_->config.vocabulary);
          const bool is_none = j > 0 && j + 1 == k && t % 2 == 1;
          datum.candidates.push_back(is_none ? -1 : static_cast<int32_t>(id));
          datum.candidate_weights.push_back(0.8f / static_cast<float>(1 + j));
        }
      }
      result.push_back(std::move(datum));
    }
    return result;
  }

  Trainable& add_adapter(CallBench& bench) const {
    return bench.add(make_adapter_trainable(bench.executor(), model_->config,
                                            make_random_adapter(model_->config, 11, 4, 0.1f), 5)
                         .value());
  }

  std::string error_of(const Datum& datum) const {
    CallBench bench(model_, {});
    Trainable& model = add_adapter(bench);
    return bench.call({{&model, {&datum, 1}}}, soft_).status().message();
  }

  const LossInfo& soft_ = *find_loss("soft_cross_entropy").value();
  std::shared_ptr<const LoadedModel> model_ =
      load_model(test::source_path("tests/golden/tiny/llama_tied")).value();
};

TEST_F(CandidatesTest, TheTargetAsItsOnlyCandidateIsCrossEntropy) {
  CallBench bench(model_, {});
  Trainable& soft = add_adapter(bench);
  Trainable& hard = add_adapter(bench);
  std::vector<Datum> all = datums(1);
  const auto result = bench.call({{&soft, all}}, soft_).value()[0];
  for (Datum& datum : all) {
    for (float& weight : datum.weights) weight *= 0.8f;
  }
  const LossInfo& cross_entropy = *find_loss("cross_entropy").value();
  const auto expected = bench.call({{&hard, all}}, cross_entropy).value()[0];
  EXPECT_TRUE(test::same_bits(CallBench::gradients(soft), CallBench::gradients(hard)));
  EXPECT_EQ(result.logprobs, expected.logprobs);
  EXPECT_EQ(result.candidate_logprobs, expected.logprobs);
}

TEST_F(CandidatesTest, CandidatesHaveTheLogProbabilitiesOfTargets) {
  CallBench bench(model_, {});
  Trainable& model = add_adapter(bench);
  const std::vector<Datum> all = datums(3);
  const auto result = bench.call({{&model, all}}, soft_, false).value()[0];
  for (size_t j = 0; j < 3; ++j) {
    std::vector<Datum> moved = all;
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t t = 0; t < all[i].tokens.size(); ++t) {
        moved[i].targets[t] = std::max(all[i].candidates[3 * t + j], 0);
      }
    }
    const LossInfo& cross_entropy = *find_loss("cross_entropy").value();
    const auto one = bench.call({{&model, moved}}, cross_entropy, false).value()[0];
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t t = 0; t < all[i].tokens.size(); ++t) {
        const bool is_none = all[i].candidates[3 * t + j] < 0;
        EXPECT_EQ(result.candidate_logprobs[i][3 * t + j], is_none ? 0.0f : one.logprobs[i][t]);
      }
    }
  }
}

TEST_F(CandidatesTest, TheGradientIsTheSlopeOfTheLoss) {
  CallBench bench(model_, {.compute = DType::kF32});
  Trainable& model = add_adapter(bench);
  const std::vector<Datum> all = datums(3);
  ASSERT_TRUE(bench.call({{&model, all}}, soft_).ok());
  const Gradients gradient = CallBench::gradients(model);
  const double norm = norm_of(gradient);
  const auto move = [&](double step) {
    for (auto& [name, master] : model.masters) {
      auto* values = static_cast<float*>(master->data());
      for (size_t i = 0; i < gradient.at(name).size(); ++i) {
        values[i] += static_cast<float>(step / norm) * gradient.at(name)[i];
      }
      master->mark_changed();
    }
    return bench.call({{&model, all}}, soft_, false).value()[0].loss_sum;
  };
  constexpr double kStep = 2e-3;
  const double above = move(kStep);
  const double below = move(-2 * kStep);
  EXPECT_NEAR((above - below) / (2 * kStep), norm, 2e-3 * norm);
}

TEST_F(CandidatesTest, HowACallIsCutChangesNoBit) {
  std::vector<Datum> all = datums(3);
  all[2].candidates.clear();
  all[2].candidate_weights.clear();
  for (int32_t target : all[2].targets) {  // another number of them
    all[2].candidates.insert(all[2].candidates.end(), {target, (target + 1) % 300});
    all[2].candidate_weights.insert(all[2].candidate_weights.end(), {0.5f, 0.25f});
  }
  CallBench whole(model_, {});
  Trainable& model = add_adapter(whole);
  const auto expected = whole.call({{&model, all}}, soft_).value()[0];
  for (const int64_t rows : {16, 48}) {
    CallBench cut(model_, {.micro_batch_rows = rows});
    Trainable& other = add_adapter(cut);
    const auto result = cut.call({{&other, all}}, soft_).value()[0];
    EXPECT_TRUE(test::same_bits(CallBench::gradients(other), CallBench::gradients(model)));
    EXPECT_EQ(result.candidate_logprobs, expected.candidate_logprobs);
    EXPECT_EQ(result.loss_sum, expected.loss_sum);
  }
}

// A student that is its own teacher has nothing to learn.
TEST_F(CandidatesTest, TheWholeDistributionOfTheModelItselfHasNoDivergence) {
  CallBench bench(model_, {.compute = DType::kF32});
  Trainable& model = add_adapter(bench);
  model.adapter.dropout = 0.0f;
  Datum datum = make_random_datum(model_->config.vocabulary, 6, 40);
  for (size_t t = 0; t < datum.tokens.size(); ++t) {
    for (int32_t v = 0; v < model_->config.vocabulary; ++v) datum.candidates.push_back(v);
  }
  datum.candidate_weights.assign(datum.candidates.size(), 0.0f);
  const auto scored = bench.call({{&model, {&datum, 1}}}, soft_, false).value()[0];
  for (size_t j = 0; j < datum.candidates.size(); ++j) {
    datum.candidate_weights[j] =
        static_cast<float>(exact_exp(static_cast<double>(scored.candidate_logprobs[0][j])));
  }
  const auto own = bench.call({{&model, {&datum, 1}}}, soft_).value()[0];
  EXPECT_NEAR(own.metrics.at("forward_kl").mean(), 0.0, 1e-5);
  const double at_rest = norm_of(CallBench::gradients(model));
  for (size_t t = 0; t < datum.tokens.size(); ++t) {
    for (int32_t v = 0; v < model_->config.vocabulary; ++v) {
      datum.candidate_weights[t * static_cast<size_t>(model_->config.vocabulary) +
                              static_cast<size_t>(v)] = v == datum.targets[t] ? 1.0f : 0.0f;
    }
  }
  CallBench other(model_, {.compute = DType::kF32});
  Trainable& student = add_adapter(other);
  student.adapter.dropout = 0.0f;
  ASSERT_TRUE(other.call({{&student, {&datum, 1}}}, soft_).ok());
  EXPECT_LT(at_rest, 1e-4 * norm_of(CallBench::gradients(student)));
}

TEST_F(CandidatesTest, EntropyOverTheVocabularyAndItsSlope) {
  CallBench bench(model_, {.compute = DType::kF32});
  Trainable& model = add_adapter(bench);
  const LossInfo& entropy = *find_loss("entropy").value();
  std::vector<Datum> all;
  for (uint64_t i = 0; i < 3; ++i) {
    Datum datum = make_random_datum(model_->config.vocabulary, 6, 40 + i);
    for (size_t t = 0; t < datum.tokens.size(); ++t) {
      for (int32_t v = 0; v < model_->config.vocabulary; ++v) datum.candidates.push_back(v);
    }
    all.push_back(std::move(datum));
  }
  const auto result = bench.call({{&model, all}}, entropy).value()[0];
  double expected = 0.0;
  double count = 0.0;
  const auto v = static_cast<size_t>(model_->config.vocabulary);
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t t = 0; t < all[i].tokens.size(); ++t) {
      if (all[i].weights[t] == 0.0f) continue;
      double mass = 0.0;
      for (size_t j = t * v; j < (t + 1) * v; ++j) {
        const double logprob = static_cast<double>(result.candidate_logprobs[i][j]);
        mass += std::exp(logprob);
        expected -= std::exp(logprob) * logprob;
      }
      EXPECT_NEAR(mass, 1.0, 1e-5);
      count += 1.0;
    }
  }
  EXPECT_EQ(result.metrics.at("entropy").count, count);
  EXPECT_NEAR(result.metrics.at("entropy").sum, expected, 1e-9 * expected);
  EXPECT_LT(result.metrics.at("entropy").largest, std::log(static_cast<double>(v)));
  const Gradients gradient = CallBench::gradients(model);
  const double norm = norm_of(gradient);
  const auto move = [&](double step) {
    for (auto& [name, master] : model.masters) {
      auto* values = static_cast<float*>(master->data());
      for (size_t i = 0; i < gradient.at(name).size(); ++i) {
        values[i] += static_cast<float>(step / norm) * gradient.at(name)[i];
      }
      master->mark_changed();
    }
    return bench.call({{&model, all}}, entropy, false).value()[0].loss_sum;
  };
  constexpr double kStep = 2e-2;
  const double above = move(kStep);
  const double below = move(-2 * kStep);
  EXPECT_NEAR((above - below) / (2 * kStep), norm, 1e-2 * norm);
}

TEST_F(CandidatesTest, BadCandidatesAreRefused) {
  const Datum good = datums(3)[0];
  EXPECT_EQ(error_of(good), "");
  Datum datum = good;
  datum.candidates.pop_back();
  EXPECT_EQ(
      error_of(datum),
      "datum 0: candidates: loss soft_cross_entropy needs as many for each of 4 tokens, got 11");
  datum = good;
  datum.candidate_weights.pop_back();
  EXPECT_EQ(error_of(datum), "datum 0: candidate_weights: expected 12, one per candidate, got 11");
  datum = good;
  datum.candidate_weights.clear();
  EXPECT_EQ(error_of(datum), "soft_cross_entropy needs candidate_weights beside the candidates");
  datum = good;
  datum.candidates[4] = datum.candidates[3];
  EXPECT_EQ(error_of(datum), "datum 0: candidates of token 1: " +
                                 std::to_string(datum.candidates[3]) + " appears twice");
  datum = good;
  datum.candidates[7] = 100000;
  EXPECT_NE(error_of(datum).find("candidates of token 2: expected -1 <= id < "), std::string::npos);
  datum = good;
  datum.candidate_weights[2] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error_of(datum), "datum 0: candidate_weights[2]: expected a finite number");
}

}  // namespace
}  // namespace mainspring
