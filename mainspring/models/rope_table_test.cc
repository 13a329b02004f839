#include "mainspring/models/rope_table.h"

#include <cmath>

#include <gtest/gtest.h>

namespace mainspring {
namespace {

constexpr float kEps = 0x1p-23f;

TEST(RopeTableTest, PlainFrequenciesFallGeometrically) {
  const std::vector<float> f = rope_frequencies(10000.0f, {}, 8);
  ASSERT_EQ(f.size(), 4u);
  EXPECT_EQ(f[0], 1.0f);
  EXPECT_NEAR(f[1], 0.1f, 0.1f * kEps);
  EXPECT_NEAR(f[2], 0.01f, 0.01f * kEps);
  EXPECT_NEAR(f[3], 0.001f, 0.001f * kEps);
}

TEST(RopeTableTest, AContextThatNoMemoryHoldsIsRefused) {
  EXPECT_TRUE(check_rope_table_size(128, 131072).ok());
  EXPECT_EQ(check_rope_table_size(64, 1000000000).code(), StatusCode::kResourceExhausted);
}

TEST(RopeTableTest, LinearScalingDividesEveryFrequency) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::kLinear;
  scaling.factor = 4.0f;
  EXPECT_EQ(rope_frequencies(10000.0f, scaling, 8)[0], 0.25f);
}

TEST(RopeTableTest, Llama3ScalingKeepsShortWavesAndDividesLongOnes) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::kLlama3;
  scaling.factor = 8.0f;
  scaling.low_freq_factor = 1.0f;
  scaling.high_freq_factor = 4.0f;
  scaling.original_context = 8192;
  const std::vector<float> plain = rope_frequencies(500000.0f, {}, 128);
  const std::vector<float> scaled = rope_frequencies(500000.0f, scaling, 128);
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_EQ(scaled[63], plain[63] / 8.0f);
  for (size_t i = 0; i < 64; ++i) {  // f64 evaluation of the definition
    const double wave = 2.0 * 3.14159265358979323846 / plain[i];
    double expected = plain[i];
    if (wave > 8192.0) {
      expected = plain[i] / 8.0;
    } else if (wave > 2048.0) {
      const double s = (8192.0 / wave - 1.0) / 3.0;
      expected = (1 - s) * plain[i] / 8.0 + s * plain[i];
    }
    EXPECT_NEAR(scaled[i], expected, 8 * kEps * expected) << i;
  }
}

TEST(RopeTableTest, PerPairFactorsDivide) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::kFactors;
  scaling.factors = {1.0f, 2.0f};
  const std::vector<float> f = rope_frequencies(100.0f, scaling, 4);
  EXPECT_EQ(f[0], 1.0f);
  EXPECT_EQ(f[1], 0.05f);
}

TEST(RopeTableTest, TableHoldsCosineAndSineOfTheRoundedAngle) {
  const std::vector<float> f = rope_frequencies(10000.0f, {}, 64);
  const std::vector<float> table = make_rope_table(10000.0f, {}, 64, 300);
  ASSERT_EQ(table.size(), 300u * 32 * 2);
  for (size_t position = 0; position < 300; position += 23) {
    for (size_t i = 0; i < 32; ++i) {
      const double angle = static_cast<float>(position) * f[i];
      EXPECT_NEAR(table[(position * 32 + i) * 2], std::cos(angle), kEps / 2);
      EXPECT_NEAR(table[(position * 32 + i) * 2 + 1], std::sin(angle), kEps / 2);
    }
  }
}

TEST(RopeTable, ALocalThetaMakesASecondTableBehindTheFirst) {
  ModelConfig config;
  config.layers = 2;
  config.head_width = 8;
  config.rope_theta = 1000000.0f;
  config.rope_scaling = {.kind = RopeScaling::Kind::kLinear, .factor = 8.0f};
  EXPECT_EQ(make_rope_table(config, 5), make_rope_table(1000000.0f, config.rope_scaling, 8, 5));
  config.window = 3;
  config.windowed_layers = {true, false};
  config.local_rope_theta = 10000.0f;
  const std::vector<float> both = make_rope_table(config, 5);
  EXPECT_EQ(rope_table_shape(config, 5), (std::vector<int64_t>{10, 4, 2}));
  const std::vector<float> local = make_rope_table(10000.0f, {}, 8, 5);
  EXPECT_EQ((std::vector<float>{both.begin() + 5 * 8, both.end()}), local);
  EXPECT_EQ(layer_rope_table(config, 0), 1);
  EXPECT_EQ(layer_rope_table(config, 1), 0);
}

TEST(RopeTable, LearnedPositionsBoundTheContext) {
  ModelConfig config;
  config.head_width = 8;
  config.context_length = 32;
  EXPECT_TRUE(check_positions(config, 64).ok());
  config.learned_positions = true;
  EXPECT_TRUE(check_positions(config, 32).ok());
  EXPECT_EQ(check_positions(config, 33).message(),
            "a context of 33 positions: the model has learned 32");
}

}  // namespace
}  // namespace mainspring
