// Preference rows: a prompt with two answers, from the line to two datums of one group.
#include <gtest/gtest.h>

#include <fstream>

#include "mainspring/data/data_loader.h"
#include "mainspring/data/row_parser.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/text/chat_template.h"
#include "mainspring/text/test_tokenizers.h"
#include "mainspring/text/tokenizer.h"

namespace mainspring {
namespace {

std::shared_ptr<const RowEncoder> pair_encoder(int64_t max_tokens = 0) {
  return std::make_shared<const RowEncoder>(
      Tokenizer::from_gguf(byte_level_tokenizer()).value(),
      ChatTemplate::compile(
          "{% for m in messages %}<|start|>{{ m.role }}:{{ m.content }}<|end|>\n"
          "{% endfor %}{% if add_generation_prompt %}<|start|>assistant:{% endif %}")
          .value(),
      RowEncoderOptions{.format = RowFormat::kPreference, .max_tokens = max_tokens});
}

std::string error_of_pair(const std::string& line) {
  const auto pair = parse_pair(line, "p.jsonl:2");
  if (pair.ok()) return "ok";
  EXPECT_EQ(pair.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pair.status().message().rfind("p.jsonl:2: ", 0), 0u) << pair.status().message();
  return pair.status().message().substr(11);
}

std::string learned_text(const RowEncoder& encoder, const std::vector<int32_t>& tokens,
                         const std::vector<uint8_t>& mask) {
  std::string text;
  const auto pieces = encoder.pieces(tokens);
  for (size_t t = 0; t < pieces.size(); ++t) text += mask[t] != 0 ? pieces[t] : "";
  return text;
}

TEST(PairRow, OfStringsAndMessagesOnlyTheAnswersAreLearned) {
  const auto encoder = pair_encoder();
  for (
      const char* line :
      {R"({"prompt":"2+2=","chosen":"4","rejected":"five"})",
       R"({"prompt":[{"role":"user","content":"2+2"}],"chosen":[{"role":"assistant","content":"4"}],)"
       R"("rejected":[{"role":"assistant","content":"five"}]})",
       R"({"chosen":[{"role":"user","content":"2+2"},{"role":"assistant","content":"4"}],)"
       R"("rejected":[{"role":"user","content":"2+2"},{"role":"assistant","content":"five"}]})"}) {
    SCOPED_TRACE(line);
    const auto row = encoder->encode(line, "w");
    ASSERT_TRUE(row.ok()) << row.status().to_string();
    EXPECT_TRUE(row->is_pair());
    EXPECT_EQ(learned_text(*encoder, row->tokens, row->mask), "4<|end|>");
    EXPECT_EQ(learned_text(*encoder, row->rejected, row->rejected_mask), "five<|end|>");
  }
}

TEST(PairRow, OfTokenNumbersNothingIsAdded) {
  const auto row = pair_encoder()->encode(R"({"prompt":[5,6],"chosen":[7],"rejected":[8,9]})", "w");
  ASSERT_TRUE(row.ok()) << row.status().to_string();
  EXPECT_EQ(row->tokens, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(row->mask, (std::vector<uint8_t>{0, 0, 1}));
  EXPECT_EQ(row->rejected, (std::vector<int32_t>{5, 6, 8, 9}));
}

TEST(PairRow, ErrorsNameTheField) {
  EXPECT_EQ(error_of_pair(R"({"prompt":"a","chosen":"b"})"),
            "rejected: is missing; expected a string or a list of messages");
  EXPECT_EQ(error_of_pair(R"({"prompt":"a","chosen":"b","rejected":[]})"),
            "rejected: expected a string, as prompt is, got an array");
  EXPECT_EQ(error_of_pair(R"({"chosen":"a","rejected":"b"})"),
            "prompt: is missing; only chosen and rejected that are lists of messages go without "
            "it");
  EXPECT_EQ(error_of_pair(R"({"chosen":[{"role":"user","content":"a"}],)"
                          R"("rejected":[{"role":"user","content":"b"}]})"),
            "prompt: is missing, and chosen and rejected begin with no message in common that "
            "could be it");
  EXPECT_EQ(error_of_pair(R"({"prompt":[1],"chosen":[2],"rejected":["x"]})"),
            "rejected[0]: expected an integer, got a string");
  EXPECT_EQ(error_of_pair(R"({"text":"a"})").substr(0, 7), "prompt:");
}

TEST(PairRow, BothAnswersMustFitAndHaveSomethingToLearn) {
  const auto encoder = pair_encoder(4);
  const auto use = [&](const char* line) {
    return encoder->use_of(encoder->encode(line, "w").value());
  };
  EXPECT_EQ(use(R"({"prompt":[1,2],"chosen":[3],"rejected":[4,5]})"), RowUse::kUsed);
  EXPECT_EQ(use(R"({"prompt":[1,2],"chosen":[3],"rejected":[4,5,6]})"), RowUse::kTooLong);
  EXPECT_EQ(use(R"({"prompt":[1,2],"chosen":[3],"rejected":[]})"), RowUse::kEmptyMask);
}

TEST(PairRow, ASampleIsAGroupOfTwoDatums) {
  const TestDir dir;
  std::ofstream file(dir.file("pairs.jsonl"));
  for (int i = 0; i < 9; ++i) {
    file << "{\"prompt\":[" << i << ",1],\"chosen\":[" << i + 10 << "],\"rejected\":[" << i + 20
         << ",3]}\n";
  }
  file.close();
  DataOptions options;
  options.seed = 4;
  options.held_out_fraction = 0.3;
  options.sources.push_back({"", {dir.file("pairs.jsonl")}, 0.0});
  const auto loader = DataLoader::open(options, pair_encoder()).value();
  const auto datums = loader->next(3).value();
  ASSERT_EQ(datums.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(datums[i].group, static_cast<int64_t>(i / 2));
    EXPECT_EQ(datums[i].sample_index, i / 2);
    EXPECT_EQ(datums[i].role, i % 2 == 0 ? kChosen : kRejected);
    EXPECT_EQ(datums[i].tokens[0], datums[i - i % 2].tokens[0]) << "one prompt";
  }
  EXPECT_EQ(loader->state().next_sample, 3u);
  const auto held_out = loader->held_out(2).value();
  ASSERT_EQ(held_out.datums.size(), 4u);
  EXPECT_EQ(held_out.datums[3].group, 1);
}

}  // namespace
}  // namespace mainspring
