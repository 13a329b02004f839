#include "mainspring/models/mup.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mainspring/models/random_model.h"

namespace mainspring {
namespace {

/// Four times as wide as the base of the tests, with heads of 32.
ModelConfig wide() {
  ModelConfig config;
  config.family = "llama";
  config.d = 256;
  config.layers = 2;
  config.query_heads = 8;
  config.kv_heads = 8;
  config.head_width = 32;
  config.ffn = 512;
  config.vocabulary = 128;
  config.context_length = 64;
  return config;
}

constexpr MupOptions kQuarter{.base_hidden = 64, .base_head_dim = 8};

const float* values(const StoredTensor& tensor) { return static_cast<const float*>(tensor.data); }

double deviation(const StoredTensor& tensor) {
  double squares = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    squares += static_cast<double>(values(tensor)[i]) * static_cast<double>(values(tensor)[i]);
  return std::sqrt(squares / static_cast<double>(tensor.num_elements()));
}

TEST(Mup, ClassesOfParametersHaveTheRatesOfTable8) {
  const std::string layer = "model.layers.1.";
  const struct {
    std::string name;
    double rate, decay;
  } cases[] = {{"model.embed_tokens.weight", 1, 1},
               {"lm_head.weight", 1, 1},
               {layer + "input_layernorm.weight", 1, 1},
               {layer + "self_attn.k_proj.weight", 1.0 / 4, 4},
               {layer + "self_attn.q_proj.weight", 1.0 / 4 / 2, 8},  // sqrt(8 / 32)
               {layer + "self_attn.q_proj.bias", 1.0 / 2, 2},
               {layer + "self_attn.o_proj.bias", 1, 1},
               {layer + "mlp.down_proj.weight", 1.0 / 4, 4},
               {"model.norm.weight", 1.0 / 4, 4},
               {"model.norm.bias", 1.0 / 4, 4}};
  for (const auto& c : cases) {
    const MupPart part = mup_part(wide(), kQuarter, c.name);
    EXPECT_DOUBLE_EQ(part.rate(), c.rate) << c.name;
    EXPECT_DOUBLE_EQ(part.decay(), c.decay) << c.name;
  }
}

TEST(Mup, ANormOfQueriesCarriesTheirMultiplier) {
  ModelConfig config = wide();
  config.qk_norm = true;
  EXPECT_EQ(mup_part(config, kQuarter, "model.layers.0.self_attn.q_proj.weight").multiplier, 1.0);
  EXPECT_EQ(mup_part(config, kQuarter, "model.layers.0.self_attn.q_norm.weight").multiplier, 0.5);
  EXPECT_EQ(mup_part(config, kQuarter, "model.layers.0.self_attn.k_norm.weight").multiplier, 1.0);
}

TEST(Mup, TheBaseAndNoMupChangeNothing) {
  for (const ParameterSpec& spec : model_parameters(wide())) {
    EXPECT_EQ(mup_part(wide(), {}, spec.name), MupPart()) << spec.name;
    EXPECT_EQ(mup_part(wide(), {.base_hidden = 256, .base_head_dim = 32}, spec.name), MupPart())
        << spec.name;
  }
}

TEST(Mup, FirstValuesFollowTheClass) {
  const InitOptions options{.seed = 5, .scheme = InitScheme::kScaled, .std = 0.08, .mup = kQuarter};
  const TensorSet weights = random_weights(wide(), options);
  const std::string layer = "model.layers.1.";
  // 32,768 samples and more: deviations of 0.4 %.
  const auto expect = [&](const std::string& name, double std) {
    EXPECT_NEAR(deviation(weights.at(name)), std, 0.02 * std) << name;
  };
  expect("model.embed_tokens.weight", 0.08);
  expect(layer + "mlp.up_proj.weight", 0.08 / 2);           // sqrt(4)
  expect(layer + "mlp.down_proj.weight", 0.08 / 2 / 2);     // sqrt(2 layers)
  expect(layer + "self_attn.q_proj.weight", 0.08 / 2 / 2);  // sqrt(8 / 32)
  EXPECT_EQ(values(weights.at("model.norm.weight"))[7], 0.25f);
  EXPECT_EQ(values(weights.at(layer + "input_layernorm.weight"))[7], 1.0f);
  InitOptions fan_in = options;
  fan_in.scheme = InitScheme::kFanIn;
  EXPECT_NEAR(deviation(random_weights(wide(), fan_in).at(layer + "mlp.up_proj.weight")), 1.0 / 16,
              0.02 / 16);
}

}  // namespace
}  // namespace mainspring
