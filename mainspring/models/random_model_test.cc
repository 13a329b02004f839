#include "mainspring/models/random_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace mainspring {
namespace {

ModelConfig small() {
  ModelConfig config;
  config.family = "llama";
  config.d = 64;
  config.layers = 8;
  config.query_heads = 4;
  config.kv_heads = 2;
  config.head_width = 16;
  config.ffn = 96;
  config.vocabulary = 300;
  config.context_length = 32;
  return config;
}

const float* values(const StoredTensor& tensor) { return static_cast<const float*>(tensor.data); }

double deviation(const StoredTensor& tensor) {
  double squares = 0;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    squares += static_cast<double>(values(tensor)[i]) * static_cast<double>(values(tensor)[i]);
  }
  return std::sqrt(squares / static_cast<double>(tensor.num_elements()));
}

TEST(RandomModel, WeightsAreNormalWithTheSchemesDeviation) {
  const std::string layer = "model.layers.3.";
  const struct {
    InitScheme scheme;
    double up, down;
  } cases[] = {{InitScheme::kNormal, 0.02, 0.02},
               {InitScheme::kScaled, 0.02, 0.02 / 4},  // sqrt(2 * 8)
               {InitScheme::kFanIn, 1 / std::sqrt(64.0), 1 / std::sqrt(96.0)}};
  for (const auto& c : cases) {
    const TensorSet weights = random_weights(small(), {.seed = 1, .scheme = c.scheme});
    // 6,144 samples: the deviation's own is 1 / sqrt(2 n) = 0.9%.
    EXPECT_NEAR(deviation(weights.at(layer + "mlp.up_proj.weight")), c.up, 0.04 * c.up);
    EXPECT_NEAR(deviation(weights.at(layer + "mlp.down_proj.weight")), c.down, 0.04 * c.down);
    EXPECT_NEAR(deviation(weights.at("model.embed_tokens.weight")), 0.02, 0.04 * 0.02);
    EXPECT_EQ(values(weights.at("model.norm.weight"))[5], 1.0f);
  }
}

TEST(RandomModel, AGpt2StartsAsItsPaperSays) {
  ModelConfig config = small();
  config.layer_norm = true;
  config.learned_positions = true;
  config.gated_mlp = false;
  config.attention_bias = config.output_bias = config.mlp_bias = true;
  for (const InitScheme scheme : {InitScheme::kScaled, InitScheme::kFanIn}) {
    const TensorSet weights = random_weights(config, {.seed = 1, .scheme = scheme});
    // 2,048 samples.
    EXPECT_NEAR(deviation(weights.at("model.embed_positions.weight")), 0.02, 0.07 * 0.02);
    EXPECT_EQ(deviation(weights.at("model.layers.3.mlp.down_proj.bias")), 0.0);
    EXPECT_EQ(deviation(weights.at("model.layers.3.input_layernorm.bias")), 0.0);
    EXPECT_EQ(values(weights.at("model.layers.3.input_layernorm.weight"))[63], 1.0f);
  }
}

TEST(RandomModel, AValueIsAFunctionOfSeedNameAndElement) {
  const TensorSet one = random_weights(small(), {.seed = 1, .num_threads = 1});
  const TensorSet three = random_weights(small(), {.seed = 1, .num_threads = 3});
  ModelConfig longer = small();
  longer.vocabulary = 304;  // more elements, another set of parameters
  longer.ffn = 128;
  const TensorSet other_shape = random_weights(longer, {.seed = 1});
  for (const auto& [name, tensor] : one) {
    EXPECT_EQ(std::memcmp(tensor.data, three.at(name).data, tensor.size_bytes), 0) << name;
  }
  const std::string embedding = "model.embed_tokens.weight";
  EXPECT_EQ(std::memcmp(one.at(embedding).data, other_shape.at(embedding).data,
                        one.at(embedding).size_bytes),
            0);
  const TensorSet reseeded = random_weights(small(), {.seed = 2});
  EXPECT_NE(values(one.at(embedding))[0], values(reseeded.at(embedding))[0]);
  EXPECT_NE(values(one.at(embedding))[0], values(one.at("lm_head.weight"))[0]);
}

TEST(RandomModel, ValuesAreTheSameOnEveryMachine) {
  const TensorSet weights = random_weights(small(), {.seed = 7});
  const float* v = values(weights.at("model.layers.0.self_attn.q_proj.weight"));
  // From the formula in another language: Philox of key FNV-1a(seed, name) and counter 0.
  const float expected[4] = {0x1.4d85400000000p-6f, 0x1.02ac1e0000000p-9f, -0x1.8334a40000000p-8f,
                             -0x1.fa09940000000p-6f};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(v[i], expected[i]) << i;
}

TEST(RandomModel, TheTokenizerGivesVocabularyAndEnd) {
  ModelConfig config = small();
  config.vocabulary = 0;
  const auto model = make_random_model(config, {}, read_tokenizer_source("").value()).value();
  EXPECT_EQ(model->config.vocabulary, 257);
  EXPECT_EQ(model->config.eos_tokens, std::vector<int32_t>{256});
  EXPECT_NE(model->config_json.find("LlamaForCausalLM"), std::string::npos);
  config.vocabulary = 256;
  const auto refused = make_random_model(config, {}, read_tokenizer_source("").value());
  EXPECT_NE(refused.status().message().find("has 257 tokens, the vocabulary only 256"),
            std::string::npos);
}

TEST(RandomModel, ATokenizerThatIsNotThereIsNamed) {
  EXPECT_NE(read_tokenizer_source("/no/such").status().message().find("/no/such"),
            std::string::npos);
  EXPECT_FALSE(read_tokenizer_source("/no/such/tokenizer.json").ok());
  EXPECT_EQ(parse_init_scheme("scaledd").status().message(),
            "no init scheme named \"scaledd\", nearest is \"scaled\"");
}

}  // namespace
}  // namespace mainspring
