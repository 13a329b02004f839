// Speculation changes how many steps a result takes and no bit of it.
#include <gtest/gtest.h>

#include <algorithm>

#include "mainspring/sample/drafter.h"
#include "mainspring/sample/sampler_test_util.h"

namespace mainspring {
namespace {

TEST(LookUp, FindsWhatFollowedTheLongestTail) {
  // 7 8 9 stood before, followed by 1 2; 8 9 alone stood later, followed by 3.
  const std::vector<int32_t> tokens = {7, 8, 9, 1, 2, 8, 9, 3, 7, 8, 9};
  EXPECT_EQ(look_up(tokens, 3, 2), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(look_up(tokens, 2, 2), (std::vector<int32_t>{3, 7}));  // the latest
  EXPECT_EQ(look_up(tokens, 3, 20), (std::vector<int32_t>{1, 2, 8, 9, 3, 7, 8, 9}));
}

TEST(LookUp, ALoopIsGuessedAsFarAsItIsKnown) {
  const std::vector<int32_t> tokens = {5, 6, 5, 6, 5, 6, 5, 6};
  EXPECT_EQ(look_up(tokens, 3, 4), (std::vector<int32_t>{5, 6, 5, 6}));
}

TEST(LookUp, NothingStoodBefore) {
  EXPECT_TRUE(look_up(std::vector<int32_t>{1, 2, 3, 4}, 3, 4).empty());
  EXPECT_TRUE(look_up(std::vector<int32_t>{1}, 3, 4).empty());
  EXPECT_TRUE(look_up({}, 3, 4).empty());
}

enum class Kind { kLookUp, kModel };

class SpeculationTest : public SamplerTest, public testing::WithParamInterface<Kind> {
 protected:
  /// Guesses of the fake's own model are right for the base and wrong for adapters.
  SamplerOptions speculating(int32_t max_draft, SamplerOptions options = {}) {
    options.speculation.max_draft = max_draft;
    if (GetParam() == Kind::kModel) {
      ForwardModel draft;
      draft.compute = DType::kF32;
      draft.config = config_;
      draft.base = &parameters_;
      options.speculation.draft_model = draft;
    }
    return options;
  }
  /// Replies that repeat themselves, which look-up can guess: what was said gets likelier.
  static std::vector<SampleRequest> loops() {
    std::vector<SampleRequest> requests;
    for (int32_t i = 0; i < 6; ++i) {
      SamplingParams params = params_of(60, static_cast<uint64_t>(i));
      params.temperature = i % 2 == 0 ? 0.0f : 0.5f;
      params.frequency_penalty = -2.0f;
      requests.push_back(request_of(prompt_of(20 + i, 3), params));
    }
    return requests;
  }
};

TEST_P(SpeculationTest, GivesWhatRuleNineteenGives) {
  for (const int32_t max_draft : {1, 3, 8}) {
    auto sampler = make_sampler(speculating(max_draft));
    expect_as_alone(mixed_requests(), sampler->run(mixed_requests()).value());
    expect_as_alone(loops(), sampler->run(loops()).value());
    EXPECT_GT(sampler->stats().accepted_tokens, 0);
    EXPECT_GT(sampler->stats().drafted_tokens, sampler->stats().accepted_tokens);
  }
}

TEST_P(SpeculationTest, TakesFewerStepsWhereGuessesAreRight) {
  auto plain = make_sampler({.max_batch = 2});
  auto fast = make_sampler(speculating(4, {.max_batch = 2}));
  plain->run(loops()).value();
  fast->run(loops()).value();
  EXPECT_LT(fast->stats().steps, plain->stats().steps * 3 / 4);
}

TEST_P(SpeculationTest, ChunksAndASmallCacheChangeNothing) {
  SamplerOptions options;
  options.max_batch = 3;
  options.max_rows = 7;
  options.max_sequence_tokens = 400;
  options.cache_pages = 7;  // the longest alone, and little more
  auto sampler = make_sampler(speculating(4, options));
  expect_as_alone(mixed_requests(), sampler->run(mixed_requests()).value());
  EXPECT_GT(sampler->stats().preemptions, 0);
  expect_as_alone(loops(), sampler->run(loops()).value());
}

TEST_P(SpeculationTest, StopsAlternativesAndPromptScoresAreTheSame) {
  std::vector<SampleRequest> requests = loops();
  std::vector<SampleRequest> more = mixed_requests();
  requests.insert(requests.end(), more.begin(), more.end());
  for (size_t i = 0; i < requests.size(); ++i) {
    SamplingParams& params = requests[i].params;
    if (i % 3 == 0) params.stop = {"gh", "mm", "ba"};
    if (i % 3 == 1) params.stop_tokens = {4, 17};
    params.top_logprobs = i % 2 == 0 ? 3 : 0;
    params.prompt_logprobs = i % 4 == 0;
  }
  const auto expected = make_sampler()->run(requests).value();
  auto sampler = make_sampler(speculating(5));
  const auto got = sampler->run(requests).value();
  for (size_t i = 0; i < requests.size(); ++i) {
    for (size_t k = 0; k < got[i].size(); ++k) {
      EXPECT_EQ(got[i][k].tokens, expected[i][k].tokens) << i;
      EXPECT_EQ(got[i][k].text, expected[i][k].text) << i;
      EXPECT_EQ(got[i][k].stop_reason, expected[i][k].stop_reason) << i;
      EXPECT_EQ(got[i][k].logprobs, expected[i][k].logprobs) << i;
      EXPECT_EQ(got[i][k].kept, expected[i][k].kept) << i;
      ASSERT_EQ(got[i][k].top_logprobs.size(), expected[i][k].top_logprobs.size());
      for (size_t t = 0; t < got[i][k].top_logprobs.size(); ++t) {
        for (size_t place = 0; place < got[i][k].top_logprobs[t].size(); ++place)
          EXPECT_EQ(got[i][k].top_logprobs[t][place].token,
                    expected[i][k].top_logprobs[t][place].token);
      }
    }
  }
  EXPECT_GT(sampler->stats().accepted_tokens, 0);
}

TEST_P(SpeculationTest, NeverGoesBeyondMaxTokensOrContext) {
  SamplerOptions options;
  options.max_sequence_tokens = 30;
  auto sampler = make_sampler(speculating(8, options));
  SamplingParams params = params_of(100);
  params.temperature = 0.0f;
  params.frequency_penalty = -2.0f;
  const auto results =
      sampler
          ->run({request_of(prompt_of(20, 3), params), request_of(prompt_of(5, 3), params_of(2))})
          .value();
  EXPECT_EQ(results[0][0].tokens.size(), 10u);
  EXPECT_EQ(results[0][0].stop_reason, StopReason::kContext);
  EXPECT_EQ(results[1][0].tokens.size(), 2u);
}

TEST_P(SpeculationTest, OptionsThatCannotBeAreRefused) {
  ForwardModel model;
  model.compute = DType::kF32;
  model.config = config_;
  model.base = &parameters_;
  EXPECT_EQ(Sampler::create(executor_, model, speculating(-1)).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Sampler::create(executor_, model, speculating(1000)).status().code(),
            StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SpeculationTest, testing::Values(Kind::kLookUp, Kind::kModel),
                         [](const auto& info) {
                           return info.param == Kind::kLookUp ? "LookUp" : "Model";
                         });

// A draft model of a larger vocabulary: its further tokens are no guesses, unknown ones end it.
TEST_F(SamplerTest, ADraftModelOfAnotherVocabularyIsOnlyWrong) {
  for (const int64_t vocabulary : {kVocabulary - 20, kVocabulary + 30}) {
    ForwardModel draft;
    draft.compute = DType::kF32;
    draft.config = fake::tiny_config(vocabulary);
    const ParameterSet parameters = fake::make_parameters(executor_, draft.config);
    draft.base = &parameters;
    SamplerOptions options;
    options.speculation.max_draft = 3;
    options.speculation.draft_model = draft;
    auto sampler = make_sampler(options);
    expect_as_alone(mixed_requests(), sampler->run(mixed_requests()).value());
  }
}

}  // namespace
}  // namespace mainspring
