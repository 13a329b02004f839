#include "mainspring/text/tokenizer.h"

#include <gtest/gtest.h>

#include "mainspring/io/fuzz_util.h"
#include "mainspring/text/test_tokenizers.h"

namespace mainspring {
namespace {

using Ids = std::vector<int32_t>;

std::shared_ptr<const Tokenizer> byte_level() {
  return Tokenizer::from_gguf(byte_level_tokenizer()).value();
}

TEST(TokenizerTest, MergesAndSpecialTokensOfAGgufFileApply) {
  EXPECT_EQ(byte_level()->encode("ab<|end|> <think>").value(), (Ids{256, 257, ' ', 259}));
}

TEST(TokenizerTest, SpecialTokensInTheTextCanBeTakenAsText) {
  const Ids plain = byte_level()->encode("<|end|>", {.parse_special_tokens = false}).value();
  EXPECT_EQ(plain, (Ids{'<', '|', 'e', 'n', 'd', '|', '>'}));
}

TEST(TokenizerTest, SpecialTokensAreAddedOnlyWhenAskedFor) {
  const auto tokenizer = Tokenizer::from_gguf(piece_tokenizer()).value();
  EXPECT_EQ(tokenizer->encode("b").value(), (Ids{259, 261}));
  EXPECT_EQ(tokenizer->encode("b", {.add_special_tokens = true}).value(), (Ids{1, 259, 261}));
}

TEST(TokenizerTest, APieceTokenizerWithoutASpacePrefixStartsWithBosAlone) {  // Gemma's files
  GgufTokenizer gguf = piece_tokenizer();
  gguf.add_space_prefix = false;
  const auto tokenizer = Tokenizer::from_gguf(gguf).value();
  EXPECT_EQ(tokenizer->encode("b a", {.add_special_tokens = true}).value(), (Ids{1, 261, 262}));
  EXPECT_EQ(tokenizer->decode({261, 262}).value(), "b a");
}

TEST(TokenizerTest, RangesCountBytesOfTheText) {
  const EncodedText out = byte_level()->encode_with_ranges("é ab<|end|>").value();
  EXPECT_EQ(out.tokens, (Ids{0xC3, 0xA9, ' ', 256, 257}));
  EXPECT_EQ(out.ranges[2].begin, 2U);
  EXPECT_EQ(out.ranges[3].begin, 3U);
  EXPECT_EQ(out.ranges[3].end, 5U);
  EXPECT_EQ(out.ranges[4].end, 12U);
}

TEST(TokenizerTest, ABatchEqualsItsTextsOneByOne) {
  const auto out = byte_level()->encode_batch({"ab", "", "x ab"}).value();
  EXPECT_EQ(out, (std::vector<Ids>{{256}, {}, {'x', ' ', 256}}));
}

TEST(TokenizerTest, DecodingSkipsIdsWithoutATokenAndReplacesBrokenBytes) {
  EXPECT_EQ(byte_level()->decode({256, 9999, 0xF0, 'x', 257}).value(), "ab\uFFFDx<|end|>");
  EXPECT_EQ(byte_level()->decode({256, 257}, /*skip_special_tokens=*/true).value(), "ab");
  EXPECT_EQ(byte_level()->decode({-1}).status().code(), StatusCode::kInvalidArgument);
}

TEST(TokenizerTest, TokensAreFoundBothWays) {
  const auto tokenizer = byte_level();
  EXPECT_EQ(tokenizer->token_text(257).value(), "<|end|>");
  EXPECT_EQ(tokenizer->token_text(260).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(tokenizer->find_token("<think>"), 259);
  EXPECT_EQ(tokenizer->find_token("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer->vocab_size(), 260);
  EXPECT_TRUE(tokenizer->is_special(258));
  EXPECT_FALSE(tokenizer->is_special(259));
  EXPECT_EQ(tokenizer->eos_token(), 257);
  EXPECT_EQ(tokenizer->bos_token(), std::nullopt);
}

TEST(TokenizerTest, ItsJsonGivesTheSameTokenizer) {
  const auto again =
      Tokenizer::from_json(byte_level()->to_json().value(), {.eos = "<|end|>"}).value();
  EXPECT_EQ(again->encode("ab 12<|start|>é").value(),
            byte_level()->encode("ab 12<|start|>é").value());
  EXPECT_EQ(again->eos_token(), 257);
}

TEST(TokenizerTest, BadInputIsRefusedWithItsReason) {
  EXPECT_EQ(Tokenizer::from_json("{").status().code(), StatusCode::kInvalidArgument);
  const Status unknown_special =
      Tokenizer::from_json(byte_level()->to_json().value(), {.eos = "<eos>"}).status();
  EXPECT_EQ(unknown_special.message(), "tokenizer: eos_token '<eos>' is not in the vocabulary");
  EXPECT_EQ(byte_level()->encode("\xFF").status().code(), StatusCode::kInvalidArgument);
  GgufTokenizer other = byte_level_tokenizer();
  other.pre = "bloom";
  EXPECT_EQ(Tokenizer::from_gguf(other).status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(Tokenizer::from_gguf(other).status().message().find("known: smollm"),
            std::string::npos);
}

TEST(TokenizerTest, ADamagedFileIsRefusedOrStillATokenizer) {
  int usable = 0;
  for_each_damage(byte_level()->to_json().value(), 200, [&](const std::string& damaged) {
    const auto tokenizer = Tokenizer::from_json(damaged);
    if (!tokenizer.ok()) return;
    ++usable;
    const Result<Ids> tokens = tokenizer.value()->encode("ab é 12<|end|>\n");
    EXPECT_TRUE(!tokens.ok() || tokenizer.value()->decode(tokens.value()).ok());
  });
  EXPECT_GT(usable, 0);
}

}  // namespace
}  // namespace mainspring
