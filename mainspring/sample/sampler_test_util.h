// What tests of the sampler share: requests, the oracle of their results, a sampler on the fake
// executor. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "mainspring/sample/fake_executor.h"
#include "mainspring/sample/sampler.h"

namespace mainspring {

inline constexpr int64_t kVocabulary = 50;

/// Token t is the letter 'a' + t % 26.
class Letters final : public TextStream {
 public:
  std::string push(int32_t token) override {
    return std::string(1, static_cast<char>('a' + token % 26));
  }
  std::string finish() override { return ""; }
};

inline std::vector<int32_t> prompt_of(int32_t size, int32_t first) {
  std::vector<int32_t> tokens(static_cast<size_t>(size));
  for (int32_t i = 0; i < size; ++i) tokens[static_cast<size_t>(i)] = (first + i * i) % kVocabulary;
  return tokens;
}

inline SampleRequest request_of(std::vector<int32_t> prompt, SamplingParams params) {
  SampleRequest request;
  request.prompt = std::move(prompt);
  request.params = std::move(params);
  return request;
}

inline SamplingParams params_of(int32_t max_tokens, uint64_t seed = 1) {
  SamplingParams params;
  params.max_tokens = max_tokens;
  params.seed = seed;
  return params;
}

/// What the sampler must give, without cache, batch or chunks: the oracle.
inline SampleResult expected_result(const SampleRequest& request, int32_t sample) {
  const fake::FakeRowMath math;
  TokenChooser chooser(math, kVocabulary);
  std::vector<int32_t> history = request.prompt;
  SampleResult result;
  for (int32_t i = 0; i < request.params.max_tokens; ++i) {
    const auto logits = fake::logits_of(request.adapter, history, kVocabulary);
    const Law law{.temperature = request.params.temperature,
                  .top_k = request.params.top_k,
                  .top_p = request.params.top_p,
                  .min_p = request.params.min_p,
                  .penalties = {.repetition = request.params.repetition_penalty,
                                .presence = request.params.presence_penalty,
                                .frequency = request.params.frequency_penalty}};
    TokenHistory seen;  // from scratch for every token
    seen.add_prompt(request.prompt);
    for (const int32_t token : result.tokens) seen.add_reply(token);
    const Choice choice =
        chooser.choose(logits, law,
                       token_uniform(*request.params.seed, static_cast<uint32_t>(sample),
                                     static_cast<uint32_t>(i)),
                       &seen);
    history.push_back(choice.token);
    result.tokens.push_back(choice.token);
    result.logprobs.push_back(choice.logprob);
    result.raw_logprobs.push_back(choice.raw_logprob);
    result.kept.push_back(choice.kept);
  }
  return result;
}

class SamplerTest : public ::testing::Test {
 protected:
  SamplerTest() : config_(fake::tiny_config(kVocabulary)) {
    parameters_ = fake::make_parameters(executor_, config_);
  }

  std::unique_ptr<Sampler> make_sampler(SamplerOptions options = {}) {
    options.make_text = [] { return std::make_unique<Letters>(); };
    ForwardModel model;
    model.compute = DType::kF32;
    model.config = config_;
    model.base = &parameters_;
    // Two adapters that touch nothing: the fake tells rows apart by their slot.
    model.adapters.resize(2);
    auto sampler = Sampler::create(executor_, model, options);
    EXPECT_TRUE(sampler.ok()) << sampler.status().to_string();
    return std::move(sampler).value();
  }

  static void expect_as_alone(const std::vector<SampleRequest>& requests,
                              const std::vector<std::vector<SampleResult>>& results) {
    ASSERT_EQ(results.size(), requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      ASSERT_EQ(results[i].size(), static_cast<size_t>(requests[i].params.n));
      for (size_t k = 0; k < results[i].size(); ++k) {
        const SampleResult expected = expected_result(requests[i], static_cast<int32_t>(k));
        EXPECT_EQ(results[i][k].tokens, expected.tokens) << "request " << i << " sample " << k;
        EXPECT_EQ(results[i][k].logprobs, expected.logprobs) << "request " << i << " sample " << k;
        EXPECT_EQ(results[i][k].raw_logprobs, expected.raw_logprobs);
        EXPECT_EQ(results[i][k].kept, expected.kept);
      }
    }
  }

  /// Requests of many shapes: prompt lengths around page and chunk borders, shared prefixes,
  /// adapters.
  static std::vector<SampleRequest> mixed_requests() {
    std::vector<SampleRequest> requests;
    int32_t number = 0;
    for (const int32_t size : {1, 2, 63, 64, 65, 127, 128, 129, 200}) {
      SamplingParams params = params_of(5 + number % 7 * 20, static_cast<uint64_t>(100 + number));
      if (number % 3 == 1) params.temperature = 0.7f;
      if (number % 3 == 2) params.top_p = 0.9f;
      if (number % 4 == 3) params.n = 3;
      if (number % 4 == 1) params.repetition_penalty = 1.3f;
      if (number % 4 == 2) params.frequency_penalty = 0.5f;
      if (number % 5 == 2) params.presence_penalty = -0.25f;
      requests.push_back(request_of(prompt_of(size, 3), params));
      requests.back().adapter = number % 5 == 4 ? number % 2 : SampleRequest::kBaseOnly;
      ++number;
    }
    return requests;
  }

  fake::FakeExecutor executor_;
  ModelConfig config_;
  ParameterSet parameters_;
};

}  // namespace mainspring
