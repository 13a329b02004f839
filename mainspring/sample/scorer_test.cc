#include "mainspring/sample/scorer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mainspring/sample/fake_executor.h"

namespace mainspring {
namespace {

constexpr int64_t kVocabulary = 50;

std::vector<float> expected_scores(const ScoreRow& row) {
  const fake::FakeRowMath math;
  std::vector<float> scores;
  for (size_t i = 1; i < row.tokens.size(); ++i) {
    const std::vector<int32_t> history(row.tokens.begin(),
                                       row.tokens.begin() + static_cast<int64_t>(i));
    const auto logits = fake::logits_of(row.adapter, history, kVocabulary);
    scores.push_back(logits[static_cast<size_t>(row.tokens[i])] -
                     math.stats(logits.data(), kVocabulary).lse);
  }
  return scores;
}

class ScorerTest : public ::testing::Test {
 protected:
  ScorerTest() : config_(fake::tiny_config(kVocabulary, 100)) {
    parameters_ = fake::make_parameters(executor_, config_);
  }

  Scorer make_scorer(int64_t max_rows) {
    ForwardModel model;
    model.compute = DType::kF32;
    model.config = config_;
    model.base = &parameters_;
    model.adapters.resize(1);
    return Scorer(executor_, model, {.max_rows = max_rows});
  }

  fake::FakeExecutor executor_;
  ModelConfig config_;
  ParameterSet parameters_;
};

TEST_F(ScorerTest, ScoresEachTokenGivenThoseBeforeItHoweverRowsArePacked) {
  std::vector<ScoreRow> rows = {
      {{1, 2, 3, 4}, -1}, {{}, -1}, {{7}, -1}, {{1, 2, 9}, 0}, {{5, 5, 5, 5, 5}, -1}};
  rows.push_back({std::vector<int32_t>(90, 3), -1});
  for (const int64_t max_rows : {1, 6, 2048}) {
    Scorer scorer = make_scorer(max_rows);
    const auto scores = scorer.score(rows);
    ASSERT_TRUE(scores.ok()) << scores.status().to_string();
    ASSERT_EQ(scores->size(), rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::vector<float>& row = (*scores)[i];
      ASSERT_EQ(row.size(), rows[i].tokens.size());
      if (row.empty()) continue;
      EXPECT_TRUE(std::isnan(row[0]));
      EXPECT_EQ(std::vector<float>(row.begin() + 1, row.end()), expected_scores(rows[i]));
    }
  }
}

TEST_F(ScorerTest, BadRowsAreRefusedByNumberBeforeAnythingRuns) {
  Scorer scorer = make_scorer(2048);
  const auto refusal = [&](ScoreRow row) {
    const std::vector<ScoreRow> rows = {{{1, 2}, -1}, std::move(row)};
    const auto scores = scorer.score(rows);
    EXPECT_EQ(scores.status().code(), StatusCode::kInvalidArgument);
    return scores.status().message();
  };
  EXPECT_EQ(refusal({{1, 50}, -1}), "row 1: tokens: token 1 is 50, expected 0 to 49");
  EXPECT_EQ(refusal({{1, -1}, -1}), "row 1: tokens: token 1 is -1, expected 0 to 49");
  EXPECT_EQ(refusal({std::vector<int32_t>(101, 1), -1}),
            "row 1: tokens: expected at most 100, got 101");
  EXPECT_EQ(refusal({{1, 2}, 1}), "row 1: adapter: 1 of 1 adapters");
  EXPECT_TRUE(executor_.log().rows_per_run.empty());
}

}  // namespace
}  // namespace mainspring
