// The real model against transformers and torch: greedy continuations, log-probabilities, training
// steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "mainspring/engine/engine.h"
#include "mainspring/models/decoder.h"
#include "mainspring/models/model_text.h"
#include "mainspring/sample/forward_model.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/weights/dequantise.h"
#include "tests/support/golden_files.h"
#include "tests/support/smollm2.h"

namespace mainspring {
namespace {

std::shared_ptr<const LoadedModel> smollm2() { return load_model(test::smollm2_path()).value(); }

TEST(SmolLM2, GreedyContinuationsEqualTransformers) {
  const Json golden = test::read_json("tests/golden/smollm2/greedy.json");
  const auto model = smollm2();
  const ModelText text = make_model_text(*model).value();
  const auto executor = test::make_executor();
  const ParameterSet base = borrow_parameters(*executor, model->weights);
  auto sampler = Sampler::create(*executor,
                                 {.compute = DType::kF32,
                                  .config = model->config,
                                  .base = &base,
                                  .adapters = {},
                                  .weight_version = 0},
                                 {.max_batch = 8, .max_rows = 256, .max_sequence_tokens = 512})
                     .value();
  std::vector<SampleRequest> requests;
  for (const Json& row : golden["rows"]) {
    const std::string rendered =
        text.chat_template->render(row["messages"], {.add_generation_prompt = true}).value();
    EXPECT_EQ(rendered, row["prompt"].get<std::string>());
    SampleRequest request;
    request.prompt =
        text.tokenizer
            ->encode(rendered, {.add_special_tokens = false, .parse_special_tokens = true})
            .value();
    EXPECT_EQ(request.prompt, row["prompt_tokens"].get<std::vector<int32_t>>());
    request.params.max_tokens = golden["max_tokens"].get<int32_t>();
    request.params.temperature = 0.0f;
    request.params.stop_tokens = {golden["stop_token"].get<int32_t>()};
    requests.push_back(std::move(request));
  }
  const auto results = sampler->run(requests).value();
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i][0].tokens, golden["rows"][i]["tokens"].get<std::vector<int32_t>>())
        << "prompt " << i;
  }
}

/// Logits (rows, v) of one sequence by the serving forward pass.
class Logits {
 public:
  Logits(const LoadedModel& model, DType compute, int64_t rows)
      : executor_(test::make_executor()), base_(borrow_parameters(*executor_, model.weights)) {
    ForwardModel forward;
    forward.compute = compute;
    forward.config = model.config;
    forward.base = &base_;
    forward_ =
        Forward::create(
            *executor_, forward,
            {.ending = Forward::Ending::kLogits, .capacity = {rows, rows}, .rope_positions = rows})
            .value();
  }

  const float* of(std::span<const int32_t> tokens) {
    std::copy(tokens.begin(), tokens.end(), forward_->tokens());
    const Segment segment{.num_rows = static_cast<int32_t>(tokens.size())};
    std::vector<int32_t> picked(tokens.size());
    std::iota(picked.begin(), picked.end(), 0);
    forward_->run({segment.num_rows, {&segment, 1}, picked}, nullptr);
    return forward_->result();
  }

 private:
  std::unique_ptr<Executor> executor_;
  ParameterSet base_;
  std::unique_ptr<Forward> forward_;
};

double log_sum_exp(const float* x, int64_t n) {
  const double max = static_cast<double>(*std::max_element(x, x + n));
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i]) - max);
  return max + std::log(sum);
}

/// KL(p || q) of the laws of two rows of logits.
double kl(const float* p, const float* q, int64_t n) {
  const double p_lse = log_sum_exp(p, n);
  const double q_lse = log_sum_exp(q, n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double log_p = static_cast<double>(p[i]) - p_lse;
    sum += std::exp(log_p) * (log_p - (static_cast<double>(q[i]) - q_lse));
  }
  return sum;
}

// Over the same 4,096 tokens our bf16 is no farther from our f32 than torch's bf16 is from torch's
// f32: in KL over the whole vocabulary and in mean |difference| of the targets' log-probabilities.
// Torch's own bf16 kernels came 10 % closer than the products they are stood in for by
// (tests/golden/README.md), so that is asked of ours.
TEST(SmolLM2, Bf16LogProbabilitiesAreNoFartherFromF32ThanTorchs) {
  constexpr double kTorchsKernels = 0.9;
  constexpr int64_t kTargets = 512;
  const Json golden = test::read_json("tests/golden/smollm2/logprobs_4096.json");
  const auto model = smollm2();
  const int64_t vocabulary = model->config.vocabulary;
  Logits f32(*model, DType::kF32, kTargets);
  Logits bf16(*model, DType::kBF16, kTargets);
  double our_kl = 0, torchs_kl = 0, ours = 0, torchs = 0, f32_gap = 0;
  int64_t n = 0;
  for (const Json& row : golden["rows"]) {
    const auto tokens = row["tokens"].get<std::vector<int32_t>>();
    const auto torch_f32 = row["logprobs_f32"].get<std::vector<double>>();
    const auto torch_bf16 = row["logprobs_bf16"].get<std::vector<double>>();
    const auto torch_kl = row["kl_bf16"].get<std::vector<double>>();
    ASSERT_EQ(static_cast<int64_t>(tokens.size()), kTargets + 1);
    const auto inputs = std::span(tokens).first(static_cast<size_t>(kTargets));
    const float* p = f32.of(inputs);
    const float* q = bf16.of(inputs);
    for (size_t t = 0; t < inputs.size(); ++t, p += vocabulary, q += vocabulary, ++n) {
      const auto target = static_cast<size_t>(tokens[t + 1]);
      const double a = static_cast<double>(p[target]) - log_sum_exp(p, vocabulary);
      const double b = static_cast<double>(q[target]) - log_sum_exp(q, vocabulary);
      our_kl += kl(p, q, vocabulary);
      torchs_kl += torch_kl[t];
      ours += std::abs(a - b);
      torchs += std::abs(torch_f32[t] - torch_bf16[t]);
      f32_gap = std::max(f32_gap, std::abs(a - torch_f32[t]));
    }
  }
  const double count = static_cast<double>(n);
  std::printf("mean KL ours %.6f torch %.6f; mean |dlogprob| ours %.5f torch %.5f; f32 gap %.2g\n",
              our_kl / count, torchs_kl / count, ours / count, torchs / count, f32_gap);
  EXPECT_EQ(n, 4096);
  EXPECT_LT(f32_gap, 2e-3) << "our f32 against torch's f32, largest of 4,096";
  EXPECT_LE(our_kl, kTorchsKernels * torchs_kl);
  EXPECT_LE(ours, kTorchsKernels * torchs);
}

// The formula of tests/golden/make_smollm2.py (lora_a), exact in f32.
std::vector<float> lora_a(const std::string& module, int64_t rank, int64_t width) {
  uint32_t seed = 0x811C9DC5u;
  for (char c : module) seed = (seed ^ static_cast<uint8_t>(c)) * 0x01000193u;
  const float bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)));
  std::vector<float> values(static_cast<size_t>(rank * width));
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t x = seed + static_cast<uint32_t>(i) * 0x9E3779B9u;
    x ^= x >> 16;
    x *= 0x85EBCA6Bu;
    x ^= x >> 13;
    x *= 0xC2B2AE35u;
    x ^= x >> 16;
    values[i] = (static_cast<float>(x >> 8) * 0x1p-23f - 1.0f) * bound;
  }
  return values;
}

Adapter golden_adapter(const ModelConfig& config, int64_t rank, float alpha) {
  TensorSet tensors;
  const auto modules = lora_modules(config, {}).value();
  for (const std::string& module : modules) {
    const auto [out, in] = linear_shape(config, module);
    tensors[module + ".lora_A.weight"] =
        make_tensor(module + ".lora_A.weight", {rank, in}, DType::kF32, lora_a(module, rank, in));
    tensors[module + ".lora_B.weight"] =
        make_tensor(module + ".lora_B.weight", {out, rank}, DType::kF32,
                    std::vector<float>(static_cast<size_t>(out * rank), 0.0f));
  }
  return make_adapter(config, tensors, alpha, 0.0f).value();
}

class SmolLM2Parity : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(SmolLM2Parity, TwentyStepsEqualTorch) {
  const auto& [mode, run] = GetParam();
  const Json golden = test::read_json(std::string("tests/golden/smollm2/parity_") + mode + ".json");
  const auto model = smollm2();
  const auto executor = test::make_executor();
  auto engine =
      Engine::create(
          model, *executor,
          {.compute = DType::kF32, .max_micro_batch_rows = 512, .max_sequence_tokens = 128})
          .value();
  const bool full = std::string(mode) == "full";
  const ModelId id = full
                         ? engine->add_full().value()
                         : engine->add_adapter(golden_adapter(model->config, 16, 32.0f), 0).value();
  const float max_norm = std::string(run) == "clipped" ? 1.0f : 0.0f;
  for (size_t step = 0; step < golden["batches"].size(); ++step) {
    std::vector<Datum> datums;
    for (const Json& row : golden["batches"][step]) {
      datums.push_back(make_next_token_datum(row["tokens"].get<std::vector<int32_t>>(),
                                             row["loss_mask"].get<std::vector<uint8_t>>()));
    }
    const auto result = engine->forward_backward(id, datums, "cross_entropy").value();
    const Json& want = golden["runs"][run]["steps"][step];
    EXPECT_NEAR(result.loss_sum / result.weight_sum, want["loss"].get<double>(), 1e-4)
        << "step " << step;
    EXPECT_EQ(result.weight_sum, want["token_count"].get<double>());
    const auto update = engine
                            ->optim_step(id, {.lr = full ? 1e-5f : 1e-4f,
                                              .weight_decay = 0.01f,
                                              .max_grad_norm = max_norm,
                                              .normaliser = result.weight_sum})
                            .value();
    EXPECT_NEAR(update.grad_norm, want["grad_norm"].get<double>(),
                1e-3 * want["grad_norm"].get<double>())
        << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Runs, SmolLM2Parity,
    testing::Values(std::tuple{"full", "unclipped"}, std::tuple{"full", "clipped"},
                    std::tuple{"lora", "unclipped"}, std::tuple{"lora", "clipped"}),
    [](const auto& info) {
      return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
    });

}  // namespace
}  // namespace mainspring
