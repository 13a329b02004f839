#include "mainspring/sample/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "mainspring/sample/sampler_test_util.h"

namespace mainspring {
namespace {

TEST_F(SamplerTest, OneRequestGivesItsTokensAndLogprobs) {
  const auto sampler = make_sampler();
  const std::vector<SampleRequest> requests = {request_of({1, 2, 3}, params_of(10))};
  const auto results = sampler->run(requests);
  ASSERT_TRUE(results.ok());
  expect_as_alone(requests, *results);
  EXPECT_EQ((*results)[0][0].stop_reason, StopReason::kMaxTokens);
  EXPECT_EQ((*results)[0][0].seed, 1u);
  EXPECT_EQ((*results)[0][0].text.size(), 10u);
}

TEST_F(SamplerTest, ResultsDoNotDependOnBatchChunksSharingOrCacheSize) {
  const auto requests = mixed_requests();
  for (const int32_t max_batch : {1, 3, 17}) {
    for (const int32_t max_rows : {1, 7, 64, 512}) {
      for (const bool share : {false, true}) {
        for (const int32_t pages : {0, 6}) {
          const auto sampler = make_sampler({.max_batch = max_batch,
                                             .max_rows = max_rows,
                                             .cache_pages = pages,
                                             .share_prefixes = share});
          const auto results = sampler->run(requests);
          ASSERT_TRUE(results.ok()) << results.status().to_string();
          SCOPED_TRACE("batch " + std::to_string(max_batch) + " rows " + std::to_string(max_rows) +
                       " share " + std::to_string(share) + " pages " + std::to_string(pages));
          expect_as_alone(requests, *results);
        }
      }
    }
  }
}

TEST_F(SamplerTest, ResultsDoNotDependOnTheOrderOfArrival) {
  auto requests = mixed_requests();
  std::reverse(requests.begin(), requests.end());
  const auto sampler = make_sampler({.max_batch = 4, .max_rows = 50});
  const auto results = sampler->run(requests);
  ASSERT_TRUE(results.ok());
  expect_as_alone(requests, *results);
}

TEST_F(SamplerTest, ARequestThatArrivesLaterJoinsTheBatch) {
  const auto sampler = make_sampler();
  std::vector<SampleRequest> requests = {request_of({1}, params_of(10)),
                                         request_of({2}, params_of(10, 2))};
  std::map<int64_t, SampleResult> results;
  ASSERT_TRUE(sampler->submit(requests[0]).ok());
  for (int step = 0; step < 4; ++step) EXPECT_EQ(sampler->step().size(), 1u);
  ASSERT_TRUE(sampler->submit(requests[1]).ok());
  EXPECT_EQ(sampler->step().size(), 2u);
  while (!sampler->is_idle()) {
    for (SampleEvent& event : sampler->step()) {
      if (event.result.has_value()) results[event.request] = *event.result;
    }
  }
  EXPECT_EQ(results[0].tokens, expected_result(requests[0], 0).tokens);
  EXPECT_EQ(results[1].tokens, expected_result(requests[1], 0).tokens);
}

TEST_F(SamplerTest, LongPromptsAreComputedInChunksWhileOthersDecode) {
  const auto sampler = make_sampler({.max_batch = 4, .max_rows = 16});
  ASSERT_TRUE(sampler->submit(request_of({1}, params_of(12))).ok());
  sampler->step();
  ASSERT_TRUE(sampler->submit(request_of(prompt_of(100, 1), params_of(2))).ok());
  // 1 row decodes, 15 rows of the prompt: 100 rows need 7 steps; each step gives the first a token.
  for (int step = 0; step < 6; ++step) {
    const auto events = sampler->step();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].request, 0);
    EXPECT_EQ(executor_.log().rows_per_run.back(), 16);
  }
  EXPECT_EQ(sampler->step().size(), 2u);
}

TEST_F(SamplerTest, AFullCacheQueuesAndEveryRequestThatFitsEnds) {
  // Each needs up to 3 of the 3 pages: they run nearly one after another, with preemption.
  const auto sampler = make_sampler({.max_batch = 8, .max_rows = 64, .cache_pages = 3});
  std::vector<SampleRequest> requests;
  for (int32_t i = 0; i < 8; ++i) {
    requests.push_back(request_of(prompt_of(20, i), params_of(170, static_cast<uint64_t>(i))));
  }
  const auto results = sampler->run(requests);
  ASSERT_TRUE(results.ok());
  expect_as_alone(requests, *results);
  EXPECT_GT(sampler->stats().preemptions, 0);
}

TEST_F(SamplerTest, ARequestThatCanNeverFitIsRefusedWithNumbers) {
  const auto sampler = make_sampler({.cache_pages = 3});
  const auto refused = sampler->submit(request_of(prompt_of(100, 1), params_of(93)));
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(
      refused.status().message(),
      "a prompt of 100 tokens and max_tokens 93 need 4 pages of 64 positions, the cache has 3");
  EXPECT_TRUE(sampler->submit(request_of(prompt_of(100, 1), params_of(92))).ok());
}

TEST_F(SamplerTest, SharedPrefixesAreTakenFromTheCache) {
  const auto sampler = make_sampler();
  const std::vector<int32_t> prompt = prompt_of(150, 4);
  ASSERT_TRUE(sampler->run({request_of(prompt, params_of(3))}).ok());
  EXPECT_EQ(sampler->stats().shared_tokens, 0);
  ASSERT_TRUE(sampler->run({request_of(prompt, params_of(3))}).ok());
  EXPECT_EQ(sampler->stats().shared_tokens, 128);

  std::vector<int32_t> other = prompt;
  other[70] = (other[70] + 1) % kVocabulary;  // the second page differs
  const std::vector<SampleRequest> requests = {request_of(other, params_of(3))};
  const auto results = sampler->run(requests);
  ASSERT_TRUE(results.ok());
  expect_as_alone(requests, *results);
  EXPECT_EQ(sampler->stats().shared_tokens, 128 + 64);
}

TEST_F(SamplerTest, RepliesAreSharedWithTheNextTurn) {
  const auto sampler = make_sampler();
  const auto first = sampler->run({request_of(prompt_of(60, 4), params_of(100))});
  ASSERT_TRUE(first.ok());
  std::vector<int32_t> next = prompt_of(60, 4);
  next.insert(next.end(), (*first)[0][0].tokens.begin(), (*first)[0][0].tokens.end());
  next.push_back(1);
  // 159 positions are computed: 2 full pages.
  const std::vector<SampleRequest> requests = {request_of(next, params_of(3))};
  const auto second = sampler->run(requests);
  ASSERT_TRUE(second.ok());
  expect_as_alone(requests, *second);
  EXPECT_EQ(sampler->stats().shared_tokens, 128);
}

TEST_F(SamplerTest, AdaptersShareNoPages) {
  const auto sampler = make_sampler();
  std::vector<SampleRequest> requests;
  for (const int32_t adapter : {-1, 0, 1, 0}) {
    requests.push_back(request_of(prompt_of(130, 4), params_of(4)));
    requests.back().adapter = adapter;
  }
  for (const SampleRequest& request : requests) {
    const auto results = sampler->run({request});
    ASSERT_TRUE(results.ok());
    expect_as_alone({request}, *results);
  }
  EXPECT_EQ(sampler->stats().shared_tokens, 128);  // the second of adapter 0 only
}

TEST_F(SamplerTest, ANewWeightVersionForgetsPrefixesAndIsReported) {
  const auto sampler = make_sampler();
  const SampleRequest request = request_of(prompt_of(130, 4), params_of(4));
  ASSERT_TRUE(sampler->run({request}).ok());
  ASSERT_TRUE(sampler->set_weight_version(SampleRequest::kBaseOnly, 12).ok());
  const auto results = sampler->run({request});
  ASSERT_TRUE(results.ok());
  EXPECT_EQ(sampler->stats().shared_tokens, 0);
  EXPECT_EQ((*results)[0][0].weight_version, 12u);
}

TEST_F(SamplerTest, WeightsChangeOnlyWhileIdle) {
  const auto sampler = make_sampler();
  ASSERT_TRUE(sampler->submit(request_of({1}, params_of(4))).ok());
  EXPECT_EQ(sampler->set_weight_version(0, 1).code(), StatusCode::kFailedPrecondition);
}

TEST_F(SamplerTest, ManySamplesOfOnePromptComputeItOnce) {
  const auto sampler = make_sampler({.max_batch = 16});
  SamplingParams params = params_of(3);
  params.n = 8;
  const std::vector<SampleRequest> requests = {request_of(prompt_of(100, 2), params)};
  const auto results = sampler->run(requests);
  ASSERT_TRUE(results.ok());
  expect_as_alone(requests, *results);
  EXPECT_EQ(sampler->stats().rows, 100 + 8 * 2);
  EXPECT_NE((*results)[0][0].tokens, (*results)[0][1].tokens);
}

TEST_F(SamplerTest, MoreSamplesThanTheBatchHoldsAllEnd) {
  const auto sampler = make_sampler({.max_batch = 3, .cache_pages = 8});
  SamplingParams params = params_of(70);
  params.n = 10;
  const std::vector<SampleRequest> requests = {request_of(prompt_of(100, 2), params),
                                               request_of(prompt_of(5, 2), params_of(4))};
  const auto results = sampler->run(requests);
  ASSERT_TRUE(results.ok());
  expect_as_alone(requests, *results);
}

TEST_F(SamplerTest, PromptLogprobsAreTheTrainersForEveryChunking) {
  const auto prompt = prompt_of(150, 6);
  const fake::FakeRowMath math;
  std::vector<float> expected;
  for (size_t i = 1; i < prompt.size(); ++i) {
    const auto logits = fake::logits_of(
        -1, {prompt.begin(), prompt.begin() + static_cast<int64_t>(i)}, kVocabulary);
    expected.push_back(logits[static_cast<size_t>(prompt[i])] -
                       math.stats(logits.data(), kVocabulary).lse);
  }
  SamplingParams params = params_of(5);
  params.prompt_logprobs = true;
  params.n = 2;
  for (const int32_t max_rows : {4, 64, 512}) {
    for (const int32_t pages : {0, 4}) {
      const auto sampler =
          make_sampler({.max_batch = 4, .max_rows = max_rows, .cache_pages = pages});
      // A request before it fills the cache with the same prefix: it must not be used.
      const std::vector<SampleRequest> requests = {request_of(prompt, params_of(9)),
                                                   request_of(prompt, params)};
      const auto results = sampler->run(requests);
      ASSERT_TRUE(results.ok());
      expect_as_alone(requests, *results);
      for (const SampleResult& result : (*results)[1]) {
        ASSERT_EQ(result.prompt_logprobs.size(), prompt.size());
        EXPECT_TRUE(std::isnan(result.prompt_logprobs[0]));
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(result.prompt_logprobs[i + 1], expected[i]) << i;
        }
      }
      EXPECT_TRUE((*results)[0][0].prompt_logprobs.empty());
    }
  }
}

TEST_F(SamplerTest, NoTokensAtAllCanBeAskedFor) {
  const auto sampler = make_sampler();
  SamplingParams scores = params_of(0);
  scores.prompt_logprobs = true;
  scores.n = 2;
  const auto results = sampler->run({request_of({1, 2, 3}, scores), request_of({4}, params_of(0))});
  ASSERT_TRUE(results.ok());
  EXPECT_TRUE((*results)[0][1].tokens.empty());
  EXPECT_EQ((*results)[0][1].prompt_logprobs.size(), 3u);
  EXPECT_EQ((*results)[1][0].stop_reason, StopReason::kMaxTokens);
}

TEST_F(SamplerTest, AStopTokenEndsTheSampleAndAddsNoText) {
  const auto sampler = make_sampler();
  SamplingParams params = params_of(200);
  const auto full = expected_result(request_of({1, 2, 3}, params), 0);
  params.stop_tokens = {full.tokens[5]};
  const size_t first = static_cast<size_t>(
      std::find(full.tokens.begin(), full.tokens.end(), full.tokens[5]) - full.tokens.begin());
  const auto results = sampler->run({request_of({1, 2, 3}, params)});
  ASSERT_TRUE(results.ok());
  const SampleResult& result = (*results)[0][0];
  EXPECT_EQ(result.stop_reason, StopReason::kStopToken);
  EXPECT_EQ(result.tokens.size(), first + 1);
  EXPECT_EQ(result.logprobs.size(), first + 1);
  EXPECT_EQ(result.text.size(), first);
}

TEST_F(SamplerTest, AStopStringAcrossTokensEndsTheSampleAndCutsTheText) {
  const auto sampler = make_sampler();
  SamplingParams params = params_of(50);
  const auto full = sampler->run({request_of({9}, params)});
  ASSERT_TRUE(full.ok());
  const std::string text = (*full)[0][0].text;
  params.stop = {"never there", text.substr(20, 3)};
  const size_t cut = text.find(params.stop[1]);

  ASSERT_TRUE(sampler->submit(request_of({9}, params)).ok());
  std::string shown;
  std::optional<SampleResult> result;
  while (!sampler->is_idle()) {
    for (SampleEvent& event : sampler->step()) {
      shown += event.text;
      if (event.result.has_value()) result = std::move(event.result);
    }
  }
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->stop_reason, StopReason::kStopString);
  EXPECT_EQ(result->text, text.substr(0, cut));
  EXPECT_EQ(shown, result->text);
  EXPECT_EQ(result->tokens.size(), cut + 3);  // later tokens are dropped
}

TEST_F(SamplerTest, TheContextEndsASample) {
  config_ = fake::tiny_config(kVocabulary, 20);
  parameters_ = fake::make_parameters(executor_, config_);
  const auto sampler = make_sampler();
  const auto results = sampler->run({request_of(prompt_of(15, 1), params_of(100))});
  ASSERT_TRUE(results.ok());
  EXPECT_EQ((*results)[0][0].stop_reason, StopReason::kContext);
  EXPECT_EQ((*results)[0][0].tokens.size(), 5u);
  EXPECT_EQ(sampler->submit(request_of(prompt_of(20, 1), params_of(1))).status().message(),
            "prompt: 20 tokens leave no room in 20 positions");
}

TEST_F(SamplerTest, TopLogprobsAreSortedRawLogprobs) {
  const auto sampler = make_sampler();
  SamplingParams params = params_of(2);
  params.temperature = 0.5f;
  params.top_logprobs = 3;
  const auto results = sampler->run({request_of({1, 2}, params)});
  ASSERT_TRUE(results.ok());
  const SampleResult& result = (*results)[0][0];
  ASSERT_EQ(result.top_logprobs.size(), 2u);
  const auto logits = fake::logits_of(-1, {1, 2}, kVocabulary);
  const fake::FakeRowMath math;
  const float lse = math.stats(logits.data(), kVocabulary).lse;
  ASSERT_EQ(result.top_logprobs[0].size(), 3u);
  for (const TopLogprob& top : result.top_logprobs[0]) {
    EXPECT_EQ(top.raw_logprob, logits[static_cast<size_t>(top.token)] - lse);
  }
  EXPECT_GE(result.top_logprobs[0][0].raw_logprob, result.top_logprobs[0][1].raw_logprob);
  EXPECT_EQ(result.top_logprobs[0][0].raw_logprob,
            *std::max_element(logits.begin(), logits.end()) - lse);
}

TEST_F(SamplerTest, AMissingSeedIsDrawnFromRunSeedAndPlaceAndReported) {
  SampleRequest request = request_of({1, 2}, {});
  request.params.max_tokens = 8;
  request.place = 41;
  const auto sampler = make_sampler({.run_seed = 5});
  const auto results = sampler->run({request_of({3}, params_of(4)), request});
  ASSERT_TRUE(results.ok());
  EXPECT_EQ((*results)[1][0].seed, draw_seed(5, 41));
  request.params.seed = (*results)[1][0].seed;
  EXPECT_EQ((*results)[1][0].tokens, expected_result(request, 0).tokens);
}

TEST_F(SamplerTest, CancellingEndsAllSamplesOfARequestAndNoOthers) {
  const auto sampler = make_sampler({.max_batch = 2});
  SamplingParams params = params_of(50);
  params.n = 4;
  const std::vector<SampleRequest> other = {request_of({5}, params_of(20))};
  const auto cancelled = sampler->submit(request_of({1, 2}, params));
  ASSERT_TRUE(sampler->submit(other[0]).ok());
  sampler->step();
  sampler->step();
  sampler->cancel(*cancelled);
  int ended = 0;
  SampleResult kept;
  while (!sampler->is_idle()) {
    for (SampleEvent& event : sampler->step()) {
      if (!event.result.has_value()) continue;
      if (event.request == *cancelled) {
        EXPECT_EQ(event.result->stop_reason, StopReason::kCancelled);
        ++ended;
      } else {
        kept = *event.result;
      }
    }
  }
  EXPECT_EQ(ended, 4);
  EXPECT_EQ(kept.tokens, expected_result(other[0], 0).tokens);
}

TEST_F(SamplerTest, NonFiniteLogitsEndOneSampleAndNoOthers) {
  executor_.log().poison_token = 7;
  const auto sampler = make_sampler();
  const std::vector<SampleRequest> requests = {request_of({1, 7}, params_of(5)),
                                               request_of({1, 8}, params_of(1))};
  const auto results = sampler->run(requests);
  ASSERT_TRUE(results.ok());
  EXPECT_EQ((*results)[0][0].stop_reason, StopReason::kNonFinite);
  EXPECT_TRUE((*results)[0][0].tokens.empty());
  EXPECT_EQ((*results)[1][0].tokens.size(), 1u);
}

TEST_F(SamplerTest, BadRequestsAreRefusedBeforeAnythingRuns) {
  const auto sampler = make_sampler();
  const auto refusal = [&](SampleRequest request) {
    const auto result = sampler->submit(std::move(request));
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    return result.status().message();
  };
  EXPECT_EQ(refusal(request_of({}, params_of(1))), "prompt: expected at least one token, got none");
  EXPECT_EQ(refusal(request_of({1, 50}, params_of(1))), "prompt: token 1 is 50, expected 0 to 49");
  SampleRequest adapter = request_of({1}, params_of(1));
  adapter.adapter = 2;
  EXPECT_EQ(refusal(adapter), "adapter: 2 of 2 adapters");
  EXPECT_TRUE(sampler->is_idle());

  const auto run = sampler->run({request_of({1}, params_of(3)), request_of({}, params_of(1))});
  EXPECT_EQ(run.status().message(), "request 1: prompt: expected at least one token, got none");
  EXPECT_TRUE(sampler->is_idle());
}

TEST_F(SamplerTest, StopStringsWithoutATokenizerAreRefused) {
  ForwardModel model;
  model.compute = DType::kF32;
  model.config = config_;
  model.base = &parameters_;
  auto sampler = Sampler::create(executor_, model, {});
  ASSERT_TRUE(sampler.ok());
  SamplingParams params = params_of(1);
  params.stop = {"x"};
  EXPECT_EQ((*sampler)->submit(request_of({1}, params)).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(SamplerTest, AMissingParameterIsNamed) {
  parameters_.erase("model.norm.weight");
  ForwardModel model;
  model.compute = DType::kF32;
  model.config = config_;
  model.base = &parameters_;
  const auto sampler = Sampler::create(executor_, model, {});
  EXPECT_EQ(sampler.status().code(), StatusCode::kNotFound);
  EXPECT_NE(sampler.status().message().find("model.norm.weight"), std::string::npos);
}

}  // namespace
}  // namespace mainspring
