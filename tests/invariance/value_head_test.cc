// The scalar head beside the language model's: its gradients, and that nothing else changes a bit.
#include <gtest/gtest.h>

#include <cmath>

#include "mainspring/train/checkpointing.h"
#include "mainspring/train/exactness_checks.h"
#include "tests/invariance/call_bench.h"

namespace mainspring {
namespace {

using test::CallBench;
using test::Gradients;

// A critic and a policy at once: 0.5 w (v - 1)^2 - w logp per token; without a head it is refused.
Status critic(std::span<const ObjectiveItem> items, const LossSettings&,
              std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].values.empty()) return invalid_argument("the model has no scalar head");
    for (size_t t = 0; t < items[i].values.size(); ++t) {
      const double w = static_cast<double>(items[i].datum->weights[t]);
      if (w == 0.0) continue;
      const double off = static_cast<double>(items[i].values[t]) - 1.0;
      gradients[i].loss += 0.5 * w * off * off - w * static_cast<double>(items[i].logprobs[t]);
      gradients[i].by_value[t] = w * off;
      gradients[i].by_logprob[t] = -w;
      metrics["value"].add(static_cast<double>(items[i].values[t]));
    }
  }
  return {};
}

// The policy's part alone.
Status policy(std::span<const ObjectiveItem> items, const LossSettings&,
              std::span<ObjectiveGradient> gradients, LossMetrics&) {
  for (size_t i = 0; i < items.size(); ++i) {
    for (size_t t = 0; t < items[i].logprobs.size(); ++t) {
      const double w = static_cast<double>(items[i].datum->weights[t]);
      gradients[i].loss -= w * static_cast<double>(items[i].logprobs[t]);
      gradients[i].by_logprob[t] = -w;
    }
  }
  return {};
}

constexpr std::string_view kInputs[] = {"weights"};
constexpr LossInfo kCritic{.name = "critic", .inputs = kInputs, .objective = critic};
constexpr LossInfo kPolicy{.name = "policy", .inputs = kInputs, .objective = policy};

class ValueHeadTest : public testing::Test {
 protected:
  void SetUp() override {
    for (uint64_t i = 0; i < 7; ++i) {
      datums_.push_back(make_random_datum(model_->config.vocabulary, 5 + 3 * (i % 4), 40 + i));
      datums_.back().sample_index = i;
    }
  }

  /// A LoRA adapter whose B, and head if it has one, are not zero.
  static Trainable& add_lora(CallBench& bench, uint64_t seed, bool value_head, float dropout = 0) {
    const LoraOptions options{
        .rank = 4, .dropout = dropout, .targets = {}, .seed = seed, .value_head = value_head};
    Trainable& model = bench.add(make_lora(bench.executor(), bench.config(), options).value());
    for (auto& [name, master] : model.masters) {
      if (name.find("lora_A") != std::string::npos) continue;
      auto* values = static_cast<float*>(master->data());
      for (int64_t i = 0; i < master->size_bytes() / 4; ++i) {
        values[i] = 0.02f * std::sin(static_cast<float>(i + static_cast<int64_t>(seed)));
      }
      master->mark_changed();
    }
    return model;
  }

  std::shared_ptr<const LoadedModel> model_ =
      load_model(test::source_path("tests/golden/tiny/llama_tied")).value();
  std::vector<Datum> datums_;
};

TEST_F(ValueHeadTest, ValuesStartAtZeroAndTheHeadLearnsWithTheModel) {
  CallBench bench(model_, {});
  for (const bool is_full : {false, true}) {
    auto made = is_full ? make_full(bench.executor(), *model_, {.value_head = true}).value()
                        : make_lora(bench.executor(), model_->config, {.value_head = true}).value();
    Trainable& model = bench.add(std::move(made));
    const auto result = bench.call({{&model, datums_}}, kCritic).value()[0];
    EXPECT_EQ(result.values.size(), datums_.size());
    EXPECT_EQ(result.metrics.at("value").sum, 0.0);
    const Gradients gradient = CallBench::gradients(model);
    double size = 0.0;
    for (float x : gradient.at(kValueHead)) size += std::abs(static_cast<double>(x));
    EXPECT_GT(size, 0.0);
  }
}

// Along the gradient itself, in f32: the slope is the gradient's norm.
TEST_F(ValueHeadTest, TheGradientIsTheSlopeOfTheLoss) {
  CallBench bench(model_, {.compute = DType::kF32});
  Trainable& model = add_lora(bench, 3, true);
  ASSERT_TRUE(bench.call({{&model, datums_}}, kCritic).ok());
  const Gradients gradient = CallBench::gradients(model);
  double squares = 0.0;
  for (const auto& [name, values] : gradient) {
    for (float x : values) squares += static_cast<double>(x) * static_cast<double>(x);
  }
  const double norm = std::sqrt(squares);
  const auto move = [&](double step) {
    for (auto& [name, master] : model.masters) {
      auto* values = static_cast<float*>(master->data());
      for (size_t i = 0; i < gradient.at(name).size(); ++i) {
        values[i] += static_cast<float>(step / norm) * gradient.at(name)[i];
      }
      master->mark_changed();
    }
    return bench.call({{&model, datums_}}, kCritic, false).value()[0].loss_sum;
  };
  constexpr double kStep = 2e-3;
  const double above = move(kStep);
  const double below = move(-2 * kStep);
  EXPECT_NEAR((above - below) / (2 * kStep), norm, 2e-3 * norm);
}

TEST_F(ValueHeadTest, AHeadThatIsNotReadChangesNoBit) {
  CallBench bench(model_, {});
  Trainable& with = add_lora(bench, 3, true);
  Trainable& without = add_lora(bench, 3, false);
  const auto a = bench.call({{&with, datums_}}, kPolicy).value();
  const auto b = bench.call({{&without, datums_}}, kPolicy).value();
  Gradients gradient = CallBench::gradients(with);
  for (float x : gradient.at(kValueHead)) EXPECT_EQ(x, 0.0f);
  gradient.erase(kValueHead);
  EXPECT_TRUE(test::same_bits(gradient, CallBench::gradients(without)));
  EXPECT_EQ(a[0].logprobs, b[0].logprobs);
  EXPECT_TRUE(b[0].values.empty());
}

TEST_F(ValueHeadTest, HowCallsAreCutAndSharedChangesNoBit) {
  CallBench whole(model_, {});
  Trainable& a = add_lora(whole, 3, true, 0.1f);
  Trainable& b = add_lora(whole, 4, true);
  const std::span<const Datum> all(datums_);
  const auto expected_a = whole.call({{&a, all}}, kCritic).value()[0];
  const auto expected_b = whole.call({{&b, all.first(5)}}, kCritic).value()[0];
  for (const int64_t rows : {16, 48, 1024}) {
    CallBench cut(model_, {.micro_batch_rows = rows, .recompute = RecomputePolicy::kFull});
    Trainable& first = add_lora(cut, 4, true);
    Trainable& second = add_lora(cut, 3, true, 0.1f);
    const auto results = cut.call({{&first, all.first(5)}, {&second, all}}, kCritic).value();
    EXPECT_TRUE(test::same_bits(CallBench::gradients(first), CallBench::gradients(b)));
    EXPECT_TRUE(test::same_bits(CallBench::gradients(second), CallBench::gradients(a)));
    EXPECT_EQ(results[0].values, expected_b.values);
    EXPECT_EQ(results[1].values, expected_a.values);
    EXPECT_EQ(results[1].loss_sum, expected_a.loss_sum);
  }
}

TEST_F(ValueHeadTest, ForwardGivesValuesOfEveryPosition) {
  CallBench bench(model_, {});
  Trainable& model = add_lora(bench, 3, true);
  const auto trained = bench.call({{&model, datums_}}, kCritic).value()[0];
  const auto scored = bench.call({{&model, datums_}}, kCritic, false).value()[0];
  EXPECT_EQ(scored.loss_sum, trained.loss_sum);
  const LossInfo& traced = *find_loss("cross_entropy").value();
  EXPECT_EQ(bench.call({{&model, datums_}}, traced, false).value()[0].values, scored.values);
  size_t more = 0;
  for (size_t i = 0; i < datums_.size(); ++i) {
    for (size_t t = 0; t < datums_[i].weights.size(); ++t) {
      EXPECT_NE(scored.values[i][t], 0.0f);
      const bool is_learned = datums_[i].weights[t] != 0.0f;
      EXPECT_EQ(trained.values[i][t], is_learned ? scored.values[i][t] : 0.0f);
      more += is_learned ? 0 : 1;
    }
  }
  EXPECT_GT(more, 0u);
}

TEST_F(ValueHeadTest, AnObjectiveOfValuesRefusesAModelWithoutAHead) {
  CallBench bench(model_, {});
  Trainable& model = add_lora(bench, 3, false);
  EXPECT_EQ(bench.call({{&model, datums_}}, kCritic).status().message(),
            "the model has no scalar head");
}

// Bradley-Terry: chosen answers end in one token, rejected ones in another.
TEST_F(ValueHeadTest, ARewardModelLearnsPairs) {
  const auto executor = test::make_executor();
  const auto engine = Engine::create(model_, *executor, {.max_sequence_tokens = 64}).value();
  const ModelId id = engine->add_lora({.rank = 4, .value_head = true}).value();
  std::vector<Datum> pairs;
  for (int32_t i = 0; i < 8; ++i) {
    Datum datum;
    datum.tokens = {5, 9 + i / 2, i % 2 == 0 ? 40 : 80};
    datum.targets = {9 + i / 2, datum.tokens[2], 0};
    datum.weights = {0, 0, 1};
    datum.group = i / 2;
    datum.role = 1 + i % 2;
    pairs.push_back(std::move(datum));
  }
  const auto step = [&] {
    const auto result = engine->forward_backward(id, pairs, "reward_pair").value();
    EXPECT_TRUE(engine->optim_step(id, {.lr = 0.02f, .normaliser = 4.0}).value().applied);
    return result;
  };
  EXPECT_NEAR(step().loss_sum, 4 * std::log(2.0), 1e-12) << "values start equal";
  ForwardBackwardResult last;
  for (int i = 0; i < 15; ++i) last = step();
  EXPECT_LT(last.loss_sum, 0.2);
  for (size_t i = 0; i < pairs.size(); i += 2) {
    EXPECT_GT(last.values[i][2], last.values[i + 1][2]);
  }
}

TEST_F(ValueHeadTest, TheHeadIsPartOfTheStateButNotOfTheAdapter) {
  const auto executor = test::make_executor();
  const auto engine = Engine::create(model_, *executor, {.max_sequence_tokens = 64}).value();
  const ModelId with = engine->add_lora({.rank = 4, .value_head = true}).value();
  const ModelId without = engine->add_lora({.rank = 4}).value();
  const std::string name = "model/" + std::string(kValueHead);
  const Engine::State state = engine->state(with).value();
  EXPECT_EQ(state.tensors.at(name).shape, (std::vector<int64_t>{1, model_->config.d}));
  EXPECT_EQ(engine->state(without).value().tensors.count(name), 0u);
  EXPECT_EQ(engine->adapter(with).value().tensors.size(),
            engine->adapter(without).value().tensors.size());
  const ModelId other = engine->add_lora({.rank = 4, .seed = 9, .value_head = true}).value();
  ASSERT_TRUE(engine->load_state(other, state).ok());
  EXPECT_EQ(engine->digest(other).value(), engine->digest(with).value());
  EXPECT_FALSE(engine->load_state(without, state).ok());
  const auto files = checkpoint_content(*engine, with, {}).value().files;
  ASSERT_EQ(files.back().file_name, "value_head.safetensors");
  EXPECT_EQ(files.back().tensors.count(kValueHead), 1u);
  const auto others = checkpoint_content(*engine, without, {}).value().files;
  EXPECT_EQ(files[0].tensors.size(), others[0].tensors.size()) << "the adapter's file is PEFT's";
  EXPECT_EQ(files.size(), others.size() + 1);
}

}  // namespace
}  // namespace mainspring
