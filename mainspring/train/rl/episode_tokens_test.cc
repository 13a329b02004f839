#include "mainspring/train/rl/episode_tokens.h"

#include <gtest/gtest.h>

#include "mainspring/text/byte_tokenizer.h"

namespace mainspring {
namespace {

constexpr int32_t kEnd = 256;  // of the byte tokenizer

ModelText text_of(const std::string& chat_template) {
  const SpecialTokens special{.eos = kByteEndOfText};
  return {Tokenizer::from_json(byte_tokenizer_json(), special).value(),
          ChatTemplate::compile(chat_template, special).value()};
}

// "<user>hi|" ... "<assistant>": a turn of the assistant ends with the control token.
constexpr const char* kTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% if m.role == 'assistant' %}<|endoftext|>{% endif %}|{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";
// Hides what the assistant said before, as templates of reasoning models do.
constexpr const char* kForgetful =
    "{% for m in messages %}<{{ m.role }}>"
    "{% if m.role == 'assistant' %}...{% else %}{{ m.content }}{% endif %}|{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

Observation say(const std::string& content) {
  return {.messages = {{"user", content}}, .tokens = {}};
}

SampleResult reply_of(std::vector<int32_t> tokens, StopReason reason) {
  SampleResult result;
  for (size_t i = 0; i < tokens.size(); ++i) {
    result.raw_logprobs.push_back(-1.0f - static_cast<float>(i));
  }
  result.tokens = std::move(tokens);
  result.stop_reason = reason;
  result.weight_version = 4;
  return result;
}

std::string text_of(const ModelText& text, const std::vector<int32_t>& tokens) {
  return text.tokenizer->decode(tokens, false).value();
}

TEST(EpisodeTokens, ATurnExtendsTheOneBeforeExactly) {
  const ModelText text = text_of(kTemplate);
  EpisodeTokens episode(text);
  ASSERT_TRUE(episode.observe(say("hi")).ok());
  EXPECT_EQ(text_of(text, episode.tokens()), "<user>hi|<assistant>");
  const std::vector<int32_t> first = episode.tokens();
  const auto action = episode.reply(reply_of({'y', 'o', kEnd}, StopReason::kStopToken));
  EXPECT_EQ(action->text, "yo");
  EXPECT_TRUE(action->is_complete);
  ASSERT_TRUE(episode.observe(say("go on")).ok());
  EXPECT_EQ(text_of(text, episode.tokens()),
            "<user>hi|<assistant>yo<|endoftext|>|<user>go on|<assistant>");
  EXPECT_TRUE(std::equal(first.begin(), first.end(), episode.tokens().begin()));
  ASSERT_TRUE(episode.reply(reply_of({'k'}, StopReason::kMaxTokens)).ok());
  const std::vector<Branch> branches = episode.take();
  ASSERT_EQ(branches.size(), 1u);
  EXPECT_EQ(branches[0].num_sampled(), 4);
  const size_t n = first.size();
  EXPECT_EQ(branches[0].sampled[n - 1], 0);
  EXPECT_EQ(branches[0].sampled[n], 1);
  EXPECT_EQ(branches[0].logprobs[n + 2], -3.0f);
  EXPECT_EQ(branches[0].versions[n], 4);
  EXPECT_EQ(branches[0].versions[n + 3], -1);  // the template's "|"
}

TEST(EpisodeTokens, ACutReplyGetsItsEndFromTheTemplate) {
  const ModelText text = text_of(kTemplate);
  EpisodeTokens episode(text);
  ASSERT_TRUE(episode.observe(say("hi")).ok());
  const auto action = episode.reply(reply_of({'y'}, StopReason::kMaxTokens));
  EXPECT_FALSE(action->is_complete);
  ASSERT_TRUE(episode.observe(say("more")).ok());
  EXPECT_EQ(text_of(text, episode.tokens()),
            "<user>hi|<assistant>y<|endoftext|>|<user>more|<assistant>");
  EXPECT_EQ(episode.take()[0].num_sampled(), 1);
}

// Bytes that are no UTF-8 do not survive the way through text; ids do.
TEST(EpisodeTokens, SampledIdsAreNeverTokenizedAgain) {
  const ModelText text = text_of(kTemplate);
  EpisodeTokens episode(text);
  ASSERT_TRUE(episode.observe(say("hi")).ok());
  const size_t n = episode.tokens().size();
  ASSERT_TRUE(episode.reply(reply_of({0xC3, 0x28, kEnd}, StopReason::kStopToken)).ok());
  ASSERT_TRUE(episode.observe(say("more")).ok());
  EXPECT_EQ(episode.tokens()[n], 0xC3);
  EXPECT_EQ(episode.tokens()[n + 1], 0x28);
  EXPECT_EQ(episode.take().size(), 1u);
}

TEST(EpisodeTokens, ARewrittenHistoryOpensABranch) {
  const ModelText text = text_of(kForgetful);
  EpisodeTokens episode(text);
  ASSERT_TRUE(episode.observe(say("hi")).ok());
  ASSERT_TRUE(episode.reply(reply_of({'y', kEnd}, StopReason::kStopToken)).ok());
  ASSERT_TRUE(episode.observe(say("more")).ok());
  EXPECT_EQ(text_of(text, episode.tokens()), "<user>hi|<assistant>...|<user>more|<assistant>");
  ASSERT_TRUE(episode.reply(reply_of({'z', kEnd}, StopReason::kStopToken)).ok());
  const std::vector<Branch> branches = episode.take();
  ASSERT_EQ(branches.size(), 2u);
  EXPECT_EQ(branches[0].num_sampled(), 2);
  EXPECT_EQ(branches[1].num_sampled(), 2);
}

TEST(EpisodeTokens, TokenEnvironmentsNeedNoTokenizer) {
  const ModelText none;
  EpisodeTokens episode(none);
  ASSERT_TRUE(episode.observe({.messages = {}, .tokens = {3, 5, 10}}).ok());
  const auto action = episode.reply(reply_of({5, 11}, StopReason::kStopToken));
  EXPECT_EQ(action->tokens, (std::vector<int32_t>{5, 11}));
  ASSERT_TRUE(episode.observe({.messages = {}, .tokens = {4}}).ok());
  EXPECT_EQ(episode.tokens(), (std::vector<int32_t>{3, 5, 10, 5, 11, 4}));
  EXPECT_FALSE(EpisodeTokens(none).observe(say("hi")).ok());
}

}  // namespace
}  // namespace mainspring
