// 200 training steps of a small GPT-2 in f32 against transformers and torch, from the same weights
// and data: make_gpt2_parity.py has the formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "mainspring/engine/engine.h"
#include "mainspring/weights/dequantise.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

constexpr double kStd = 0.02;

uint32_t fnv1a(const std::string& text) {
  uint32_t hash = 0x811C9DC5u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x01000193u;
  return hash;
}

uint32_t bits(uint32_t seed, size_t i) {
  uint32_t x = seed + static_cast<uint32_t>(i) * 0x9E3779B9u;
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 16)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

ModelConfig config_of(const Json& json) {
  ModelConfig config;
  config.family = "gpt2";
  config.d = json["n_embd"].get<int64_t>();
  config.layers = json["n_layer"].get<int64_t>();
  config.query_heads = config.kv_heads = json["n_head"].get<int64_t>();
  config.head_width = config.d / config.query_heads;
  config.ffn = 4 * config.d;
  config.vocabulary = json["vocab_size"].get<int64_t>();
  config.context_length = json["n_positions"].get<int64_t>();
  config.rms_eps = 1e-5f;
  config.layer_norm = config.learned_positions = config.tied_embeddings = true;
  config.attention_bias = config.output_bias = config.mlp_bias = true;
  config.gated_mlp = false;
  config.activation = MlpActivation::kGeluTanh;
  return config;
}

/// The script's uniform(), ones for norms and zeros for biases.
std::vector<float> initial_values(const ParameterSpec& spec, int64_t layers) {
  const int64_t n =
      std::accumulate(spec.shape.begin(), spec.shape.end(), int64_t{1}, std::multiplies<>());
  std::vector<float> values(static_cast<size_t>(n), spec.name.ends_with("bias") ? 0.0f : 1.0f);
  if (spec.shape.size() < 2) return values;
  const bool ends_branch =
      spec.name.ends_with("o_proj.weight") || spec.name.ends_with("down_proj.weight");
  const double std = ends_branch ? kStd / std::sqrt(2.0 * static_cast<double>(layers)) : kStd;
  const auto half = static_cast<float>(std * std::sqrt(3.0));
  const uint32_t seed = fnv1a(spec.name);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = (static_cast<float>(bits(seed, i) >> 8) * 0x1p-23f - 1.0f) * half;
  return values;
}

std::shared_ptr<const LoadedModel> initial_model(const ModelConfig& config) {
  auto model = std::make_shared<LoadedModel>();
  model->path = "the golden start";
  model->config = config;
  for (const ParameterSpec& spec : model_parameters(config)) {
    model->weights[spec.name] =
        make_tensor(spec.name, spec.shape, DType::kF32, initial_values(spec, config.layers));
  }
  return model;
}

double sum_of_matrices(const LoadedModel& model) {
  double sum = 0;
  for (const auto& [name, tensor] : model.weights) {
    if (tensor.shape.size() < 2) continue;
    const auto* values = static_cast<const float*>(tensor.data);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) sum += static_cast<double>(values[i]);
  }
  return sum;
}

std::vector<Datum> batch(const Json& golden, size_t step) {
  const auto vocabulary = golden["config"]["vocab_size"].get<uint32_t>();
  std::vector<Datum> datums;
  for (int64_t row = 0; row < golden["batch"].get<int64_t>(); ++row) {
    const uint32_t seed = fnv1a(std::to_string(step) + "." + std::to_string(row));
    std::vector<int32_t> tokens{static_cast<int32_t>(bits(seed, 0) % vocabulary)};
    for (size_t i = 1; i <= golden["length"].get<size_t>(); ++i) {
      const uint32_t next = 5 * static_cast<uint32_t>(tokens.back()) + 17 * (bits(seed, i) % 4) + 1;
      tokens.push_back(static_cast<int32_t>(next % vocabulary));
    }
    const std::vector<uint8_t> all(tokens.size(), 1);
    datums.push_back(make_next_token_datum(tokens, all));
  }
  return datums;
}

TEST(Gpt2Parity, TwoHundredStepsFromNothingEqualTorch) {
  const Json golden = test::read_json("tests/golden/gpt2_parity/golden.json");
  const auto model = initial_model(config_of(golden["config"]));
  ASSERT_NEAR(sum_of_matrices(*model), golden["initial_sum"].get<double>(), 1e-9);
  const auto executor = test::make_executor();
  auto engine =
      Engine::create(model, *executor, {.compute = DType::kF32, .max_sequence_tokens = 64}).value();
  const ModelId id = engine->add_full().value();
  const Json& optimizer = golden["optimizer"];
  const size_t steps = golden["steps"].size();
  ASSERT_EQ(steps, 200u);
  double largest = 0;
  double last = 0;
  for (size_t step = 0; step < steps; ++step) {
    const auto result = engine->forward_backward(id, batch(golden, step), "cross_entropy").value();
    const auto update =
        engine
            ->optim_step(id, {.lr = golden["lr"][step].get<float>(),
                              .beta1 = optimizer["betas"][0].get<float>(),
                              .beta2 = optimizer["betas"][1].get<float>(),
                              .eps = optimizer["eps"].get<float>(),
                              .weight_decay = optimizer["weight_decay"].get<float>(),
                              .max_grad_norm = optimizer["max_grad_norm"].get<float>(),
                              .normaliser = result.weight_sum})
            .value();
    const Json& want = golden["steps"][step];
    last = result.loss_sum / result.weight_sum;
    EXPECT_NEAR(last, want["loss"].get<double>(), 1e-3) << "step " << step;
    EXPECT_NEAR(update.grad_norm, want["grad_norm"].get<double>(),
                1e-2 * want["grad_norm"].get<double>())
        << "step " << step;
    largest = std::max(largest, std::abs(last - want["loss"].get<double>()));
  }
  std::printf("largest |loss - torch's| %.2g; last loss %.4f\n", largest, last);
  // It learned: half way at least from log(128) to log(4), which the data allows.
  EXPECT_LT(last, 0.5 * (std::log(128.0) + std::log(4.0)));
}

}  // namespace
}  // namespace mainspring
