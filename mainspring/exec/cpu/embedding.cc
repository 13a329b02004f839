// Rows of the embedding table and their gradient.
#include <algorithm>
#include <cstring>

#include "mainspring/exec/cpu/linear_gemm.h"
#include "mainspring/exec/cpu/ops.h"

namespace mainspring::cpu {

void embedding_forward(const Context& context, int64_t rows, const int32_t* tokens,
                       const WeightView& weight, void* y, const RowTable& table) {
  const int64_t row_bytes = weight.in * linear_kernels(context).element_bytes;
  constexpr int64_t kRows = 16;
  context.pool->run(ceil_div(rows, kRows), [&](int64_t task, int) {
    const int64_t begin = task * kRows;
    const int64_t count = std::min(kRows, rows - begin);
    int32_t slots[kRows];
    row_slots(&table, begin, count, slots);
    for (int64_t i = 0; i < count; ++i) {
      char* out = static_cast<char*>(y) + (begin + i) * row_bytes;
      if (slots[i] == kPaddingSlot) {
        std::memset(out, 0, static_cast<size_t>(row_bytes));
      } else {
        dequantise_row(context, weight, tokens[begin + i], out);
      }
    }
  });
}

void embedding_grad(const Context& context, int64_t /*rows*/, int64_t d, const int32_t* tokens,
                    const void* dy, float* acc, const RowTable& table) {
  const LinearKernels& kernels = linear_kernels(context);
  constexpr int64_t kColumns = 64;  // a task owns columns, so that tokens are added in order
  context.pool->run(ceil_div(d, kColumns), [&](int64_t task, int) {
    const int64_t column = task * kColumns;
    const int64_t n = std::min(kColumns, d - column);
    for (const Segment& segment : table.segments) {
      for (int64_t row = segment.row_begin; row < segment.row_begin + segment.num_rows; ++row) {
        const int64_t offset = (row * d + column) * kernels.element_bytes;
        kernels.add_row(static_cast<const char*>(dy) + offset, n, acc + tokens[row] * d + column);
      }
    }
  });
}

size_t position_embedding_scratch_bytes(int64_t rows) {
  return static_cast<size_t>(rows) * sizeof(int32_t);
}

namespace {

/// The position of every row, as a token; padding rows are not read.
const int32_t* positions_of(const RowTable& table, void* scratch) {
  auto* positions = static_cast<int32_t*>(scratch);
  for (const Segment& segment : table.segments) {
    for (int32_t i = 0; i < segment.num_rows; ++i)
      positions[segment.row_begin + i] = static_cast<int32_t>(segment.position) + i;
  }
  return positions;
}

}  // namespace

void position_embedding_forward(const Context& context, int64_t rows, const WeightView& weight,
                                void* y, const RowTable& table, void* scratch) {
  embedding_forward(context, rows, positions_of(table, scratch), weight, y, table);
}

void position_embedding_grad(const Context& context, int64_t rows, int64_t d, const void* dy,
                             float* acc, const RowTable& table, void* scratch) {
  embedding_grad(context, rows, d, positions_of(table, scratch), dy, acc, table);
}

}  // namespace mainspring::cpu
