#include "mainspring/exec/cpu/linear_gemm.h"

namespace mainspring::cpu {

void row_slots(const RowTable* table, int64_t row, int64_t count, int32_t* slots) {
  if (table == nullptr || table->segments.empty()) {
    std::fill_n(slots, count, -1);
    return;
  }
  std::fill_n(slots, count, kPaddingSlot);
  const auto segments = table->segments;
  auto it = std::partition_point(segments.begin(), segments.end(), [&](const Segment& segment) {
    return segment.row_begin + segment.num_rows <= row;
  });
  for (; it != segments.end() && it->row_begin < row + count; ++it) {
    const int64_t begin = std::max<int64_t>(row, it->row_begin);
    const int64_t end = std::min<int64_t>(row + count, it->row_begin + it->num_rows);
    for (int64_t r = begin; r < end; ++r) slots[r - row] = it->adapter_slot;
  }
}

void fold_rows(const LinearKernels& kernels, const void* const* rows, int num_rows, int64_t k,
               const void* b, int64_t b_panel_bytes, int panels, float* c, int64_t c_stride) {
  constexpr int64_t kPiecePairs = 64;
  alignas(64) char packed[kPiecePairs * 8 * kMaxTileRows + kPackSlackBytes];
  for (int64_t done = 0; done == 0 || done < k; done += 2 * kPiecePairs) {
    const int64_t piece = std::min(k - done, 2 * kPiecePairs);
    const void* pointers[kMaxTileRows];
    for (int r = 0; r < num_rows; ++r) {
      pointers[r] = rows[r] == nullptr
                        ? nullptr
                        : static_cast<const char*>(rows[r]) + done * kernels.element_bytes;
    }
    kernels.pack_a_rows(pointers, num_rows, piece, packed);
    fold_packed(
        kernels, packed, num_rows, num_pairs(piece),
        static_cast<const char*>(b) + done / 2 * kernels.b_pair_bytes * kernels.panel_columns,
        b_panel_bytes, panels, c, c_stride, done > 0);
  }
}

}  // namespace mainspring::cpu
