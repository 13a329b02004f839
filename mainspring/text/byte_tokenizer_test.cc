#include "mainspring/text/byte_tokenizer.h"

#include <gtest/gtest.h>

#include "mainspring/text/tokenizer.h"

namespace mainspring {
namespace {

TEST(ByteTokenizer, IdsAreTheBytes) {
  const auto tokenizer =
      Tokenizer::from_json(byte_tokenizer_json(), {.eos = kByteEndOfText}).value();
  EXPECT_EQ(tokenizer->vocab_size(), 257);
  EXPECT_EQ(tokenizer->eos_token(), 256);
  std::string text = "A b\n\x7f\t";
  text.push_back('\0');
  text += "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";  // e acute, euro, a smiley
  const auto tokens = tokenizer->encode(text).value();
  ASSERT_EQ(tokens.size(), text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_EQ(tokens[i], static_cast<int32_t>(static_cast<unsigned char>(text[i]))) << i;
  }
  EXPECT_EQ(tokenizer->decode(tokens).value(), text);
}

TEST(ByteTokenizer, TheEndOfTextIsSpecial) {
  const auto tokenizer =
      Tokenizer::from_json(byte_tokenizer_json(), {.eos = kByteEndOfText}).value();
  EXPECT_TRUE(tokenizer->is_special(256));
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>").value(), (std::vector<int32_t>{'a', 256}));
  EXPECT_EQ(tokenizer->decode({'a', 256}, true).value(), "a");
  EXPECT_EQ(tokenizer->decoder_kind(), DecoderKind::kBytes);
}

}  // namespace
}  // namespace mainspring
