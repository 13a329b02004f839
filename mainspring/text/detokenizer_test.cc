#include "mainspring/text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "mainspring/text/test_tokenizers.h"

namespace mainspring {
namespace {

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer,
                     const std::vector<int32_t>& tokens, bool skip_special = false) {
  IncrementalDetokenizer detokenizer(tokenizer, skip_special);
  std::string out;
  for (const int32_t token : tokens) {
    const std::string piece = detokenizer.push(token);
    std::string checked;
    EXPECT_EQ(append_utf8_lossy(piece, /*is_last=*/false, checked), piece.size());
    EXPECT_EQ(checked, piece) << "a piece is valid UTF-8 by itself";
    out += piece;
  }
  return out + detokenizer.finish();
}

TEST(IncrementalDetokenizerTest, ACharacterComesOutWithItsLastByte) {
  IncrementalDetokenizer detokenizer(Tokenizer::from_gguf(byte_level_tokenizer()).value());
  EXPECT_EQ(detokenizer.push(0xF0), "");
  EXPECT_EQ(detokenizer.push(0x9F), "");
  EXPECT_EQ(detokenizer.push(0x98), "");
  EXPECT_EQ(detokenizer.push(0x80), "😀");
  EXPECT_EQ(detokenizer.push(256), "ab");
  EXPECT_EQ(detokenizer.push(0xE2), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.push(0x80), "\uFFFD") << "a new stream remembers nothing";
}

TEST(IncrementalDetokenizerTest, BytePiecesWaitForTheEndOfTheirRun) {
  IncrementalDetokenizer detokenizer(Tokenizer::from_gguf(piece_tokenizer()).value());
  EXPECT_EQ(detokenizer.push(262), "a") << "the first space belongs to the tokenizer";
  EXPECT_EQ(detokenizer.push(3 + 0xC3), "");
  EXPECT_EQ(detokenizer.push(3 + 0xA9), "") << "one more byte would break the whole run";
  EXPECT_EQ(detokenizer.push(262), "é a");
  EXPECT_EQ(detokenizer.push(259), " ");
  EXPECT_EQ(detokenizer.push(3 + 0xC3), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
}

TEST(IncrementalDetokenizerTest, StreamsOfRandomTokensEqualTheirDecoding) {
  for (const GgufTokenizer& gguf : {byte_level_tokenizer(), piece_tokenizer()}) {
    const auto tokenizer = Tokenizer::from_gguf(gguf).value();
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
      std::vector<int32_t> tokens(random() % 12);
      // Half of the draws are near the end, where the tokens with more than one byte are.
      for (int32_t& token : tokens) {
        const auto size = static_cast<uint32_t>(gguf.tokens.size());
        token = static_cast<int32_t>(random() % 2 == 0 ? random() % (size + 2)
                                                       : size - 1 - random() % 8);
      }
      EXPECT_EQ(streamed(tokenizer, tokens), tokenizer->decode(tokens).value());
      EXPECT_EQ(streamed(tokenizer, tokens, true), tokenizer->decode(tokens, true).value());
    }
  }
}

TEST(Utf8LossyTest, EachBrokenPartBecomesOneReplacement) {
  const auto lossy = [](const std::string& bytes) {
    std::string out;
    EXPECT_EQ(append_utf8_lossy(bytes, /*is_last=*/true, out), bytes.size());
    return out;
  };
  EXPECT_EQ(lossy("a\xC3\xA9z"), "aéz");
  EXPECT_EQ(lossy("\xE2\x82x"), "\uFFFDx");                // an unfinished character is one part
  EXPECT_EQ(lossy("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // surrogates: no byte fits
  EXPECT_EQ(lossy("\xC0\xAF"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(lossy("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(lossy("\x80"), "\uFFFD");
}

}  // namespace
}  // namespace mainspring
