// Pieces of shared mappings: zeroed, apart, counted, and gone with their last holder.
#include "mainspring/exec/cpu/memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace mainspring::cpu {
namespace {

TEST(MemoryPool, PiecesAreZeroedAlignedApartAndCounted) {
  const auto meter = std::make_shared<MemoryMeter>();
  MemoryPool pool(meter);
  {
    std::vector<Memory> pieces;
    int64_t bytes = 0;
    for (const int64_t size : {1, 64, 100, 3 << 20, 9 << 20, 31 << 20, 4 << 20, 5000}) {
      pieces.push_back(pool.allocate(size).value());
      const Memory& piece = pieces.back();
      ASSERT_GE(piece.size_bytes(), size);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(piece.data()) % 64, 0u);
      for (int64_t i = 0; i < size; i += 61) ASSERT_EQ(piece.data()[i], std::byte{0});
      std::fill_n(piece.data(), piece.size_bytes(), std::byte{static_cast<uint8_t>(pieces.size())});
      bytes += piece.size_bytes();
    }
    EXPECT_EQ(meter->current(), bytes);
    for (size_t p = 0; p < pieces.size(); ++p) {
      EXPECT_EQ(pieces[p].data()[0], std::byte{static_cast<uint8_t>(p + 1)});
      EXPECT_EQ(pieces[p].data()[pieces[p].size_bytes() - 1],
                std::byte{static_cast<uint8_t>(p + 1)});
    }
  }
  EXPECT_EQ(meter->current(), 0);
  EXPECT_GT(meter->peak(), 0);
}

TEST(MemoryPool, APieceOutlivesItsPool) {
  Memory piece;
  {
    MemoryPool pool(std::make_shared<MemoryMeter>());
    piece = pool.allocate(100).value();
    piece.data()[0] = std::byte{7};
  }
  EXPECT_EQ(piece.data()[0], std::byte{7});
}

TEST(MemoryPool, ARefusedSizeIsNamed) {
  MemoryPool pool(std::make_shared<MemoryMeter>());
  const auto refused = pool.allocate(int64_t{1} << 60);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("MiB"), std::string::npos);
}

}  // namespace
}  // namespace mainspring::cpu
