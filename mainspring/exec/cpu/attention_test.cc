#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mainspring/exec/cpu/rows_test_util.h"

namespace mainspring::cpu {
namespace {

struct Outputs {
  Values o;
  std::vector<float> lse;
  friend bool operator==(const Outputs&, const Outputs&) = default;
};

/// q, k, v of packed sequences.
struct Case {
  AttentionShape shape;
  DType dtype = DType::kBF16;
  Values q, k, v;
  int64_t rows = 0;
};

Case make_case(DType dtype, const AttentionShape& shape, int64_t rows, uint64_t seed) {
  Case c{shape, dtype, {}, {}, {}, rows};
  c.q = Values::random(dtype, rows * shape.query_heads * shape.width, seed, 2.0f);
  c.k = Values::random(dtype, rows * shape.kv_heads * shape.width, seed + 1, 2.0f);
  c.v = Values::random(dtype, rows * shape.kv_heads * shape.width, seed + 2, 1.0f);
  return c;
}

AttentionShape shape_of(int64_t heads, int64_t kv_heads, int64_t width, int64_t window = 0) {
  return {heads, kv_heads, width, 1.0f / std::sqrt(static_cast<float>(width)), window};
}

Outputs forward(Isa isa, int threads, const Case& c, const RowTable& table,
                const KvView* kv = nullptr, int64_t first_row = 0) {
  ThreadPool pool(threads);
  const Context context = make_context(isa, pool, c.dtype);
  const int64_t rows = table.num_rows;
  Outputs out{Values(c.dtype, rows * c.shape.query_heads * c.shape.width),
              std::vector<float>(static_cast<size_t>(rows * c.shape.query_heads), -1.0f)};
  std::vector<char> scratch = scratch_of(attention_forward_scratch_bytes(context, c.shape, rows));
  const int64_t kv_row = first_row * c.shape.kv_heads * c.shape.width;
  attention_forward(context, c.shape, rows, c.q.at(first_row * c.shape.query_heads * c.shape.width),
                    c.k.at(kv_row), c.v.at(kv_row), out.o.data(), out.lse.data(), table, kv, 0,
                    aligned(scratch));
  return out;
}

/// Attention of one row in f64 on the same values.
void reference_row(const Case& c, int64_t first, int64_t row, int64_t head, std::vector<double>& o,
                   double& lse) {
  const int64_t width = c.shape.width;
  const int64_t kv_head = head / (c.shape.query_heads / c.shape.kv_heads);
  const int64_t low = c.shape.window > 0 ? std::max(first, row - c.shape.window + 1) : first;
  std::vector<double> scores;
  double top = -1e300;
  for (int64_t key = low; key <= row; ++key) {
    double s = 0.0;
    for (int64_t i = 0; i < width; ++i) {
      s += c.q.get((row * c.shape.query_heads + head) * width + i) *
           c.k.get((key * c.shape.kv_heads + kv_head) * width + i);
    }
    scores.push_back(s * c.shape.scale);
    top = std::max(top, scores.back());
  }
  double total = 0.0;
  o.assign(static_cast<size_t>(width), 0.0);
  for (int64_t key = low; key <= row; ++key) {
    const double p = std::exp(scores[static_cast<size_t>(key - low)] - top);
    total += p;
    for (int64_t i = 0; i < width; ++i) {
      o[static_cast<size_t>(i)] += p * c.v.get((key * c.shape.kv_heads + kv_head) * width + i);
    }
  }
  for (double& value : o) value /= total;
  lse = top + std::log(total);
}

void expect_near_reference(const Case& c, const RowTable& table, const Outputs& out) {
  // Probabilities and outputs are rounded once each, |v| <= 1; f32 sums of up to 2,200 terms add
  // 2^-24 each.
  const double tolerance = 2.0 * unit_roundoff(c.dtype) + 64 * 0x1p-24;
  std::vector<double> o;
  double lse = 0.0;
  for (const Segment& segment : table.segments) {
    const int64_t step = std::max(1, segment.num_rows / 7);
    for (int64_t i = 0; i < segment.num_rows; i += step) {
      const int64_t row = segment.row_begin + i;
      for (int64_t head = 0; head < c.shape.query_heads; ++head) {
        reference_row(c, segment.row_begin, row, head, o, lse);
        const int64_t at = row * c.shape.query_heads + head;
        EXPECT_NEAR(out.lse[static_cast<size_t>(at)], lse, 32 * 0x1p-24 * (1.0 + std::fabs(lse)));
        for (int64_t j = 0; j < c.shape.width; ++j) {
          ASSERT_NEAR(out.o.get(at * c.shape.width + j), o[static_cast<size_t>(j)], tolerance)
              << "row " << row << " head " << head << " column " << j;
        }
      }
    }
  }
}

const std::vector<AttentionShape>& shapes() {
  static const std::vector<AttentionShape> list = {shape_of(1, 1, 8),   shape_of(3, 1, 16),
                                                   shape_of(6, 2, 64),  shape_of(2, 2, 80),
                                                   shape_of(3, 1, 128), shape_of(4, 2, 64, 37)};
  return list;
}

TEST(AttentionTest, AgreesWithF64AndAcrossPathsAndThreads) {
  const PackedTable packed({1, 5, 64, 131, 0, 66});
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const AttentionShape& shape : shapes()) {
      const Case c = make_case(dtype, shape, packed.table.num_rows, 7);
      const Outputs scalar = forward(Isa::kScalar, 1, c, packed.table);
      expect_near_reference(c, packed.table, scalar);
      for (const Isa isa : test_paths()) {
        EXPECT_EQ(forward(isa, 1, c, packed.table), scalar)
            << isa_name(isa) << " c=" << shape.width;
        EXPECT_EQ(forward(isa, 2, c, packed.table), scalar)
            << isa_name(isa) << " c=" << shape.width;
      }
    }
  }
}

TEST(AttentionTest, PaddingRowsAreZeros) {
  const PackedTable packed({3, 2});
  const Case c = make_case(DType::kBF16, shape_of(2, 1, 16), packed.table.num_rows, 3);
  const Outputs out = forward(test_paths().back(), 1, c, packed.table);
  for (int64_t i = 0; i < 2 * 16; ++i) EXPECT_EQ(out.o.get(3 * 2 * 16 + i), 0.0);
  EXPECT_EQ(out.lse[6], 0.0f);
  EXPECT_EQ(out.lse[7], 0.0f);
}

TEST(AttentionTest, PackedEqualsAlone) {
  const PackedTable packed({33, 7, 150});
  const Case c = make_case(DType::kBF16, shape_of(3, 1, 64), packed.table.num_rows, 11);
  const Isa isa = test_paths().back();
  const Outputs together = forward(isa, 2, c, packed.table);
  const int64_t row_values = 3 * 64;
  for (const Segment& segment : packed.segments) {
    const PackedTable one({segment.num_rows});
    const Outputs alone = forward(isa, 2, c, one.table, nullptr, segment.row_begin);
    EXPECT_EQ(std::memcmp(alone.o.data(), together.o.at(segment.row_begin * row_values),
                          static_cast<size_t>(segment.num_rows * row_values) * 2),
              0);
  }
}

/// Pages in a shuffled order, filled with NaN so that a read of an unwritten slot shows.
class Cache {
 public:
  Cache(const Case& c, int64_t positions) : row_(kv_row_elements(c.shape.kv_heads, c.shape.width)) {
    const int64_t num_pages = (positions + kPageTokens - 1) / kPageTokens;
    for (int64_t i = 0; i < num_pages; ++i) {
      pages_.push_back(static_cast<int32_t>((i * 7 + 3) % num_pages));
    }
    if (num_pages % 7 == 0) {
      for (int64_t i = 0; i < num_pages; ++i)
        pages_[static_cast<size_t>(i)] = static_cast<int32_t>(i);
    }
    keys_ = Values(c.dtype, num_pages * kPageTokens * row_);
    values_ = Values(c.dtype, num_pages * kPageTokens * row_);
    for (int64_t i = 0; i < keys_.size(); ++i) {
      keys_.set(i, std::nanf(""));
      values_.set(i, std::nanf(""));
    }
    key_pointer_ = keys_.data();
    value_pointer_ = values_.data();
    sequence_.pages = pages_;
    view_.keys = {&key_pointer_, 1};
    view_.values = {&value_pointer_, 1};
    view_.row_elements = row_;
    view_.sequences = {&sequence_, 1};
  }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  const KvView* view() const { return &view_; }

 private:
  int64_t row_;
  std::vector<int32_t> pages_;
  Values keys_, values_;
  void* key_pointer_;
  void* value_pointer_;
  KvSequence sequence_;
  KvView view_;
};

/// Runs one sequence through pages in chunks of the given sizes (repeated) and joins the outputs.
Outputs chunked(Isa isa, const Case& c, int64_t length, const std::vector<int32_t>& sizes) {
  const Cache cache(c, length);
  const int64_t row_values = c.shape.query_heads * c.shape.width;
  Outputs all{Values(c.dtype, length * row_values), {}};
  int64_t done = 0;
  for (size_t i = 0; done < length; ++i) {
    Segment segment;
    segment.num_rows =
        static_cast<int32_t>(std::min<int64_t>(sizes[i % sizes.size()], length - done));
    segment.position = static_cast<int32_t>(done);
    segment.cache_sequence = 0;
    RowTable table;
    table.num_rows = segment.num_rows;
    table.segments = {&segment, 1};
    const Outputs part = forward(isa, 2, c, table, cache.view(), done);
    for (int64_t j = 0; j < segment.num_rows * row_values; ++j) {
      all.o.set(done * row_values + j, static_cast<float>(part.o.get(j)));
    }
    all.lse.insert(all.lse.end(), part.lse.begin(), part.lse.end());
    done += segment.num_rows;
  }
  return all;
}

TEST(AttentionTest, DecodeAndChunkedPrefillThroughPagesEqualTraining) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const AttentionShape& shape : {shape_of(3, 1, 64), shape_of(2, 2, 16, 50)}) {
      const PackedTable packed({200});
      const Case c = make_case(dtype, shape, 200, 5);
      const Outputs whole = forward(Isa::kScalar, 1, c, packed.table);
      for (const Isa isa : test_paths()) {
        EXPECT_EQ(chunked(isa, c, 200, {1}), whole) << isa_name(isa);
        EXPECT_EQ(chunked(isa, c, 200, {17, 64, 3}), whole) << isa_name(isa);
        EXPECT_EQ(chunked(isa, c, 200, {200}), whole) << isa_name(isa);
      }
    }
  }
}

TEST(AttentionTest, SegmentsOf2048KeysMergeTheSameWayInEveryChunking) {
  const int64_t length = 3 * 2048 + 100;  // the tree of four partials, the last one short
  const PackedTable packed({static_cast<int32_t>(length)});
  for (const AttentionShape& shape : {shape_of(1, 1, 8), shape_of(1, 1, 8, 2500)}) {
    const Case c = make_case(DType::kBF16, shape, length, 23);
    const Isa isa = test_paths().back();
    const Outputs whole = forward(isa, 2, c, packed.table);
    expect_near_reference(c, packed.table, whole);
    EXPECT_EQ(chunked(isa, c, length, {2047, 1, 1000, 333}), whole);
  }
  const Case c = make_case(DType::kBF16, shape_of(1, 1, 8), 2200, 23);
  const PackedTable shorter({2200});
  EXPECT_EQ(forward(Isa::kScalar, 1, c, shorter.table),
            forward(test_paths().back(), 1, c, shorter.table));
}

}  // namespace
}  // namespace mainspring::cpu
