// The real model against transformers and torch: greedy continuations, log-probabilities, training
// steps.
#include <gtest/gtest.h>

#include <cmath>

#include "mainspring/engine/engine.h"
#include "mainspring/models/decoder.h"
#include "mainspring/models/model_text.h"
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

// Our bf16 is no farther from our f32 than torch's bf16 is from torch's f32, in mean
// |log-probability difference| and in the unbiased KL estimate k3 over the same 4,096 tokens.
TEST(SmolLM2, Bf16LogProbabilitiesAreNoFartherFromF32ThanTorchs) {
  const Json golden = test::read_json("tests/golden/smollm2/logprobs_4096.json");
  const auto model = smollm2();
  std::vector<Datum> datums;
  for (const Json& row : golden["rows"]) {
    const auto tokens = row["tokens"].get<std::vector<int32_t>>();
    datums.push_back(make_next_token_datum(tokens, std::vector<uint8_t>(tokens.size(), 1)));
  }
  std::vector<std::vector<std::vector<float>>> logprobs;
  for (DType compute : {DType::kF32, DType::kBF16}) {
    const auto executor = test::make_executor();
    auto engine =
        Engine::create(
            model, *executor,
            {.compute = compute, .max_micro_batch_rows = 1024, .max_sequence_tokens = 640})
            .value();
    logprobs.push_back(engine->forward(kBaseModel, datums, "cross_entropy").value().logprobs);
  }
  double ours = 0, torchs = 0, f32_gap = 0, ours_k3 = 0, torchs_k3 = 0;
  int64_t n = 0;
  for (size_t i = 0; i < datums.size(); ++i) {
    const auto f32 = golden["rows"][i]["logprobs_f32"].get<std::vector<double>>();
    const auto bf16 = golden["rows"][i]["logprobs_bf16"].get<std::vector<double>>();
    for (size_t t = 0; t < f32.size(); ++t, ++n) {
      const double a = static_cast<double>(logprobs[0][i][t]);
      const double b = static_cast<double>(logprobs[1][i][t]);
      ours += std::abs(a - b);
      torchs += std::abs(f32[t] - bf16[t]);
      ours_k3 += std::exp(b - a) - 1 - (b - a);
      torchs_k3 += std::exp(bf16[t] - f32[t]) - 1 - (bf16[t] - f32[t]);
      f32_gap = std::max(f32_gap, std::abs(a - f32[t]));
    }
  }
  EXPECT_EQ(n, 4096);
  EXPECT_LT(f32_gap, 2e-3) << "our f32 against torch's f32, largest of 4,096";
  EXPECT_LE(ours / static_cast<double>(n), torchs / static_cast<double>(n));
  EXPECT_LE(ours_k3 / static_cast<double>(n), torchs_k3 / static_cast<double>(n));
  RecordProperty("ours_mean_abs", std::to_string(ours / static_cast<double>(n)));
  std::printf("mean |dlogprob| ours %.5f torch %.5f; k3 ours %.6f torch %.6f; f32 gap %.2g\n",
              ours / static_cast<double>(n), torchs / static_cast<double>(n),
              ours_k3 / static_cast<double>(n), torchs_k3 / static_cast<double>(n), f32_gap);
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

INSTANTIATE_TEST_SUITE_P(Runs, SmolLM2Parity,
                         testing::Values(std::tuple{"full", "unclipped"},
                                         std::tuple{"lora", "unclipped"},
                                         std::tuple{"lora", "clipped"}),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param);
                         });

}  // namespace
}  // namespace mainspring
