#include "mainspring/data/row_parser.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

std::string error_of(const std::string& line, RowFormat format = RowFormat::kAuto) {
  const auto row = parse_row(line, "t.jsonl:3", format);
  if (row.ok()) return "ok";
  EXPECT_EQ(row.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(row.status().message().rfind("t.jsonl:3: ", 0), 0u) << row.status().message();
  return row.status().message().substr(11);
}

RowFormat format_of(const std::string& line) {
  const auto row = parse_row(line, "t.jsonl:3", RowFormat::kAuto);
  EXPECT_TRUE(row.ok()) << row.status().to_string();
  return row.ok() ? row->format : RowFormat::kAuto;
}

TEST(RowParser, TheFieldsSayWhatARowIs) {
  EXPECT_EQ(format_of(R"({"messages":[{"role":"user","content":"hi"}]})"), RowFormat::kChat);
  EXPECT_EQ(format_of(R"({"prompt":"a","completion":"b"})"), RowFormat::kCompletion);
  EXPECT_EQ(format_of(R"({"tokens":[1,2]})"), RowFormat::kTokens);
  EXPECT_EQ(format_of(R"({"text":"a"})"), RowFormat::kText);
}

TEST(RowParser, OfSeveralKindsTheFirstCountsUnlessTheFormatIsNamed) {
  const std::string line =
      R"({"text":"t","prompt":"p","messages":[{"role":"user","content":"hi"}]})";
  EXPECT_EQ(format_of(line), RowFormat::kChat);
  EXPECT_EQ(parse_row(line, "w", RowFormat::kText)->text, "t");
  EXPECT_EQ(format_of(R"({"text":"t","tokens":12})"), RowFormat::kText) << "a count, not a list";
}

TEST(RowParser, UnknownFieldsAreMetadata) {
  EXPECT_EQ(format_of(R"({"text":"a","n_tokens":82,"id":"x"})"), RowFormat::kText);
}

TEST(RowParser, ChatMayHaveSystemToolsAndToolTurns) {
  const auto row = parse_row(R"({"tools":[{"name":"f"}],"messages":[{"role":"system","content":"s"},
      {"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"name":"f"}]},
      {"role":"tool","content":"42"},{"role":"assistant","content":"done"}]})",
                             "w", RowFormat::kAuto);
  ASSERT_TRUE(row.ok()) << row.status().to_string();
  EXPECT_EQ(row->messages.size(), 5u);
  EXPECT_EQ(row->tools.size(), 1u);
}

TEST(RowParser, ToolsMayBeTheTextOfAList) {
  const std::string chat = R"("messages":[{"role":"user","content":"u"}]})";
  EXPECT_EQ(
      parse_row(R"({"tools":"[{\"name\":\"f\"}]",)" + chat, "w", RowFormat::kAuto)->tools.size(),
      1u);
  EXPECT_TRUE(parse_row(R"({"tools":"",)" + chat, "w", RowFormat::kAuto)->tools.is_null());
  EXPECT_NE(error_of(R"({"tools":"[",)" + chat).find("tools"), std::string::npos);
  EXPECT_EQ(error_of(R"({"tools":[3],)" + chat), "tools[0]: expected an object, got an integer");
}

TEST(RowParser, ACompletionOfMessageListsKnowsWhereItBegins) {
  const auto row = parse_row(R"({"prompt":[{"role":"user","content":"u"}],
      "completion":[{"role":"assistant","content":"a"}]})",
                             "w", RowFormat::kAuto);
  ASSERT_TRUE(row.ok());
  EXPECT_TRUE(row->is_message_list);
  EXPECT_EQ(row->first_completion, 1u);
  EXPECT_EQ(row->messages.size(), 2u);
}

TEST(RowParser, WrongTypesNameTheFieldAndWhatWasExpected) {
  EXPECT_EQ(error_of(R"({"messages":"hi"})"),
            "messages: expected a list of messages, got a string");
  EXPECT_EQ(error_of(R"({"messages":[]})"), "messages: is empty; expected at least one message");
  EXPECT_EQ(error_of(R"({"messages":[3]})"), "messages[0]: expected an object, got an integer");
  EXPECT_EQ(error_of(R"({"messages":[{"role":"user","content":7}]})"),
            "messages[0].content: expected a string, got an integer");
  EXPECT_EQ(error_of(R"({"messages":[{"role":"user"}]})"),
            "messages[0].content: is missing; expected a string");
  EXPECT_EQ(error_of(R"({"prompt":"a","completion":["b"]})"),
            "completion: expected a string, as prompt is, got an array");
  EXPECT_EQ(error_of(R"({"prompt":"a"})"),
            "completion: is missing; expected a string or a list of messages");
  EXPECT_EQ(error_of(R"({"text":["a"]})"), "text: expected a string, got an array");
  EXPECT_EQ(error_of(R"({"text":"a"})", RowFormat::kChat), "messages: is missing");
  EXPECT_EQ(error_of("[1]"), "expected one JSON object a line, got an array");
}

TEST(RowParser, AWrongRoleIsAnsweredWithTheNearestOne) {
  EXPECT_EQ(
      error_of(R"({"messages":[{"role":"asistant","content":"x"}]})"),
      "messages[0].role: expected one of system, developer, user, assistant, tool; got 'asistant' "
      "(nearest: assistant)");
  EXPECT_NE(error_of(R"({"messages":[{"from":"human","value":"x"}]})").find("'role' and 'content'"),
            std::string::npos);
}

TEST(RowParser, PartsOfContentMustBeText) {
  EXPECT_EQ(error_of(R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]})"),
            "ok");
  EXPECT_EQ(error_of(R"({"messages":[{"role":"user","content":[{"type":"image"}]}]})"),
            "messages[0].content[0].type: expected \"text\": only text can be trained on");
}

TEST(RowParser, TokensAndMaskAreChecked) {
  const auto row = parse_row(R"({"tokens":[5,6,7],"mask":[0,true,1]})", "w", RowFormat::kAuto);
  ASSERT_TRUE(row.ok());
  EXPECT_EQ(row->tokens, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(row->mask, (std::vector<uint8_t>{0, 1, 1}));
  EXPECT_EQ(parse_row(R"({"tokens":[5,6]})", "w", RowFormat::kAuto)->mask,
            (std::vector<uint8_t>{1, 1}));
  EXPECT_EQ(error_of(R"({"tokens":[1,-2]})"), "tokens[1]: expected a token number, got -2");
  EXPECT_EQ(error_of(R"({"tokens":[1,1.5]})"),
            "tokens[1]: expected an integer, got a number with a fraction");
  EXPECT_EQ(error_of(R"({"tokens":[18446744073709551615]})"),
            "tokens[0]: expected a token number, got 18446744073709551615");
  EXPECT_EQ(error_of(R"({"tokens":[1,2],"mask":[1]})"),
            "mask: expected 2 entries, as tokens has, got 1");
  EXPECT_EQ(error_of(R"({"tokens":[1],"mask":[2]})"), "mask[0]: expected 0 or 1, got 2");
}

TEST(RowParser, MalformedJsonNamesTheColumn) {
  EXPECT_EQ(error_of(R"({"text": )").rfind("column ", 0), 0u);
  EXPECT_NE(error_of("[").find("not a JSON list"), std::string::npos);
  EXPECT_NE(error_of("").find("column"), std::string::npos);
}

TEST(RowParser, ARowOfNoKnownKindListsWhatItHas) {
  EXPECT_EQ(error_of(R"({"conversations":[],"id":1})"),
            "expected a field messages, prompt and completion, tokens, or text; the row has "
            "conversations, id "
            "(conversations are called messages here)");
}

TEST(RowParser, FormatNamesRoundTripAndUnknownOnesGetTheNearest) {
  for (const char* name : {"auto", "chat", "completion", "tokens", "text"}) {
    EXPECT_EQ(row_format_name(*row_format_from_name(name)), name);
  }
  EXPECT_NE(row_format_from_name("chatt").status().message().find("nearest: chat"),
            std::string::npos);
}

TEST(RowParser, MutatedRowsNeverCrash) {
  const std::string seeds[] = {
      R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"x"}]}],"tools":[{}]})",
      R"({"prompt":[{"role":"user","content":"u"}],"completion":[{"role":"assistant","content":"a"}]})",
      R"({"tokens":[1,2,3],"mask":[0,1,true]})"};
  const char alphabet[] = "{}[]\":,0-1.e\\u\xF0 tn";
  uint64_t random = 12345;
  const auto next = [&random](uint64_t n) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return (random >> 33) % n;
  };
  for (int round = 0; round < 6000; ++round) {
    std::string line = seeds[next(3)];
    for (uint64_t edits = 1 + next(4); edits > 0; --edits) {
      const size_t at = next(line.size());
      const char c = alphabet[next(sizeof(alphabet) - 1)];
      switch (next(3)) {
        case 0:
          line[at] = c;
          break;
        case 1:
          line.insert(at, 1, c);
          break;
        default:
          line.erase(at, 1 + next(3));
          break;
      }
    }
    const auto row = parse_row(line, "f:1", RowFormat::kAuto);
    if (row.ok()) {
      EXPECT_EQ(row->mask.size(), row->tokens.size());
    }
    const auto pair = parse_pair(line, "f:1");
    if (pair.ok()) {
      EXPECT_EQ(pair->rejected.mask.size(), pair->rejected.tokens.size());
    }
  }
}

}  // namespace
}  // namespace mainspring
