#include "mainspring/batch/packer.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

Datum make_datum(std::vector<int32_t> tokens, std::vector<uint8_t> mask) {
  return make_next_token_datum(tokens, mask);
}

TEST(Packer, StartsEverySequenceOnAnEvenRow) {
  const Datum a = make_datum({1, 2, 3, 4}, {0, 1, 1, 1});  // 3 tokens
  const Datum b = make_datum({5, 6, 7}, {0, 1, 1});        // 2 tokens
  const std::vector<PackItem> items{{&a, -1}, {&b, 0}};
  const Batch batch = pack(items);
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{1, 2, 3, 0, 5, 6}));
  ASSERT_EQ(batch.segments.size(), 2u);
  EXPECT_EQ(batch.segments[1].row_begin, 4);
  EXPECT_EQ(batch.segments[1].adapter_slot, 0);
}

TEST(Packer, PicksOnlyWeightedRowsAndCompletesOddCounts) {
  const Datum a = make_datum({1, 2, 3, 4}, {0, 1, 1, 1});
  const Datum b = make_datum({5, 6, 7}, {0, 0, 1});
  const std::vector<PackItem> items{{&a, -1}, {&b, -1}};
  const Batch batch = pack(items);
  EXPECT_EQ(batch.picked, (std::vector<int32_t>{0, 1, 2, -1, 5, -1}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{2, 3, 4, 0, 7, 0}));
  EXPECT_EQ(batch.pick_segments[1].row_begin, 4);
  EXPECT_EQ(batch.origins[4].item, 1);
  EXPECT_EQ(batch.origins[4].position, 1);
}

TEST(Packer, CutsPicksOfLongSequencesAtTheFold) {
  std::vector<int32_t> tokens(2048 + 4, 1);
  const Datum a = make_datum(tokens, std::vector<uint8_t>(tokens.size(), 1));  // 2,051 tokens
  const std::vector<PackItem> items{{&a, -1}};
  const Batch batch = pack(items);
  ASSERT_EQ(batch.pick_segments.size(), 2u);
  EXPECT_EQ(batch.pick_segments[0].num_rows, 2048);
  EXPECT_EQ(batch.pick_segments[1].position, 2048);
  EXPECT_EQ(batch.pick_segments[1].num_rows, 3);
}

TEST(Packer, SplitsBetweenSequencesOnly) {
  const Datum a = make_datum({1, 2, 3, 4, 5, 6}, {0, 1, 1, 1, 1, 1});  // 5 tokens, 6 rows
  const std::vector<PackItem> items{{&a, -1}, {&a, -1}, {&a, -1}};
  EXPECT_EQ(split_into_micro_batches(items, 12), (std::vector<size_t>{2, 1}));
  EXPECT_EQ(split_into_micro_batches(items, 4), (std::vector<size_t>{1, 1, 1}));
  EXPECT_TRUE(split_into_micro_batches({}, 4).empty());
}

TEST(Packer, CandidatesStandBehindTheTargetWhichStandsForThoseMissing) {
  Datum a = make_datum({1, 2, 3, 4}, {0, 1, 0, 1});  // picks 0 and 2
  a.candidates = {7, -1, 8, 8, 9, 6};
  Datum b = make_datum({5, 6}, {0, 1});
  b.candidates = {3};
  const std::vector<PackItem> items{{&a, -1}, {&b, -1}};
  EXPECT_EQ(pack_candidates(pack(items), items, 2),
            (std::vector<int32_t>{2, 7, 2, 4, 9, 6, 6, 3, 6, 0, 0, 0}));
}

TEST(Packer, AnEmptyDatumTakesNoRow) {
  const Datum none;
  const std::vector<PackItem> items{{&none, -1}};
  EXPECT_EQ(pack(items).tokens.size(), 0u);
}

}  // namespace
}  // namespace mainspring
