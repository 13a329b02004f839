#include "mainspring/lab/advice.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

// 100 ms in one well-fed linear; each test makes one thing worse.
Profile healthy() {
  Profile profile{.ceilings = {.flops = 1e12, .bandwidth = 1e10}};
  profile.rows = 4000;
  profile.lines = {{.name = "linear",
                    .phase = "forward",
                    .calls = 10,
                    .own_ns = 100'000'000,
                    .flops = 0.8e11,
                    .bytes = 1e6}};
  profile.wall_ns = 100'000'000;
  return profile;
}

constexpr int64_t kTenPercent = 11'111'111;  // of the wall time with it

ProfileFacts facts() {
  return {.num_steps = 2, .num_tokens = 3990, .num_learned = 3990, .num_micro_batches = 2};
}

void add(Profile& profile, const ProfileLine& line) {
  profile.lines.push_back(line);
  profile.wall_ns += line.own_ns;
}

std::string first(const Profile& profile, const ProfileFacts& f) { return advise(profile, f)[0]; }

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Advice, AHealthyProfileSaysSo) {
  const auto advice = advise(healthy(), facts());
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_TRUE(says(advice[0], "Nothing stands out: 100 %")) << advice[0];
}

TEST(Advice, RecomputationNamesItsCost) {
  Profile p = healthy();
  add(p,
      {.name = "linear", .phase = "recompute", .own_ns = kTenPercent, .flops = 1e10, .bytes = 1});
  EXPECT_TRUE(says(first(p, facts()), "Recomputation takes 10 %")) << first(p, facts());
}

TEST(Advice, FewRowsNameTheKeyThatLimitsThem) {
  Profile p = healthy();
  p.rows = 200;
  ProfileFacts f = facts();
  f.num_tokens = 200;
  EXPECT_TRUE(says(first(p, f), "only 100 rows")) << first(p, f);
  EXPECT_TRUE(says(first(p, f), "train.batch_size")) << first(p, f);
  f.num_micro_batches = 4;
  EXPECT_TRUE(says(first(p, f), "train.micro_batch_rows")) << first(p, f);
}

TEST(Advice, TheHeadIsNamedWithItsShareOfTokens) {
  Profile p = healthy();
  add(p, {.name = "head_logprob_grad",
          .phase = "backward",
          .own_ns = 100'000'000,
          .flops = 1e11,
          .bytes = 1});
  EXPECT_TRUE(says(first(p, facts()), "The head takes 50 %")) << first(p, facts());
  EXPECT_TRUE(says(first(p, facts()), "loss_on")) << first(p, facts());
}

TEST(Advice, PaddingRowsAreCounted) {
  ProfileFacts f = facts();
  f.num_tokens = 3000;
  EXPECT_TRUE(says(first(healthy(), f), "25 % of the rows are padding")) << first(healthy(), f);
}

TEST(Advice, WhatTheHostDoesIsNamed) {
  const std::pair<const char*, const char*> cases[] = {{"data", "Waiting for data takes 10 %"},
                                                       {"plan", "Making plans takes 10 %"}};
  for (const auto& [name, text] : cases) {
    Profile p = healthy();
    add(p, {.kind = SpanKind::kHost, .name = name, .own_ns = kTenPercent});
    EXPECT_TRUE(says(first(p, facts()), text)) << first(p, facts());
  }
  Profile p = healthy();
  add(p, {.name = "adamw", .phase = "update", .own_ns = 100'000'000, .flops = 1, .bytes = 1e9});
  EXPECT_TRUE(says(first(p, facts()), "train.batch_size")) << first(p, facts());
  Profile gap = healthy();
  gap.unattributed_ns = kTenPercent;
  gap.wall_ns += kTenPercent;
  EXPECT_TRUE(says(first(gap, facts()), "10 % of the time is in no line")) << first(gap, facts());
}

TEST(Advice, ABusyMachineIsSuspected) {
  ProfileFacts f = facts();
  f.busy = 0.6;
  EXPECT_TRUE(says(first(healthy(), f), "60 %")) << first(healthy(), f);
}

TEST(Advice, AttentionAndMemoryAreTold) {
  Profile p = healthy();
  add(p,
      {.name = "attention", .phase = "forward", .own_ns = 100'000'000, .flops = 1e11, .bytes = 1});
  EXPECT_TRUE(says(first(p, facts()), "Attention takes 50 %")) << first(p, facts());
  Profile m = healthy();
  add(m, {.name = "add", .phase = "forward", .own_ns = 100'000'000, .flops = 1, .bytes = 1e9});
  EXPECT_TRUE(says(first(m, facts()), "bound by memory take 50 %")) << first(m, facts());
}

TEST(Advice, DecodingIsToldToShareTheWeights) {
  Profile p = healthy();
  add(p, {.name = "linear", .phase = "forward", .own_ns = 100'000'000, .flops = 1, .bytes = 1e9});
  ProfileFacts f = facts();
  f.num_micro_batches = 0;
  f.num_decoding = 4;
  EXPECT_TRUE(says(first(p, f), "50 %")) << first(p, f);
  EXPECT_TRUE(says(first(p, f), "for 4 tokens a step")) << first(p, f);
}

TEST(Advice, AnOpFarBelowItsCeilingIsNamed) {
  Profile p = healthy();
  p.lines[0].flops = 1e10;
  EXPECT_TRUE(says(first(p, facts()), "linear (forward) takes 100 % of the time at 10 %"))
      << first(p, facts());
}

TEST(Advice, ThreadsThatWaitAreCountedAndTheOpIsNamed) {
  Profile p = healthy();
  p.lines[0].waiting_ns = 2 * kTenPercent;
  const std::string worst = p.lines[0].name;
  add(p, {.kind = SpanKind::kHost, .name = std::string(kWaitingLine), .own_ns = 2 * kTenPercent});
  EXPECT_TRUE(says(first(p, facts()), "Threads wait for each other")) << first(p, facts());
  EXPECT_TRUE(says(first(p, facts()), "most in " + worst)) << first(p, facts());
}

}  // namespace
}  // namespace mainspring
