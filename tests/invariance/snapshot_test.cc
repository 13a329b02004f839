// A snapshot's weights stay as they were, to the last bit, while the engine trains on.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "mainspring/engine/engine.h"
#include "mainspring/models/decoder.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/train/exactness_checks.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

struct Sampled {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  friend bool operator==(const Sampled&, const Sampled&) = default;
};

class SnapshotTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    engine_ = Engine::create(model_, *executor_, {.max_sequence_tokens = 64}).value();
    id_ = GetParam()
              ? engine_->add_full().value()
              : engine_->add_adapter(make_random_adapter(model_->config, 11, 4, 0.0f), 5).value();
    base_ = engine_->base_parameters();
  }

  /// A sampler bound to `parameters` of the model under test.
  std::unique_ptr<Sampler> sampler(const ParameterSet& parameters) {
    ForwardModel model{.config = model_->config, .base = &base_, .adapters = {}};
    if (GetParam()) {
      model.base = &parameters;
    } else {
      model.adapters = {{engine_->adapter_spec(id_).value(), &parameters, 0}};
    }
    return Sampler::create(*executor_, model, {.max_sequence_tokens = 64}).value();
  }

  Sampled sample(Sampler& sampler) const {
    SampleRequest request;
    request.prompt = {5, 17, 40, 8, 2};
    request.params.max_tokens = 12;
    request.params.seed = 3;
    request.adapter = GetParam() ? SampleRequest::kBaseOnly : 0;
    // Nothing of an earlier sample is read back: all keys and values are computed again.
    EXPECT_TRUE(sampler.set_weight_version(request.adapter, ++forgotten_).ok());
    const auto results = sampler.run({request}).value();
    return {results[0][0].tokens, results[0][0].raw_logprobs};
  }

  void train() {
    const Datum datum = make_random_datum(model_->config.vocabulary, 20, 9);
    ASSERT_TRUE(engine_->forward_backward(id_, {&datum, 1}, "cross_entropy").ok());
    ASSERT_TRUE(engine_->optim_step(id_, {.lr = 0.05f}).value().applied);
  }

  int64_t master_bytes() const {
    int64_t bytes = 0;
    for (const auto& [name, buffer] : *engine_->parameters(id_).value()) {
      bytes += buffer->size_bytes();
    }
    return bytes;
  }

  std::shared_ptr<const LoadedModel> model_ =
      load_model(test::source_path("tests/golden/tiny/llama_tied")).value();
  std::unique_ptr<Executor> executor_ = test::make_executor();
  std::unique_ptr<Engine> engine_;
  ModelId id_ = 0;
  ParameterSet base_;
  mutable uint64_t forgotten_ = 0;
};

INSTANTIATE_TEST_SUITE_P(, SnapshotTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Full" : "Adapter"; });

TEST_P(SnapshotTest, ASamplerOnAnOldSnapshotGivesTheSameBitsAfterSteps) {
  const auto snapshot = engine_->snapshot(id_).value();
  const auto old = sampler(snapshot->parameters());
  const auto live = sampler(*engine_->parameters(id_).value());
  const Sampled before = sample(*old);
  EXPECT_EQ(sample(*live), before);
  train();
  EXPECT_EQ(sample(*old), before);
  EXPECT_NE(sample(*live).logprobs, before.logprobs) << "a step that changes nothing tests nothing";
  train();
  EXPECT_EQ(sample(*old), before);
  EXPECT_EQ(sample(*sampler(snapshot->parameters())), before) << "a sampler bound afterwards";
  const auto next = engine_->snapshot(id_).value();
  EXPECT_EQ(sample(*sampler(next->parameters())), sample(*live));
}

TEST_P(SnapshotTest, BytesAreCopiedOnlyWhenTheWeightsChangeUnderAHolder) {
  train();  // makes the optimizer's state
  auto snapshot = engine_->snapshot(id_).value();
  EXPECT_EQ(engine_->snapshot(id_).value(), snapshot) << "one per version";
  const int64_t before = engine_->current_bytes();
  train();
  EXPECT_EQ(snapshot->copied_bytes(), master_bytes());
  EXPECT_GE(engine_->current_bytes(), before + master_bytes());
  snapshot.reset();
  EXPECT_LE(engine_->current_bytes(), before);
  snapshot = engine_->snapshot(id_).value();
  EXPECT_EQ(snapshot->copied_bytes(), 0);
  snapshot.reset();
  train();
  EXPECT_LE(engine_->current_bytes(), before) << "nobody holds it";
}

TEST_P(SnapshotTest, VersionsCountChangesAndDigestsNameThem) {
  EXPECT_EQ(engine_->version(id_).value(), 0);
  const Engine::State fresh = engine_->state(id_).value();
  std::map<std::string, std::vector<char>> saved;
  TensorSet start = fresh.tensors;
  for (auto& [name, tensor] : start) {
    const auto* bytes = static_cast<const char*>(tensor.data);
    saved[name].assign(bytes, bytes + tensor.size_bytes);
    tensor.data = saved[name].data();
  }
  const Digest128 first = engine_->digest(id_).value();
  const auto snapshot = engine_->snapshot(id_).value();
  train();
  EXPECT_EQ(engine_->version(id_).value(), 1);
  EXPECT_EQ(snapshot->version(), 0);
  EXPECT_EQ(snapshot->digest(), first);
  const Digest128 second = engine_->digest(id_).value();
  EXPECT_NE(second, first);
  ASSERT_TRUE(engine_->load_state(id_, {.tensors = start, .step = 0}).ok());
  EXPECT_EQ(engine_->version(id_).value(), 2);
  EXPECT_EQ(engine_->digest(id_).value(), first) << "equal weights, equal digest";
  EXPECT_EQ(snapshot->digest(), first);
}

TEST_P(SnapshotTest, AStepThatIsNotAppliedIsNoVersion) {
  const auto snapshot = engine_->snapshot(id_).value();
  Datum datum = make_random_datum(model_->config.vocabulary, 20, 9);
  for (float& weight : datum.weights) weight *= 3e38f;
  ASSERT_TRUE(engine_->forward_backward(id_, {&datum, 1}, "cross_entropy").ok());
  ASSERT_FALSE(engine_->optim_step(id_, {}).value().applied);
  EXPECT_EQ(engine_->version(id_).value(), 0);
  EXPECT_EQ(snapshot->copied_bytes(), 0);
}

TEST_P(SnapshotTest, AnAverageHasVersionsOfItsOwnModel) {
  const ModelId average = engine_->add_average(id_, {.decay = 0.5}).value();
  const auto snapshot = engine_->snapshot(average).value();
  const Digest128 before = engine_->digest(average).value();
  train();
  EXPECT_EQ(engine_->version(average).value(), 1);
  EXPECT_NE(engine_->digest(average).value(), before);
  EXPECT_EQ(snapshot->digest(), before);
}

TEST(SnapshotOfTheBase, IsNotNeeded) {
  const auto model = load_model(test::source_path("tests/golden/tiny/llama_tied")).value();
  const auto executor = test::make_executor();
  const auto engine = Engine::create(model, *executor, {.max_sequence_tokens = 64}).value();
  EXPECT_EQ(engine->snapshot(kBaseModel).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(engine->version(kBaseModel).value(), 0);
  EXPECT_EQ(engine->digest(kBaseModel).value(), engine->digest(kBaseModel).value());
  EXPECT_EQ(engine->version(7).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace mainspring
