#include "mainspring/text/chat_template.h"

#include <gtest/gtest.h>

#include "mainspring/io/fuzz_util.h"
#include "mainspring/io/json.h"
#include "mainspring/text/test_tokenizers.h"

namespace mainspring {
namespace {

constexpr std::string_view kTurns =
    "{{ bos_token }}{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content | trim "
    "}}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}";

Json parse(std::string_view text) { return parse_json(text, "test").value(); }

std::shared_ptr<const ChatTemplate> compile(std::string_view source, SpecialTokens special = {}) {
  return ChatTemplate::compile(source, std::move(special)).value();
}

TEST(ChatTemplateTest, MessagesBecomeTurnsAndSpecialTokensAreVariables) {
  const auto chat = compile(kTurns, {.bos = "<s>"});
  EXPECT_EQ(
      chat->render(parse(R"([{"role":"user","content":" hi "}])"), {.add_generation_prompt = true})
          .value(),
      "<s><|start|>user\nhi<|end|>\n<|start|>assistant\n");
}

TEST(ChatTemplateTest, ToolsVariablesAndTimeReachTheTemplate) {
  const auto chat = compile(
      "{{ tools|tojson }} {{ mode }} {{ bos_token }} {{ strftime_now('%Y') }}", {.bos = "<s>"});
  const Json tools = parse(R"([{"name":"f"}])");
  const Json variables = parse(R"({"mode":"x","bos_token":"<b>"})");
  EXPECT_TRUE(chat->uses_clock());
  EXPECT_EQ(chat->render(Json::array(),
                         {.tools = &tools, .variables = &variables, .now_unix_s = 1'000'000'000})
                .value(),
            R"([{"name": "f"}] x <b> 2001)");
  EXPECT_EQ(compile("{{ tools is none }}")->render(Json::array()).value(), "True");
}

TEST(ChatTemplateTest, NullFieldsAreAbsentAndReasoningHasAllItsNames) {
  const auto chat = compile(
      "{% for m in messages %}{{ m.content is defined }} {{ m.reasoning_content }}{{ m.thinking "
      "}};{% endfor %}");
  EXPECT_EQ(chat->render(parse(R"([{"role":"a","content":null},{"content":"","reasoning":"R"}])"))
                .value(),
            "False ;True RR;");
}

TEST(ChatTemplateTest, RefusalsNameTheReason) {
  EXPECT_EQ(ChatTemplate::compile("{% if %}").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(compile(kTurns)->render(parse("{}")).status().message(),
            "messages: expected an array, got an object");
  EXPECT_EQ(compile(kTurns)->render(parse("[1]")).status().message(),
            "messages[0]: expected an object, got an integer");
  const Status refused =
      compile("{{ raise_exception('user first') }}")->render(parse("[]")).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("user first"), std::string::npos);
}

TEST(ChatTemplateTest, GenerationMarksGiveTheSpansAsTheyAre) {
  const auto chat = compile(
      "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}{{ m.content "
      "}}<|end|>\n"
      "{% endgeneration %}{% else %}U:{{ m.content }}{% endif %}{% endfor %}");
  const RenderedChat out =
      chat
          ->render_with_spans(parse(
              R"([{"role":"user","content":"é"},{"role":"assistant","content":"yes"},{"role":"assistant","content":"no"}])"))
          .value();
  EXPECT_EQ(out.text, "U:éA:yes<|end|>\nA:no<|end|>\n");
  ASSERT_EQ(out.spans.size(), 2U);
  EXPECT_EQ(out.text.substr(out.spans[0].begin, out.spans[0].end - out.spans[0].begin),
            "yes<|end|>\n");
  EXPECT_EQ(out.spans[0].message, 1U);
  EXPECT_EQ(out.spans[1].message, 2U);
}

TEST(ChatTemplateTest, ADamagedTemplateIsRefusedOrRenders) {
  const Json messages =
      parse(R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])");
  int usable = 0;
  for_each_damage(std::string(kTurns), 500, [&](const std::string& damaged) {
    const auto chat = ChatTemplate::compile(damaged);
    if (!chat.ok()) return;
    ++usable;
    const Result<RenderedChat> out = chat.value()->render_with_spans(messages);
    if (!out.ok()) return;
    for (const AssistantSpan& span : out->spans) {
      EXPECT_LE(span.begin, span.end);
      EXPECT_LE(span.end, out->text.size());
    }
  });
  EXPECT_GT(usable, 0);
}

TEST(ChatTokensTest, TheLossCoversTheAssistantsWordsAndTheEndOfTurnToken) {
  const auto tokenizer = Tokenizer::from_gguf(byte_level_tokenizer()).value();
  const ChatTokens out =
      render_chat_with_spans(
          *tokenizer, *compile(kTurns),
          parse(
              R"([{"role":"user","content":"x"},{"role":"assistant","content":"ab"},{"role":"user","content":"y"}])"))
          .value();
  std::vector<int32_t> learned;
  for (size_t t = 0; t < out.tokens.size(); ++t) {
    if (out.loss_mask[t] != 0) learned.push_back(out.tokens[t]);
  }
  EXPECT_EQ(learned, (std::vector<int32_t>{256, 257}));
  EXPECT_EQ(out.tokens.back(), '\n');
}

}  // namespace
}  // namespace mainspring
