// Objectives: their gradient is that of the signed weights they stand for, and how a call is cut
// changes no bit of it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "mainspring/engine/engine.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/train/exactness_checks.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

using Gradients = std::map<std::string, std::vector<float>>;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool same_bits(const Gradients& a, const Gradients& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, values] : a) {
    if (!same_bits(values, b.at(name))) return false;
  }
  return true;
}

class ObjectiveTest : public testing::Test {
 protected:
  struct Side {
    std::unique_ptr<Engine> engine;
    ModelId full;
    ModelId a;
    ModelId b;
  };

  Side side(int64_t micro_batch_rows = 1024, DType compute = DType::kBF16) {
    Side out;
    out.engine = Engine::create(model_, *executor_,
                                {.compute = compute,
                                 .max_micro_batch_rows = micro_batch_rows,
                                 .max_sequence_tokens = 64})
                     .value();
    out.full = out.engine->add_full().value();
    out.a = out.engine->add_adapter(make_random_adapter(model_->config, 11, 4, 0.1f), 5).value();
    out.b = out.engine->add_adapter(make_random_adapter(model_->config, 12, 3, 0.0f), 6).value();
    return out;
  }

  /// Datums sampled by a policy whose log-probabilities are `model`'s moved by up to `shift`.
  std::vector<Datum> rollouts(Side& side, ModelId model, float shift) const {
    std::vector<Datum> datums;
    for (uint64_t i = 0; i < 9; ++i) {
      datums.push_back(make_random_datum(model_->config.vocabulary, 5 + 3 * (i % 4), 40 + i));
      datums.back().sample_index = i;
      for (float& weight : datums.back().weights) weight *= 0.5f + 0.25f * static_cast<float>(i);
    }
    const auto scored = side.engine->forward(model, datums, "cross_entropy").value();
    for (size_t i = 0; i < datums.size(); ++i) {
      std::vector<float> sampled = scored.logprobs[i];
      for (size_t t = 0; t < sampled.size(); ++t) {
        sampled[t] += shift * std::sin(static_cast<float>(3 * i + t));
      }
      datums[i].inputs["logprobs"] = sampled;
      datums[i].inputs["advantages"].assign(sampled.size(), i % 2 == 0 ? 0.7f : -1.3f);
    }
    return datums;
  }

  static Gradients gradients(const Side& side, ModelId id) {
    Gradients out;
    const auto tensors = side.engine->gradients(id).value();
    for (const auto& [name, tensor] : tensors) {
      const auto* values = static_cast<const float*>(tensor.data);
      out[name].assign(values, values + tensor.size_bytes / 4);
    }
    return out;
  }

  static std::string error_of(Side& side, const Datum& datum, const LossCall& loss) {
    return side.engine->forward_backward(side.a, {&datum, 1}, loss).status().message();
  }

  std::shared_ptr<const LoadedModel> model_ =
      load_model(test::source_path("tests/golden/tiny/llama_tied")).value();
  std::unique_ptr<Executor> executor_ = test::make_executor();
};

TEST_F(ObjectiveTest, ImportanceSamplingAtRatioOneIsCrossEntropyOfTheAdvantages) {
  for (const bool is_full : {false, true}) {
    Side one = side();
    Side two = side();
    const ModelId id = is_full ? one.full : one.a;
    const std::vector<Datum> datums = rollouts(one, id, 0.0f);
    const auto result = one.engine->forward_backward(id, datums, "importance_sampling").value();
    std::vector<Datum> weighted = datums;
    for (Datum& datum : weighted) {
      for (size_t t = 0; t < datum.weights.size(); ++t) {
        datum.weights[t] *= datum.inputs.at("advantages")[t];
      }
    }
    const auto expected = two.engine->forward_backward(id, weighted, "cross_entropy").value();
    EXPECT_TRUE(same_bits(gradients(one, id), gradients(two, id)));
    EXPECT_EQ(result.logprobs, expected.logprobs);
    EXPECT_EQ(result.metrics.at("ratio").mean(), 1.0);
    EXPECT_EQ(result.metrics.at("ratio").largest, 1.0);
    double loss = 0.0;
    for (const Datum& datum : weighted) {
      for (float weight : datum.weights) loss -= static_cast<double>(weight);
    }
    EXPECT_NEAR(result.loss_sum, loss, 1e-5 * std::abs(loss));
    EXPECT_TRUE(result.finite);
  }
}

// Along the gradient itself, in f32: the slope is the gradient's norm.
TEST_F(ObjectiveTest, TheGradientIsTheSlopeOfTheLoss) {
  Side s = side(1024, DType::kF32);
  const std::vector<Datum> datums = rollouts(s, s.b, 0.5f);
  ASSERT_TRUE(s.engine->forward_backward(s.b, datums, "importance_sampling").ok());
  const Gradients gradient = gradients(s, s.b);
  double squares = 0.0;
  for (const auto& [name, values] : gradient) {
    for (float x : values) squares += static_cast<double>(x) * static_cast<double>(x);
  }
  const double norm = std::sqrt(squares);
  Adapter at = s.engine->adapter(s.b).value();
  const auto loss_at = [&](double step) {
    Adapter moved = at;
    std::map<std::string, std::vector<float>> values;
    for (auto& [name, tensor] : moved.tensors) {
      const auto* from = static_cast<const float*>(tensor.data);
      std::vector<float>& to = values[name];
      for (size_t i = 0; i < gradient.at(name).size(); ++i) {
        to.push_back(from[i] + static_cast<float>(step / norm) * gradient.at(name)[i]);
      }
      tensor.data = to.data();
    }
    const ModelId id = s.engine->add_adapter(moved, 6).value();
    return s.engine->forward(id, datums, "importance_sampling").value().loss_sum;
  };
  constexpr double kStep = 2e-3;
  const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
  EXPECT_NEAR(slope, norm, 2e-3 * norm);
}

TEST_F(ObjectiveTest, HowACallIsCutChangesNoBit) {
  Side whole = side(1024);
  const std::vector<Datum> datums = rollouts(whole, whole.a, 0.5f);
  const auto expected =
      whole.engine->forward_backward(whole.a, datums, "importance_sampling").value();
  const Gradients gradient = gradients(whole, whole.a);
  for (const int64_t rows : {16, 24, 48}) {
    Side cut = side(rows);
    const auto result = cut.engine->forward_backward(cut.a, datums, "importance_sampling").value();
    EXPECT_TRUE(same_bits(gradients(cut, cut.a), gradient)) << rows << " rows";
    EXPECT_EQ(result.logprobs, expected.logprobs);
    EXPECT_EQ(result.loss_sum, expected.loss_sum);
    EXPECT_EQ(result.metrics.at("ratio").sum, expected.metrics.at("ratio").sum);
    EXPECT_GT(result.num_micro_batches, expected.num_micro_batches);
  }
  Side calls = side(1024);
  const std::span<const Datum> all(datums);
  for (const auto part : {all.first(2), all.subspan(2, 1), all.subspan(3)}) {
    ASSERT_TRUE(calls.engine->forward_backward(calls.a, part, "importance_sampling").ok());
  }
  EXPECT_TRUE(same_bits(gradients(calls, calls.a), gradient));
}

TEST_F(ObjectiveTest, AdaptersThatShareAPassGetTheirOwnGradients) {
  Side together = side();
  const std::vector<Datum> of_a = rollouts(together, together.a, 0.5f);
  const std::vector<Datum> of_b = rollouts(together, together.b, 0.3f);
  const Engine::Work work[] = {{together.a, of_a}, {together.b, of_b}};
  const auto results = together.engine->forward_backward_many(work, "importance_sampling").value();
  Side apart = side();
  const auto b = apart.engine->forward_backward(apart.b, of_b, "importance_sampling").value();
  const auto a = apart.engine->forward_backward(apart.a, of_a, "importance_sampling").value();
  EXPECT_TRUE(same_bits(gradients(together, together.a), gradients(apart, apart.a)));
  EXPECT_TRUE(same_bits(gradients(together, together.b), gradients(apart, apart.b)));
  EXPECT_EQ(results[0].loss_sum, a.loss_sum);
  EXPECT_EQ(results[1].loss_sum, b.loss_sum);
  EXPECT_EQ(results[1].metrics.at("ratio").sum, b.metrics.at("ratio").sum);
}

TEST_F(ObjectiveTest, ForwardEvaluatesTheLossOverWhatIsLearned) {
  Side s = side();
  const std::vector<Datum> datums = rollouts(s, s.a, 0.5f);
  const auto forward = s.engine->forward(s.a, datums, "importance_sampling").value();
  const auto both = s.engine->forward_backward(s.a, datums, "importance_sampling").value();
  EXPECT_EQ(forward.loss_sum, both.loss_sum);
  EXPECT_EQ(forward.metrics.at("ratio").count, both.metrics.at("ratio").count);
  bool has_more = false;
  for (size_t i = 0; i < datums.size(); ++i) {
    for (size_t t = 0; t < datums[i].weights.size(); ++t) {
      if (datums[i].weights[t] != 0.0f) {
        EXPECT_EQ(forward.logprobs[i][t], both.logprobs[i][t]);
      } else {
        EXPECT_EQ(both.logprobs[i][t], 0.0f);
        has_more = has_more || forward.logprobs[i][t] != 0.0f;
      }
    }
  }
  EXPECT_TRUE(has_more) << "forward scores every position";
}

TEST_F(ObjectiveTest, BadInputIsRefusedByNameBeforeWork) {
  Side s = side();
  const Datum good = rollouts(s, s.a, 0.0f)[0];
  EXPECT_EQ(error_of(s, good, "importance_sampling"), "");
  const Gradients before = gradients(s, s.a);
  Datum datum = good;
  datum.inputs.erase("logprobs");
  EXPECT_EQ(error_of(s, datum, "importance_sampling"),
            "datum 0: logprobs: loss importance_sampling needs this per-token input");
  datum = good;
  datum.inputs["advantages"][1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(error_of(s, datum, "importance_sampling"),
            "datum 0: advantages[1]: expected a finite number");
  datum = good;
  datum.inputs["advantage"] = datum.inputs["advantages"];
  EXPECT_EQ(error_of(s, datum, "importance_sampling"),
            "datum 0: inputs: no loss reads \"advantage\", nearest is \"advantages\"");
  EXPECT_EQ(error_of(s, good, {"importance_sampling", {{"clip", 0.2}}}),
            "loss importance_sampling has no setting \"clip\"");
  EXPECT_TRUE(same_bits(gradients(s, s.a), before));
}

TEST_F(ObjectiveTest, ADerivativeThatOverflowsIsReportedAndNotApplied) {
  Side s = side();
  Datum datum = rollouts(s, s.a, 0.0f)[0];
  for (float& logprob : datum.inputs["logprobs"]) logprob = -400.0f;  // ratios near e^395
  const auto result = s.engine->forward_backward(s.a, {&datum, 1}, "importance_sampling").value();
  EXPECT_TRUE(std::isfinite(result.loss_sum)) << "in f64 it still fits";
  EXPECT_FALSE(result.finite);
  EXPECT_FALSE(s.engine->optim_step(s.a, {}).value().applied);
}

}  // namespace
}  // namespace mainspring
