#include "mainspring/io/checksum.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

TEST(Checksum, IsXxh3OfTheBytes) {
  // Printed by `xxh128sum` 0.8.1 of an empty file: the published value of XXH3-128 of nothing.
  EXPECT_EQ(checksum128("", 0).hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Checksum, OfPiecesIsThatOfTheWhole) {
  std::string bytes;
  for (int i = 0; i < 10'000; ++i) bytes += static_cast<char>(i * 31);
  for (const size_t piece : {1u, 7u, 240u, 1024u, 9999u}) {
    Checksum128 sum;
    for (size_t at = 0; at < bytes.size(); at += piece)
      sum.update(bytes.data() + at, std::min(piece, bytes.size() - at));
    EXPECT_EQ(sum.digest(), checksum128(bytes.data(), bytes.size()));
  }
}

TEST(Checksum, ReadsBackFromHex) {
  const Digest128 digest = checksum128("abc", 3);
  EXPECT_EQ(Digest128::parse(digest.hex()).value(), digest);
  EXPECT_FALSE(Digest128::parse("123").ok());
  EXPECT_FALSE(Digest128::parse(std::string(32, 'g')).ok());
}

}  // namespace
}  // namespace mainspring
