#include "mainspring/sample/penalties.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

TEST(Penalties, RepetitionDividesPositiveLogitsAndMultipliesOthers) {
  TokenHistory history;
  history.add_prompt(std::vector<int32_t>{0, 1, 1});
  history.add_reply(3);
  std::vector<float> logits = {3.0f, -3.0f, 3.0f, 0.0f, 1.0f};
  apply_penalties({.repetition = 1.5f}, history, logits);
  EXPECT_EQ(logits, (std::vector<float>{2.0f, -4.5f, 3.0f, 0.0f, 1.0f}));
}

TEST(Penalties, FrequencyAndPresenceCountTheReplyAlone) {
  TokenHistory history;
  history.add_prompt(std::vector<int32_t>{0, 0, 1});
  for (const int32_t token : {1, 2, 1, 1}) history.add_reply(token);
  std::vector<float> logits = {1.0f, 1.0f, 1.0f, 1.0f};
  apply_penalties({.frequency = 0.5f}, history, logits);
  EXPECT_EQ(logits, (std::vector<float>{1.0f, -0.5f, 0.5f, 1.0f}));  // 3 and 1 times 0.5
  apply_penalties({.presence = -2.0f}, history, logits);
  EXPECT_EQ(logits, (std::vector<float>{1.0f, 1.5f, 2.5f, 1.0f}));
}

TEST(Penalties, RepetitionComesFirstThenFrequencyThenPresence) {
  TokenHistory history;
  history.add_reply(0);
  history.add_reply(0);
  std::vector<float> logits = {4.0f};
  apply_penalties({.repetition = 2.0f, .presence = 0.25f, .frequency = 0.5f}, history, logits);
  EXPECT_EQ(logits[0], 4.0f / 2.0f - 0.5f * 2.0f - 0.25f);
}

TEST(Penalties, AHistoryHasEachTokenOnce) {
  TokenHistory history;
  history.add_prompt(std::vector<int32_t>{5, 5, 7});
  history.add_reply(7);
  ASSERT_EQ(history.entries().size(), 2u);
  EXPECT_EQ(history.entries()[0].reply_count, 0);
  EXPECT_EQ(history.entries()[1].token, 7);
  EXPECT_EQ(history.entries()[1].reply_count, 1);
}

}  // namespace
}  // namespace mainspring
