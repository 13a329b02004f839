#include "mainspring/train/flops.h"

#include <gtest/gtest.h>

#include "mainspring/exec/ref/ref_executor.h"

namespace mainspring {
namespace {

// d 8, f 16, 2 heads of 4, 1 kv head, vocabulary 32, 2 layers.
ModelConfig tiny() {
  ModelConfig config;
  config.family = "llama";
  config.d = 8;
  config.layers = 2;
  config.query_heads = 2;
  config.kv_heads = 1;
  config.head_width = 4;
  config.ffn = 16;
  config.vocabulary = 32;
  config.context_length = 64;
  config.tied_embeddings = true;
  return config;
}

// By layer: q and o 8 x 8, k and v 4 x 8, gate, up and down 16 x 8.
constexpr double kLinears = 2 * (2 * 64 + 2 * 32 + 3 * 128);
constexpr double kHead = 32 * 8;

Datum datum(size_t tokens, size_t learned) {
  Datum d;
  d.tokens.assign(tokens, 1);
  d.targets.assign(tokens, 1);
  d.weights.assign(tokens, 0.0f);
  for (size_t i = tokens - learned; i < tokens; ++i) d.weights[i] = 0.5f;
  return d;
}

TEST(Flops, FullTrainingCountsSixPerWeightAndTwelvePerPair) {
  ref::RefExecutor executor;
  const FlopsModel model = FlopsModel::of(tiny(), {.full = true}, executor).value();
  const Datum datums[] = {datum(3, 3), datum(5, 1)};
  // pairs 6 and 15 in each of 2 layers
  EXPECT_EQ(model.of_step(datums), 6 * kLinears * 8 + 6 * kHead * 4 + 12.0 * 8 * 2 * (6 + 15));
  EXPECT_EQ(model.per_token(), 6 * (kLinears + kHead));
  EXPECT_GT(model.peak, 1e3);
}

TEST(Flops, AnAdapterNeedsNoWeightGradientOfTheBase) {
  ref::RefExecutor executor;
  const TrainedPart part{.full = false, .rank = 2, .targets = {"k_proj"}};
  const FlopsModel model = FlopsModel::of(tiny(), part, executor).value();
  const Datum datums[] = {datum(4, 0)};
  const double adapter = 2 * 2 * (4 + 8);
  EXPECT_EQ(model.of_step(datums), (4 * kLinears + 6 * adapter) * 4 + 12.0 * 8 * 2 * 10);
}

TEST(Flops, AWindowLeavesPairsOut) {
  ref::RefExecutor executor;
  ModelConfig config = tiny();
  config.window = 2;
  config.windowed_layers = {true, false};
  const FlopsModel model = FlopsModel::of(config, {.full = true}, executor).value();
  const Datum datums[] = {datum(4, 0)};
  // 1 + 2 + 2 + 2 pairs in the first layer, 10 in the second
  EXPECT_EQ(model.of_step(datums), 6 * kLinears * 4 + 12.0 * 8 * (7 + 10));
}

TEST(Flops, AnUnknownTargetIsRefused) {
  ref::RefExecutor executor;
  EXPECT_EQ(FlopsModel::of(tiny(), {.rank = 2, .targets = {"kproj"}}, executor).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(Flops, MfuIsAFractionOfThePeak) { EXPECT_EQ(mfu(6e9, 2.0, 1e10), 0.3); }

}  // namespace
}  // namespace mainspring
