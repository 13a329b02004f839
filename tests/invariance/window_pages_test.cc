// Pages behind every layer's window are given up while a sequence goes on: the same bits in less
// memory, and a cache that could not hold the sequences whole.
#include <gtest/gtest.h>

#include "mainspring/models/loaded_model.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/sample/scorer.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

struct Served {
  std::shared_ptr<const LoadedModel> model;
  ParameterSet parameters;
  ForwardModel forward;

  Served(Executor& executor, const std::string& name)
      : model(load_model(test::source_path("tests/golden/tiny/" + name)).value()),
        parameters(borrow_parameters(executor, model->weights)) {
    forward.config = model->config;
    forward.base = &parameters;
  }
};

/// Prompts of up to 161 tokens, two of them alike, and one of two samples; 255 tokens at most.
std::vector<SampleRequest> requests_of(int64_t vocabulary) {
  std::vector<SampleRequest> requests;
  for (int32_t i = 0; i < 6; ++i) {
    SampleRequest request;
    for (int32_t t = 0; t < 96 + 13 * i; ++t)
      request.prompt.push_back(static_cast<int32_t>((t * 37 + t / 7 * (i / 2 + 1)) % vocabulary));
    request.params.max_tokens = 90;
    request.params.temperature = 1.0f;
    request.params.seed = static_cast<uint64_t>(i);
    if (i == 4) request.params.n = 2;
    requests.push_back(std::move(request));
  }
  return requests;
}

struct Outcome {
  std::vector<std::vector<SampleResult>> results;
  SamplerStats stats;
};

Outcome sampled(Executor& executor, const Served& served, SamplerOptions options) {
  options.max_rows = 32;
  options.max_sequence_tokens = 256;
  const auto sampler = Sampler::create(executor, served.forward, options).value();
  Outcome out;
  out.results = sampler->run(requests_of(served.model->config.vocabulary)).value();
  out.stats = sampler->stats();
  return out;
}

void expect_equal(const Outcome& a, const Outcome& b) {
  for (size_t i = 0; i < a.results.size(); ++i) {
    ASSERT_EQ(a.results[i].size(), b.results[i].size());
    for (size_t k = 0; k < a.results[i].size(); ++k) {
      EXPECT_EQ(a.results[i][k].tokens, b.results[i][k].tokens) << i;
      EXPECT_EQ(a.results[i][k].raw_logprobs, b.results[i][k].raw_logprobs) << i;
    }
  }
}

TEST(WindowPages, AreGivenUpAndChangeNoBit) {
  const auto executor = test::make_executor();
  const Served served(*executor, "mistral");  // a window of 20 in every layer
  const Outcome alone = sampled(*executor, served, {.max_batch = 1, .share_prefixes = false});
  // A chunk of 32 rows and the window before it lie in two pages.
  EXPECT_LE(alone.stats.peak_pages, 2);
  for (const bool share : {false, true}) {
    const Outcome together = sampled(*executor, served, {.max_batch = 4, .share_prefixes = share});
    expect_equal(together, alone);
    EXPECT_LE(together.stats.peak_pages, 2 * 4);
    // Twelve pages would not hold four sequences of up to 251 tokens whole.
    const Outcome tight =
        sampled(*executor, served, {.max_batch = 4, .cache_pages = 12, .share_prefixes = share});
    expect_equal(tight, alone);
    EXPECT_LE(tight.stats.peak_pages, 12);
  }
}

TEST(WindowPages, SampledLogProbabilitiesAreTheTrainers) {
  const auto executor = test::make_executor();
  const Served served(*executor, "mistral");
  const Outcome got = sampled(*executor, served, {.max_batch = 3});
  const auto requests = requests_of(served.model->config.vocabulary);
  Scorer scorer(*executor, served.forward, {.max_sequence_tokens = 256});
  for (size_t i = 0; i < requests.size(); ++i) {
    ScoreRow row{.tokens = requests[i].prompt};
    const SampleResult& result = got.results[i][0];
    row.tokens.insert(row.tokens.end(), result.tokens.begin(), result.tokens.end());
    const auto scores = scorer.score(std::span(&row, 1)).value()[0];
    const std::vector<float> reply(scores.begin() + std::ssize(requests[i].prompt), scores.end());
    EXPECT_EQ(reply, result.raw_logprobs) << i;
  }
}

TEST(WindowPages, StayWhereALayerSeesEverything) {
  const auto executor = test::make_executor();
  const Served served(*executor, "gemma3");
  const Outcome alone = sampled(*executor, served, {.max_batch = 1, .share_prefixes = false});
  EXPECT_EQ(alone.stats.peak_pages, 4);  // of up to 250 positions
}

}  // namespace
}  // namespace mainspring
