#include "mainspring/data/row_encoder.h"

#include <gtest/gtest.h>

#include "mainspring/text/chat_template.h"
#include "mainspring/text/test_tokenizers.h"
#include "mainspring/text/tokenizer.h"

namespace mainspring {
namespace {

constexpr std::string_view kTurns =
    "{% if tools %}[{{ tools[0].name }}]{% endif %}"
    "{% for m in messages %}<|start|>{{ m.role }}:{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant:{% endif %}";
/// The same, with the marks that some published templates have.
constexpr std::string_view kMarked =
    "{% for m in messages %}<|start|>{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content }}<|end|>{% endgeneration %}{% else %}{{ m.content }}<|end|>{% endif %}\n{% "
    "endfor %}";

RowEncoder encoder_of(RowEncoderOptions options = {}, std::string_view source = kTurns) {
  return {Tokenizer::from_gguf(byte_level_tokenizer()).value(),
          ChatTemplate::compile(source).value(), options};
}

/// The learned tokens' text, and how many are not.
std::string learned(const RowEncoder& encoder, const EncodedRow& row) {
  std::string text;
  const auto pieces = encoder.pieces(row.tokens);
  for (size_t t = 0; t < pieces.size(); ++t) text += row.mask[t] ? pieces[t] : "";
  return text;
}

std::string whole(const RowEncoder& encoder, const EncodedRow& row) {
  std::string text;
  for (const std::string& piece : encoder.pieces(row.tokens)) text += piece;
  return text;
}

const char* const kChat =
    R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},)"
    R"({"role":"assistant","content":"one"},{"role":"tool","content":"t"},{"role":"assistant","content":"two"}]})";

TEST(RowEncoder, OfAChatOnlyAssistantTurnsWithTheirEndAreLearned) {
  for (const std::string_view source : {kTurns, kMarked}) {
    const RowEncoder encoder = encoder_of({}, source);
    const auto row = encoder.encode(kChat, "w");
    ASSERT_TRUE(row.ok()) << row.status().to_string();
    EXPECT_EQ(learned(encoder, *row), "one<|end|>two<|end|>");
    EXPECT_EQ(row->tokens.size(), row->mask.size());
  }
}

TEST(RowEncoder, OnRequestEveryTokenIsLearned) {
  const RowEncoder encoder = encoder_of({.loss_on = LossOn::kAll});
  const auto row = encoder.encode(kChat, "w");
  EXPECT_EQ(learned(encoder, *row), whole(encoder, *row));
}

TEST(RowEncoder, ToolsReachTheTemplate) {
  const RowEncoder encoder = encoder_of();
  const auto row = encoder.encode(
      R"({"tools":[{"name":"clock"}],"messages":[{"role":"user","content":"u"},{"role":"assistant","content":"a"}]})",
      "w");
  EXPECT_EQ(whole(encoder, *row).substr(0, 7), "[clock]");
}

TEST(RowEncoder, OfACompletionOnlyTheCompletionIsLearned) {
  const RowEncoder encoder = encoder_of();
  const auto text = encoder.encode(R"({"prompt":"2+2=","completion":"4"})", "w");
  EXPECT_EQ(whole(encoder, *text), "2+2=4<|end|>");
  EXPECT_EQ(learned(encoder, *text), "4<|end|>");
  const std::string lists =
      R"({"prompt":[{"role":"user","content":"u"},{"role":"assistant","content":"before"},{"role":"user","content":"v"}],)"
      R"("completion":[{"role":"assistant","content":"after"}]})";
  for (const std::string_view source : {kTurns, kMarked}) {
    const RowEncoder chat = encoder_of({}, source);
    const auto row = chat.encode(lists, "w");
    ASSERT_TRUE(row.ok()) << row.status().to_string();
    EXPECT_EQ(learned(chat, *row), "after<|end|>");
  }
}

TEST(RowEncoder, TheBorderBetweenPromptAndCompletionIsABorderOfTokens) {
  const RowEncoder encoder = encoder_of();  // "ab" is one token of this vocabulary
  const auto row = encoder.encode(R"({"prompt":"a","completion":"b"})", "w");
  EXPECT_EQ(row->tokens, (std::vector<int32_t>{'a', 'b', 257}));
  EXPECT_EQ(row->mask, (std::vector<uint8_t>{0, 1, 1}));
}

TEST(RowEncoder, TextIsAllLearnedAndEndsWithTheEndToken) {
  const RowEncoder encoder = encoder_of();
  EXPECT_EQ(encoder.encode(R"({"text":"ab"})", "w")->tokens, (std::vector<int32_t>{256, 257}));
  EXPECT_EQ(encoder.encode(R"({"text":"ab<|end|>"})", "w")->tokens,
            (std::vector<int32_t>{256, 257}))
      << "not twice";
  EXPECT_EQ(encoder_of({.append_eos = false}).encode(R"({"text":"ab"})", "w")->tokens,
            (std::vector<int32_t>{256}));
}

TEST(RowEncoder, TokensBelongToTheVocabulary) {
  const auto row = encoder_of().encode(R"({"tokens":[1,260]})", "t.jsonl:4");
  EXPECT_EQ(row.status().message(),
            "t.jsonl:4: tokens[1]: expected a token number below 260, got 260");
  EXPECT_TRUE(encoder_of({.vocab_size = 300}).encode(R"({"tokens":[1,260]})", "w").ok());
}

TEST(RowEncoder, ARowIsUsedIfItIsShortEnoughAndHasSomethingToLearn) {
  const RowEncoder encoder = encoder_of({.max_tokens = 3});
  const auto use = [&](const char* line) { return encoder.use_of(*encoder.encode(line, "w")); };
  EXPECT_EQ(use(R"({"tokens":[1,2,3]})"), RowUse::kUsed);
  EXPECT_EQ(use(R"({"tokens":[1,2,3,4]})"), RowUse::kTooLong);
  EXPECT_EQ(use(R"({"tokens":[1,2],"mask":[1,0]})"), RowUse::kEmptyMask)
      << "the first cannot be learned";
  EXPECT_EQ(use(R"({"tokens":[1]})"), RowUse::kEmptyMask);
  EXPECT_EQ(use(R"({"tokens":[]})"), RowUse::kEmptyMask);
}

TEST(RowEncoder, WithoutATemplateOrTokenizerRowsThatNeedThemAreRefused) {
  const RowEncoder no_template(Tokenizer::from_gguf(byte_level_tokenizer()).value(), nullptr, {});
  EXPECT_NE(no_template.encode(kChat, "w").status().message().find("chat template"),
            std::string::npos);
  const RowEncoder bare(nullptr, nullptr, {});
  EXPECT_NE(bare.encode(R"({"text":"a"})", "w").status().message().find("tokenizer"),
            std::string::npos);
}

TEST(RowEncoder, ATemplatesRefusalNamesTheRow) {
  const RowEncoder encoder = encoder_of({}, "{{ raise_exception('roles must alternate') }}");
  const Status status = encoder.encode(kChat, "t.jsonl:9").status();
  EXPECT_EQ(status.message().rfind("t.jsonl:9: ", 0), 0u);
  EXPECT_NE(status.message().find("roles must alternate"), std::string::npos);
}

TEST(RowEncoder, LossNamesAreKnown) {
  EXPECT_EQ(*loss_on_from_name("all"), LossOn::kAll);
  EXPECT_NE(loss_on_from_name("asistant").status().message().find("nearest: assistant"),
            std::string::npos);
}

}  // namespace
}  // namespace mainspring
