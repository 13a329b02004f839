#include "mainspring/cli/eval_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mainspring/text/test_tokenizers.h"

namespace mainspring::cli {
namespace {

class EvalRowsTest : public ::testing::Test {
 protected:
  EvalRowsTest() {
    text_.tokenizer = Tokenizer::from_gguf(byte_level_tokenizer()).value();
    context_.text = &text_;
    context_.eos_tokens = {257};
    context_.prefix_token = 257;
  }
  EvalRow parse(const std::string& line, int64_t number = 4) {
    auto row = parse_eval_row(line, "t.jsonl:5", number, context_);
    EXPECT_TRUE(row.ok()) << row.status().to_string();
    return std::move(row).value();
  }
  std::string refusal(const std::string& line) {
    const auto row = parse_eval_row(line, "t.jsonl:5", 4, context_);
    EXPECT_EQ(row.status().code(), StatusCode::kInvalidArgument) << line;
    return row.status().message();
  }
  ModelText text_;
  EvalContext context_;
};

using Tokens = std::vector<int32_t>;

TEST_F(EvalRowsTest, ALossScoresEveryTokenOfTheTextBehindThePrefix) {
  const EvalRow row = parse(R"({"text":"h\u00e9","task":"wiki"})");
  EXPECT_EQ(row.kind, EvalKind::kLoss);
  EXPECT_EQ(row.task, "wiki");
  ASSERT_EQ(row.scored.size(), 1u);
  EXPECT_EQ(row.scored[0].tokens, (Tokens{257, 'h', 0xC3, 0xA9}));
  EXPECT_EQ(row.scored[0].first, 1u);
  EXPECT_EQ(row.bytes, 3);
  EXPECT_EQ(parse(R"({"tokens":[5,6,7]})").scored[0].first, 1u);
}

TEST_F(EvalRowsTest, AChoiceIsScoredBehindTheQueryAndADelimiter) {
  const EvalRow row = parse(R"({"query":"x:","choices":["b","c\u00e9d"],"gold":1})");
  EXPECT_EQ(row.kind, EvalKind::kChoice);
  EXPECT_EQ(row.gold, 1);
  EXPECT_EQ(row.scored[0].tokens, (Tokens{'x', ':', ' ', 'b'}));
  EXPECT_EQ(row.scored[0].first, 2u);
  EXPECT_EQ(row.lengths, (std::vector<int64_t>{1, 3}));  // characters, without the delimiter
}

// "ab" is a token: what a query ends with may become part of a choice's first token.
TEST_F(EvalRowsTest, TokensAreThoseOfTheWholeText) {
  const EvalRow row = parse(R"({"query":"a","choices":["bc","c"],"gold":0,"delimiter":""})");
  EXPECT_EQ(row.scored[0].tokens, (Tokens{256, 'c'}));
  EXPECT_EQ(row.scored[0].first, 1u);
  EXPECT_EQ(row.scored[1].tokens, (Tokens{'a', 'c'}));
  EXPECT_NE(refusal(R"({"query":"a","choices":["b","c"],"gold":0,"delimiter":""})")
                .find("\"b\" adds no token to the query"),
            std::string::npos);
}

TEST_F(EvalRowsTest, BlanksAtTheQuerysEndBelongToTheChoice) {
  const EvalRow row = parse(R"({"query":"x: ","choices":["b","c"],"gold":0,"delimiter":""})");
  EXPECT_EQ(row.scored[0].tokens, (Tokens{'x', ':', ' ', 'b'}));
  EXPECT_EQ(row.scored[0].first, 2u);
}

TEST_F(EvalRowsTest, AnEmptyQueryStandsBehindThePrefix) {
  const EvalRow row = parse(R"({"query":"","choices":["b","c"],"gold":0,"delimiter":""})");
  EXPECT_EQ(row.scored[0].tokens, (Tokens{257, 'b'}));
  EXPECT_EQ(row.scored[0].first, 1u);
}

TEST_F(EvalRowsTest, AGenerationIsGreedyAndEndsAtItsTexts) {
  const EvalRow row =
      parse(R"({"query":"1","target":["2","two"],"until":"\n","max_tokens":7,"id":"g"})");
  EXPECT_EQ(row.kind, EvalKind::kGeneration);
  EXPECT_EQ(row.request.prompt, (Tokens{'1'}));
  EXPECT_EQ(row.request.params.temperature, 0.0f);
  EXPECT_EQ(row.request.params.max_tokens, 7);
  EXPECT_EQ(row.request.params.stop, (std::vector<std::string>{"\n"}));
  EXPECT_EQ(row.request.params.stop_tokens, (Tokens{257}));
  EXPECT_EQ(row.targets, (std::vector<std::string>{"2", "two"}));
}

TEST_F(EvalRowsTest, BadRowsAreRefusedWithFileLineAndField) {
  EXPECT_NE(refusal(R"({"id":1})").find("t.jsonl:5: text: expected one of"), std::string::npos);
  EXPECT_NE(refusal(R"({"text":"a","target":"b","query":"c"})").find("got several"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"query":"a","choices":["b","c"]})").find("gold: is missing"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"query":"a","choices":["b","c"],"gold":2})").find("expected 0 to 1, got 2"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"choices":["b","c"],"gold":0})").find("\"query\" and \"messages\""),
            std::string::npos);
  EXPECT_NE(refusal(R"({"query":"a","choices":["b",""],"gold":0})").find("a choice is empty"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"query":"a","choises":["b"],"gold":0})").find("did you mean \"choices\""),
            std::string::npos);
  EXPECT_NE(refusal(R"({"text":""})").find("text: is empty"), std::string::npos);
  EXPECT_NE(refusal(R"({"tokens":[1]})").find("at least 2"), std::string::npos);
  EXPECT_NE(refusal(R"({"messages":[],"target":"x"})").find("no chat template"), std::string::npos);
}

TEST_F(EvalRowsTest, FieldsOfTwoKindsAreRefused) {
  EXPECT_NE(refusal(R"({"text":"a","query":"b"})")
                .find("query: does not go with \"text\", which makes the row a loss"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"tokens":[1,2],"max_tokens":3})").find("does not go with \"tokens\""),
            std::string::npos);
  EXPECT_NE(refusal(R"({"query":"a","choices":["b","c"],"gold":0,"until":"x"})")
                .find("until: does not go with \"choices\""),
            std::string::npos);
  EXPECT_NE(refusal(R"({"query":"a","target":"b","gold":0})").find("gold: does not go with"),
            std::string::npos);
  EXPECT_EQ(parse(R"({"text":"a","query":null})").kind, EvalKind::kLoss);
}

TEST_F(EvalRowsTest, FieldsThatNoRowUsesAreListed) {
  const EvalRow row = parse(R"({"text":"a","category":"x","source_file":1,"id":2})");
  EXPECT_EQ(row.unused, (std::vector<std::string>{"category", "source_file"}));
}

TEST_F(EvalRowsTest, RowsThatKeepATaskFromBitsPerByteAreCounted) {
  EvalSummary summary;
  const auto add = [&](const EvalRow& row) {
    const std::vector<std::vector<float>> logprobs(
        1, std::vector<float>(row.scored[0].tokens.size(), -1.0f));
    ASSERT_TRUE(summary.add(format_scored(row, logprobs), "o:1", row).ok());
  };
  add(parse(R"({"text":"hi","task":"a"})"));
  EXPECT_EQ(summary.table().find("no bits_per_byte"), std::string::npos);
  add(parse(R"({"tokens":[1,2],"task":"a"})"));
  EXPECT_NE(summary.table().find("no bits_per_byte: 1 row came as tokens"), std::string::npos)
      << summary.table();
  EXPECT_EQ(summary.json()[0].at("rows_without_bytes"), 1);
}

TEST_F(EvalRowsTest, LengthsDecideOnlyTheNormalisedChoice) {
  const EvalRow row = parse(R"({"query":"x","choices":["b","cccc"],"gold":1})");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // Sums -2 and -4; per character -2 and -1.
  const std::vector<std::vector<float>> logprobs = {{nan, -1.5f, -0.5f},
                                                    {nan, -1.0f, -1.0f, -1.0f, -1.0f, 0.0f}};
  const std::string line = format_scored(row, logprobs);
  const Json json = parse_json(line, "x").value();
  EXPECT_EQ(json.at("loglikelihoods"), (Json{-2.0, -4.0}));
  EXPECT_EQ(json.at("choice"), 0);
  EXPECT_EQ(json.at("choice_norm"), 1);
  EvalSummary summary;
  ASSERT_TRUE(summary.add(line, "o:1", row).ok());
  ASSERT_TRUE(summary.add(line, "o:2", row).ok());
  const Json sums = summary.json();
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].at("acc"), 0.0);
  EXPECT_EQ(sums[0].at("acc_norm"), 1.0);
  EXPECT_EQ(sums[0].at("rows"), 2);
}

TEST_F(EvalRowsTest, LossesAddUpByTaskAndBytes) {
  EvalSummary summary;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const EvalRow a = parse(R"({"text":"hi","task":"a"})");
  const EvalRow b = parse(R"({"tokens":[1,2],"task":"b"})");
  const float ln2 = std::log(2.0f);
  ASSERT_TRUE(summary
                  .add(format_scored(a, std::vector<std::vector<float>>{{nan, -2 * ln2, -4 * ln2}}),
                       "o:1", a)
                  .ok());
  ASSERT_TRUE(
      summary.add(format_scored(b, std::vector<std::vector<float>>{{nan, -1.0f}}), "o:2", b).ok());
  const Json sums = summary.json();
  EXPECT_NEAR(sums[0].at("loss").get<double>(), 3 * std::log(2.0), 1e-6);
  EXPECT_NEAR(sums[0].at("bits_per_byte").get<double>(), 3.0, 1e-6);  // 6 bits over 2 bytes
  EXPECT_FALSE(sums[1].contains("bits_per_byte"));                    // no text, no bytes
  EXPECT_NE(summary.table().find("bits_per_byte 3.0000"), std::string::npos);
}

TEST_F(EvalRowsTest, AGenerationIsRightIfItIsOneOfTheTargetsButForBlanksAround) {
  const EvalRow row = parse(R"({"query":"1","target":["2","two"]})");
  SampleResult result;
  for (const auto& [text, right] :
       {std::pair{" two\n", true}, std::pair{"2", true}, std::pair{"Two", false}}) {
    result.text = text;
    EXPECT_EQ(parse_json(format_generated(row, result), "x").value().at("exact_match"), right);
  }
}

TEST_F(EvalRowsTest, AnOutcomeOfAnotherRowIsRefused) {
  const EvalRow row = parse(R"({"tokens":[1,2]})", 7);
  EvalSummary summary;
  const Status other =
      summary.add(R"({"row":6,"kind":"loss","loglikelihood":-1,"tokens":1})", "out.partial:8", row);
  EXPECT_EQ(other.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(other.message().find("out.partial:8"), std::string::npos);
  EXPECT_EQ(summary.add("{\"row\":", "out.partial:8", row).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace mainspring::cli
