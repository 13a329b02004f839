#include "mainspring/cli/conversation.h"

#include <gtest/gtest.h>

namespace mainspring::cli {
namespace {

/// Bytes as tokens, so that lengths can be counted by hand.
ModelText byte_text() {
  std::string vocabulary;
  for (int c = 32; c < 127; ++c) {
    if (c == '"' || c == '\\') continue;
    if (!vocabulary.empty()) vocabulary += ",";
    vocabulary += std::string("\"") + static_cast<char>(c) + "\":" + std::to_string(c - 32);
  }
  ModelText text;
  text.tokenizer = Tokenizer::from_json(
                       R"({"version":"1.0","truncation":null,"padding":null,)"
                       R"("added_tokens":[],"normalizer":null,"pre_tokenizer":null,)"
                       R"("post_processor":null,"decoder":{"type":"Fuse"},"model":{"type":"BPE",)"
                       R"("merges":[],"vocab":{)" +
                       vocabulary + "}}}")
                       .value();
  text.chat_template = ChatTemplate::compile(
                           "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}{% endfor %}"
                           "{% if add_generation_prompt %}<a>{% endif %}")
                           .value();
  return text;
}

class ConversationTest : public ::testing::Test {
 protected:
  std::string prompt_text(Conversation& chat, int64_t max_tokens, int64_t forgotten = 0) {
    const auto prompt = chat.prompt(max_tokens);
    if (!prompt.ok()) return prompt.status().message();
    EXPECT_EQ(prompt->forgotten_turns, forgotten);
    return text_.tokenizer->decode(prompt->tokens).value();
  }
  ModelText text_ = byte_text();
};

TEST_F(ConversationTest, RendersAllMessagesAndTheHeaderOfTheNext) {
  Conversation chat(text_, "be brief");
  chat.add_user("hi");
  EXPECT_EQ(prompt_text(chat, 100), "<s>be brief<u>hi<a>");
  chat.add_assistant("yo");
  chat.add_user("bye");
  EXPECT_EQ(prompt_text(chat, 100), "<s>be brief<u>hi<a>yo<u>bye<a>");
}

TEST_F(ConversationTest, TheOldestTurnsGoWhenThereIsNoRoom) {
  Conversation chat(text_, "S");
  chat.add_user("1");
  chat.add_assistant("one");
  chat.add_user("2");
  chat.add_assistant("two");
  chat.add_user("3");  // <s>S<u>1<a>one<u>2<a>two<u>3<a>: 31 tokens
  EXPECT_EQ(prompt_text(chat, 31), "<s>S<u>1<a>one<u>2<a>two<u>3<a>");
  EXPECT_EQ(prompt_text(chat, 30, 1), "<s>S<u>2<a>two<u>3<a>");
  EXPECT_EQ(prompt_text(chat, 11, 1), "<s>S<u>3<a>");
  EXPECT_EQ(prompt_text(chat, 10), "the message takes 11 tokens, there is room for 10");
}

TEST_F(ConversationTest, ResetKeepsTheSystemMessageOnly) {
  Conversation chat(text_, "S");
  chat.add_user("1");
  chat.reset();
  EXPECT_EQ(chat.to_row(), R"({"messages":[{"role":"system","content":"S"}]})");
}

TEST_F(ConversationTest, ARowOfItIsChatDataAgain) {
  Conversation chat(text_, "");
  chat.add_user("a \"b\"");
  chat.add_assistant("c");
  chat.add_user("oops");
  chat.drop_last();
  EXPECT_EQ(
      chat.to_row(),
      R"({"messages":[{"role":"user","content":"a \"b\""},{"role":"assistant","content":"c"}]})");
}

}  // namespace
}  // namespace mainspring::cli
