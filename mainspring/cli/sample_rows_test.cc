#include "mainspring/cli/sample_rows.h"

#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace mainspring::cli {
namespace {

RowContext context_of(const ModelText& text) {
  RowContext context;
  context.text = &text;
  context.vocabulary = 100;
  context.eos_tokens = {2};
  return context;
}

class SampleRowsTest : public ::testing::Test {
 protected:
  Result<SampleRow> parse(const std::string& line) {
    return parse_sample_row(line, "in.jsonl:3", 2, context_);
  }
  std::string refusal(const std::string& line) {
    const auto row = parse(line);
    EXPECT_EQ(row.status().code(), StatusCode::kInvalidArgument) << line;
    return row.status().message();
  }
  ModelText text_;
  RowContext context_ = context_of(text_);
};

TEST_F(SampleRowsTest, ARowOfTokensTakesDefaultsAndTheModelsEndOfReply) {
  const auto row = parse(R"({"tokens":[5,6]})");
  ASSERT_TRUE(row.ok()) << row.status().to_string();
  EXPECT_EQ(row->request.prompt, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(row->request.place, 2);
  EXPECT_EQ(row->where, "in.jsonl:3");
  EXPECT_EQ(row->request.params.temperature, 1.0f);
  EXPECT_EQ(row->request.params.stop_tokens, (std::vector<int32_t>{2}));
  EXPECT_FALSE(row->request.params.seed.has_value());
}

TEST_F(SampleRowsTest, ARowsOwnFieldsWin) {
  const auto row = parse(
      R"({"tokens":[5],"max_tokens":7,"temperature":0,"top_k":3,"top_p":0.9,"min_p":0.1,"seed":12,)"
      R"("n":4,"stop":"END","stop_tokens":[9],"ignore_eos":true,"top_logprobs":2,)"
      R"("repetition_penalty":1.1,"presence_penalty":-0.5,"frequency_penalty":0.25,)"
      R"("prompt_logprobs":true,"id":"q1","answer":42})");
  ASSERT_TRUE(row.ok()) << row.status().to_string();
  const SamplingParams& params = row->request.params;
  EXPECT_EQ(params.max_tokens, 7);
  EXPECT_EQ(params.temperature, 0.0f);
  EXPECT_EQ(params.top_k, 3);
  EXPECT_EQ(params.top_p, 0.9f);
  EXPECT_EQ(params.min_p, 0.1f);
  EXPECT_EQ(params.repetition_penalty, 1.1f);
  EXPECT_EQ(params.presence_penalty, -0.5f);
  EXPECT_EQ(params.frequency_penalty, 0.25f);
  EXPECT_EQ(params.seed, 12u);
  EXPECT_EQ(params.n, 4);
  EXPECT_EQ(params.stop, (std::vector<std::string>{"END"}));
  EXPECT_EQ(params.stop_tokens, (std::vector<int32_t>{9}));
  EXPECT_EQ(params.top_logprobs, 2);
  EXPECT_TRUE(params.prompt_logprobs);
  EXPECT_EQ(row->id, Json("q1"));
}

TEST_F(SampleRowsTest, BadRowsAreRefusedWithFileLineAndField) {
  EXPECT_EQ(refusal(R"({"max_tokens":5})"),
            "in.jsonl:3: expected one of \"prompt\", \"messages\" and \"tokens\", got none");
  EXPECT_EQ(refusal(R"({"tokens":[1],"prompt":"x"})"),
            "in.jsonl:3: expected one of \"prompt\", \"messages\" and \"tokens\", got several");
  EXPECT_EQ(refusal(R"({"tokens":[1],"top_p":1.5})"),
            "in.jsonl:3: top_p: expected a number above 0 and at most 1, got 1.5");
  EXPECT_EQ(refusal(R"({"tokens":[1],"seed":-4})"),
            "in.jsonl:3: seed: expected an integer from 0 to 18446744073709551615, got -4");
  EXPECT_EQ(refusal(R"({"tokens":[1,-1]})"),
            "in.jsonl:3: tokens: token 1 is -1, expected a token number");
  EXPECT_EQ(refusal(R"({"tokens":[1],"n":5000000000})"),
            "in.jsonl:3: n: expected an integer of 32 bits, got 5000000000");
  EXPECT_NE(refusal(R"({"tokens":[1],"temperature":"hot"})").find("in.jsonl:3: temperature: "),
            std::string::npos);
  EXPECT_NE(refusal(R"({"tokens":)").find("in.jsonl:3"), std::string::npos);
  EXPECT_NE(refusal(R"([1])").find("in.jsonl:3"), std::string::npos);
}

TEST_F(SampleRowsTest, AMistypedFieldIsRefusedWithTheNearestNameAndMetadataIsNot) {
  EXPECT_EQ(refusal(R"({"tokens":[1],"temprature":1})"),
            "in.jsonl:3: temprature: no such field, did you mean \"temperature\"?");
  EXPECT_EQ(refusal(R"({"tokens":[1],"maxtokens":1})"),
            "in.jsonl:3: maxtokens: no such field, did you mean \"max_tokens\"?");
  EXPECT_TRUE(parse(R"({"tokens":[1],"topic":"a","answer":1,"k":2,"no":3})").ok());
}

TEST_F(SampleRowsTest, OtherEnginesNamesOfSettingsAreRefused) {
  EXPECT_EQ(refusal(R"({"tokens":[1],"max_new_tokens":4})"),
            "in.jsonl:3: max_new_tokens: no such field, it is called \"max_tokens\"");
  EXPECT_EQ(refusal(R"({"tokens":[1],"logit_bias":{"3":1}})"),
            "in.jsonl:3: logit_bias: is not supported");
  EXPECT_EQ(refusal(R"({"tokens":[1],"repeat_penalty":1.1})"),
            "in.jsonl:3: repeat_penalty: no such field, it is called \"repetition_penalty\"");
}

TEST_F(SampleRowsTest, EverySeedThatIsWrittenReadsBack) {
  const auto row = parse(R"({"tokens":[1],"seed":18446744073709551615})");
  ASSERT_TRUE(row.ok()) << row.status().to_string();
  EXPECT_EQ(row->request.params.seed, 18446744073709551615u);
}

TEST_F(SampleRowsTest, TextNeedsATokenizerAndMessagesATemplate) {
  EXPECT_EQ(refusal(R"({"prompt":"x"})"),
            "in.jsonl:3: prompt: the model has no tokenizer; give \"tokens\"");
  EXPECT_EQ(refusal(R"({"messages":[]})"),
            "in.jsonl:3: messages: the model has no tokenizer; give \"tokens\"");
}

TEST_F(SampleRowsTest, ALineOfResultsReadsBackToTheSameFloats) {
  SampleRow row;
  row.id = Json(7);
  row.request.prompt = {1, 2};
  row.request.params.top_p = 0.9f;
  row.request.params.top_logprobs = 1;
  row.request.params.prompt_logprobs = true;
  row.request.place = 4;
  SampleResult result;
  result.tokens = {3};
  result.logprobs = {-0.1f};
  result.raw_logprobs = {-1.17549435e-38f};
  result.kept = {12};
  result.top_logprobs = {{{9, -2.5f}}};
  result.prompt_logprobs = {std::nanf(""), -3.14159274f};
  result.text = "caf\u00e9\n";
  result.stop_reason = StopReason::kStopToken;
  result.seed = (uint64_t{1} << 53) - 1;
  EXPECT_EQ(format_sample(row, 1, result),
            "{\"id\":7,\"row\":4,\"sample\":1,\"prompt_tokens\":[1,2],\"tokens\":[3],"
            "\"text\":\"caf\u00e9\\n\",\"logprobs\":[-0.1],\"raw_logprobs\":[-1.1754944e-38],"
            "\"kept\":[12],\"top_logprobs\":[[[9,-2.5]]],\"prompt_logprobs\":[null,-3.1415927],"
            "\"stop_reason\":\"stop_token\",\"seed\":9007199254740991}");
  float back = 0.0f;
  const std::string digits = "-1.1754944e-38";
  std::from_chars(digits.data(), digits.data() + digits.size(), back);
  EXPECT_EQ(back, -1.17549435e-38f);
}

TEST_F(SampleRowsTest, AKeptLineMustBeOfTheSameRequest) {
  const auto row = parse(R"({"tokens":[5,6],"seed":3})");
  ASSERT_TRUE(row.ok());
  SampleResult result;
  result.seed = 3;
  const std::string line = format_sample(*row, 0, result);
  EXPECT_TRUE(check_kept_sample(line, "out:1", *row, 0, 3).ok());
  EXPECT_EQ(
      check_kept_sample(line, "out:1", *row, 1, 3).message(),
      "out:1: sample: differs from what row 2 of the input gives now; remove the file to start "
      "again");
  EXPECT_FALSE(check_kept_sample(line, "out:1", *row, 0, 4).ok());
  SampleRow other = *row;
  other.request.prompt = {5};
  EXPECT_FALSE(check_kept_sample(line, "out:1", other, 0, 3).ok());
  EXPECT_FALSE(check_kept_sample("{", "out:1", *row, 0, 3).ok());
}

TEST_F(SampleRowsTest, ScoresHaveTheLengthOfTheTokensAndBeginWithNull) {
  const auto row = parse_tokens_row(R"({"tokens":[5,6],"text":"ignored"})", "in.jsonl:1", -1);
  ASSERT_TRUE(row.ok());
  EXPECT_EQ(format_scores(*row, {std::nanf(""), -0.25f}),
            R"({"tokens":[5,6],"logprobs":[null,-0.25]})");
  EXPECT_EQ(parse_tokens_row(R"({"token":[5]})", "in.jsonl:1", -1).status().message(),
            "in.jsonl:1: tokens: is missing, expected an array of integers");
}

}  // namespace
}  // namespace mainspring::cli
