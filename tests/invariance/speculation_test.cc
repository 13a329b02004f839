// Speculation on real kernels: the same tokens and the same bits as without (rule 21).
#include <gtest/gtest.h>

#include "mainspring/models/loaded_model.h"
#include "mainspring/sample/sampler.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

/// A tiny model ready to run.
struct Served {
  std::shared_ptr<const LoadedModel> model;
  ParameterSet parameters;
  ForwardModel forward;

  Served(Executor& executor, const std::string& name, DType compute)
      : model(load_model(test::source_path("tests/golden/tiny/" + name)).value()),
        parameters(borrow_parameters(executor, model->weights)) {
    forward.compute = compute;
    forward.config = model->config;
    forward.base = &parameters;
  }
};

/// Prompts that repeat themselves, several laws, some with penalties, some of several samples.
std::vector<SampleRequest> requests_of(int64_t vocabulary) {
  std::vector<SampleRequest> requests;
  for (int32_t i = 0; i < 24; ++i) {
    SampleRequest request;
    for (int32_t t = 0; t < 5 + 4 * i; ++t) {
      request.prompt.push_back(static_cast<int32_t>((t % 9 * 31 + i) % vocabulary));
    }
    SamplingParams& params = request.params;
    params.max_tokens = 40;
    params.seed = 1000 + static_cast<uint64_t>(i);
    constexpr float kTemperatures[] = {0.0f, 0.3f, 0.8f, 1.0f, 0.0f};
    params.temperature = kTemperatures[i % 5];
    if (i % 4 == 1) params.top_p = 0.9f;
    if (i % 4 == 2) params.top_k = 12;
    if (i % 6 == 3) params.repetition_penalty = 1.2f;
    if (i % 6 == 4) params.frequency_penalty = -1.0f;
    if (i % 8 == 5) params.n = 2;
    if (i % 7 == 6) params.stop_tokens = {7, 40, 100};
    requests.push_back(std::move(request));
  }
  return requests;
}

class SpeculationInvariance : public testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(SpeculationInvariance, GuessesChangeNoBit) {
  const auto& [name, compute] = GetParam();
  const auto executor = test::make_executor();
  const Served target(*executor, name, compute);
  const Served other(*executor, "llama_untied", compute);
  const auto requests = requests_of(target.model->config.vocabulary);
  SamplerOptions plain;
  plain.max_batch = 8;
  const auto expected =
      Sampler::create(*executor, target.forward, plain).value()->run(requests).value();
  struct Way {
    const char* name;
    std::optional<ForwardModel> draft;
    int32_t max_draft;
  };
  for (const Way& way : {Way{"look-up", std::nullopt, 6}, Way{"itself", target.forward, 4},
                         Way{"another model", other.forward, 3}}) {
    SamplerOptions options = plain;
    options.max_rows = 40;
    options.speculation.max_draft = way.max_draft;
    options.speculation.draft_model = way.draft;
    const auto sampler = Sampler::create(*executor, target.forward, options).value();
    const auto got = sampler->run(requests).value();
    for (size_t i = 0; i < requests.size(); ++i) {
      for (size_t k = 0; k < expected[i].size(); ++k) {
        EXPECT_EQ(got[i][k].tokens, expected[i][k].tokens) << way.name << " " << i;
        EXPECT_EQ(got[i][k].logprobs, expected[i][k].logprobs) << way.name << " " << i;
        EXPECT_EQ(got[i][k].raw_logprobs, expected[i][k].raw_logprobs) << way.name << " " << i;
        EXPECT_EQ(got[i][k].kept, expected[i][k].kept) << way.name << " " << i;
        EXPECT_EQ(got[i][k].stop_reason, expected[i][k].stop_reason) << way.name << " " << i;
      }
    }
    EXPECT_GT(sampler->stats().accepted_tokens, 0) << way.name;
    if (way.max_draft == 4) {  // wrong only where a penalty saw the guesses
      EXPECT_GT(sampler->stats().accepted_tokens, sampler->stats().drafted_tokens * 8 / 10);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, SpeculationInvariance,
                         testing::Combine(testing::Values("llama_gqa", "qwen3"),
                                          testing::Values(DType::kBF16, DType::kF32)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::string(dtype_name(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace mainspring
