#include "mainspring/text/tokenizer_to_gguf.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "mainspring/io/mapped_file.h"
#include "mainspring/text/test_tokenizers.h"

namespace mainspring {
namespace {

std::shared_ptr<const Tokenizer> tiny(const std::string& name, SpecialTokens special = {}) {
  const char* root = std::getenv("MS_SOURCE_DIR");
  const std::string path = std::string(root) + "/tests/golden/tiny/" + name + "/tokenizer.json";
  return Tokenizer::from_json(read_text_file(path).value(), std::move(special)).value();
}

TEST(TokenizerToGguf, FieldsComeBackAsTheyWere) {
  const GgufTokenizer fields = byte_level_tokenizer();
  const auto tokenizer = Tokenizer::from_gguf(fields).value();
  const GgufTokenizer back = gguf_tokenizer_of(*tokenizer, 260).value();
  EXPECT_EQ(back.model, "gpt2");
  EXPECT_EQ(back.pre, "smollm");
  EXPECT_EQ(back.tokens, fields.tokens);
  EXPECT_EQ(back.token_types, fields.token_types);
  EXPECT_EQ(back.merges, fields.merges);
  EXPECT_EQ(back.eos_token, 257);
  EXPECT_EQ(back.bos_token, -1);
  EXPECT_FALSE(back.add_bos_token);
}

TEST(TokenizerToGguf, RowsWithoutATokenArePlaceholders) {
  const auto tokenizer = Tokenizer::from_gguf(byte_level_tokenizer()).value();
  const GgufTokenizer fields = gguf_tokenizer_of(*tokenizer, 262).value();
  EXPECT_EQ(fields.tokens[260], "[PAD260]");
  EXPECT_EQ(fields.token_types[261], 5);
  EXPECT_EQ(gguf_tokenizer_of(*tokenizer, 100).status().code(), StatusCode::kInvalidArgument);
}

TEST(TokenizerToGguf, NamesTheFamilyOfAJsonFile) {
  EXPECT_EQ(gguf_tokenizer_of(*tiny("llama_tied"), 320).value().pre, "gpt-2");
  EXPECT_EQ(gguf_tokenizer_of(*tiny("qwen2"), 320).value().pre, "qwen2");
}

TEST(TokenizerToGguf, SaysWhatStandsAroundAText) {
  GgufTokenizer fields = byte_level_tokenizer();
  fields.pre = "llama-bpe";
  fields.bos_token = 258;
  fields.add_bos_token = true;
  const auto tokenizer = Tokenizer::from_gguf(fields).value();
  const GgufTokenizer back = gguf_tokenizer_of(*tokenizer, 260).value();
  EXPECT_EQ(back.pre, "llama-bpe");
  EXPECT_TRUE(back.add_bos_token);
  EXPECT_FALSE(back.add_eos_token);
}

TEST(TokenizerToGguf, PiecesGetScoresInTheOrderOfTheirMerges) {
  const auto tokenizer = Tokenizer::from_gguf(piece_tokenizer()).value();
  const GgufTokenizer fields = gguf_tokenizer_of(*tokenizer, 263).value();
  EXPECT_EQ(fields.model, "llama");
  EXPECT_TRUE(fields.merges.empty());
  EXPECT_EQ(fields.token_types, piece_tokenizer().token_types);
  EXPECT_GT(fields.scores[262], fields.scores[260]);  // the merged piece before its letter
  EXPECT_TRUE(fields.add_bos_token);
  EXPECT_EQ(fields.unknown_token, 0);
  EXPECT_TRUE(fields.add_space_prefix);
}

// Splits as gpt-2 but takes whole words without their merges: no name in a GGUF file means that.
TEST(TokenizerToGguf, AFamilyWithoutANameIsRefused) {
  const auto refused =
      gguf_tokenizer_of(*tiny("llama_rope_llama3", {.bos = "<|begin_of_text|>"}), 320);
  EXPECT_EQ(refused.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(refused.status().message().find("pre-tokenizer other than"), std::string::npos);
}

}  // namespace
}  // namespace mainspring
