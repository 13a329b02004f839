#include "mainspring/sample/sampling_params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace mainspring {
namespace {

std::string refusal(const std::function<void(SamplingParams&)>& change) {
  SamplingParams params;
  change(params);
  const Status status = validate(params, 100);
  EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInvalidArgument);
  return status.message();
}

TEST(SamplingParams, DefaultsAreValid) { EXPECT_TRUE(validate(SamplingParams{}, 1).ok()); }

TEST(SamplingParams, EachBadFieldIsRefusedByNameWithWhatWasExpected) {
  EXPECT_EQ(refusal([](auto& p) { p.max_tokens = -1; }),
            "max_tokens: expected an integer of at least 0, got -1");
  EXPECT_EQ(refusal([](auto& p) { p.temperature = -0.5f; }),
            "temperature: expected 0 (greedy) or a number from 0.0001 to 1000, got -0.5");
  EXPECT_EQ(refusal([](auto& p) { p.top_k = -2; }),
            "top_k: expected an integer of at least 0 (0: off), got -2");
  EXPECT_EQ(refusal([](auto& p) { p.top_p = 1.5f; }),
            "top_p: expected a number above 0 and at most 1, got 1.5");
  EXPECT_EQ(refusal([](auto& p) { p.top_p = 0.0f; }),
            "top_p: expected a number above 0 and at most 1, got 0");
  EXPECT_EQ(refusal([](auto& p) { p.min_p = 2.0f; }),
            "min_p: expected a number from 0 to 1, got 2");
  EXPECT_EQ(refusal([](auto& p) { p.repetition_penalty = 0.0f; }),
            "repetition_penalty: expected a number from 0.01 to 100 (1: off), got 0");
  EXPECT_EQ(refusal([](auto& p) { p.presence_penalty = 2.5f; }),
            "presence_penalty: expected a number from -2 to 2 (0: off), got 2.5");
  EXPECT_EQ(refusal([](auto& p) { p.frequency_penalty = -3.0f; }),
            "frequency_penalty: expected a number from -2 to 2 (0: off), got -3");
  EXPECT_EQ(refusal([](auto& p) { p.n = 0; }), "n: expected an integer from 1 to 1048576, got 0");
  EXPECT_EQ(refusal([](auto& p) { p.top_logprobs = 500; }),
            "top_logprobs: expected an integer from 0 to 128, got 500");
  EXPECT_EQ(refusal([](auto& p) { p.stop = {""}; }),
            "stop: expected texts that are not empty, got \"\"");
  EXPECT_EQ(refusal([](auto& p) { p.stop_tokens = {100}; }),
            "stop_tokens: expected tokens from 0 to 99, got 100");
}

TEST(SamplingParams, NotANumberIsRefused) {
  EXPECT_NE(refusal([](auto& p) { p.temperature = std::nanf(""); }), "");
  EXPECT_NE(refusal([](auto& p) { p.top_p = std::nanf(""); }), "");
  EXPECT_NE(refusal([](auto& p) { p.min_p = std::nanf(""); }), "");
  EXPECT_NE(refusal([](auto& p) { p.repetition_penalty = std::nanf(""); }), "");
  EXPECT_NE(refusal([](auto& p) { p.presence_penalty = std::nanf(""); }), "");
}

}  // namespace
}  // namespace mainspring
