#include "mainspring/io/decompress.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "mainspring/io/fuzz_util.h"
#include "mainspring/io/test_compress.h"

namespace mainspring {
namespace {

std::string text_of(size_t size) {
  std::string text;
  for (size_t i = 0; text.size() < size; ++i) text += "{\"row\": " + std::to_string(i * i) + "}\n";
  text.resize(size);
  return text;
}

/// All of `compressed`, pushed in pieces of `piece` bytes; `plain` gets what came out.
Status decompress(Compression kind, const std::string& compressed, size_t piece,
                  std::string& plain) {
  const auto stream = Decompressor::create(kind, "f.jsonl");
  plain.clear();
  const auto use = [&](std::string_view part) -> Status {
    EXPECT_LE(part.size(), size_t{256} << 10);
    plain += part;
    return Status();
  };
  for (size_t i = 0; i < compressed.size(); i += piece) {
    MS_RETURN_IF_ERROR(stream->push(std::string_view(compressed).substr(i, piece), use));
  }
  return stream->finish();
}

std::string compress(Compression kind, const std::string& plain) {
  return kind == Compression::kGzip ? gzip_of(plain) : zstd_of(plain);
}

class Decompress : public testing::TestWithParam<Compression> {};

TEST_P(Decompress, GivesBackWhatWasCompressedHoweverItIsCut) {
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{1000}, (size_t{256} << 10), size_t{700000}}) {
    const std::string text = text_of(size);
    const std::string compressed = compress(GetParam(), text);
    ASSERT_EQ(compression_of(compressed), GetParam());
    for (const size_t piece : {size_t{1}, size_t{7}, compressed.size()}) {
      std::string plain;
      const Status status = decompress(GetParam(), compressed, piece, plain);
      ASSERT_TRUE(status.ok()) << status.to_string();
      ASSERT_TRUE(plain == text) << size << " by " << piece;
    }
  }
}

TEST_P(Decompress, MembersOneAfterAnotherAreOneStream) {
  std::string plain;
  const std::string both = compress(GetParam(), "a\n") + compress(GetParam(), "b\n");
  for (const size_t piece : {size_t{1}, both.size()}) {
    ASSERT_TRUE(decompress(GetParam(), both, piece, plain).ok());
    EXPECT_EQ(plain, "a\nb\n");
  }
}

// Zeros compress a thousandfold: what comes out of one push still comes in pieces.
TEST_P(Decompress, ManyBytesOfFewComeInPieces) {
  const std::string zeros(3'000'000, '0');
  std::string plain;
  ASSERT_TRUE(decompress(GetParam(), compress(GetParam(), zeros), 1 << 20, plain).ok());
  EXPECT_TRUE(plain == zeros);
}

TEST_P(Decompress, EveryTruncationIsDataLoss) {
  const std::string compressed = compress(GetParam(), text_of(300));
  for_each_truncation(compressed, [&](const std::string& head) {
    std::string plain;
    const Status status = decompress(GetParam(), head, 64, plain);
    ASSERT_EQ(status.code(), StatusCode::kDataLoss) << head.size();
    EXPECT_NE(status.message().find("f.jsonl: the file is cut"), std::string::npos);
  });
}

// Both formats carry a checksum.
TEST_P(Decompress, DamageIsDataLossOrGivesTheSameBytes) {
  const std::string text = text_of(2000);
  int refused = 0;
  for_each_damage(compress(GetParam(), text), 500, [&](const std::string& bytes) {
    std::string plain;
    const Status status = decompress(GetParam(), bytes, bytes.size(), plain);
    if (status.ok()) {
      EXPECT_TRUE(plain == text || bytes.size() < 20);
    } else {
      ++refused;
    }
  });
  EXPECT_GT(refused, 400);
}

TEST_P(Decompress, TheUsersErrorEndsIt) {
  const auto stream = Decompressor::create(GetParam(), "f");
  const Status status = stream->push(compress(GetParam(), "abc"),
                                     [](std::string_view) { return resource_exhausted("full"); });
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Decompress, testing::Values(Compression::kGzip, Compression::kZstd),
                         [](const auto& info) {
                           return std::string(compression_name(info.param));
                         });

TEST(DecompressTest, PlainTextIsNotCompressed) {
  for (const char* text : {"", "{", "{\"a\": 1}\n", "\x1f", "(\xb5/"}) {
    EXPECT_EQ(compression_of(text), Compression::kNone);
  }
}

TEST(DecompressTest, AHugeZstdWindowIsRefusedWithWhatToDo) {
  // Magic, frame header descriptor 0 (no single segment), window descriptor 2^31.
  const std::string frame("\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", 9);
  std::string plain;
  const Status status = decompress(Compression::kZstd, frame, 9, plain);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("without --long"), std::string::npos);
}

}  // namespace
}  // namespace mainspring
