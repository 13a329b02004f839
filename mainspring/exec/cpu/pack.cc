// The packed layouts of weights, and rows of stored weights (rules 16 and 17).
//
// The one idea: a slice of a few rows is brought to the compute dtype on the stack and laid out by
// the path's packing kernels; a weight already stored in the compute dtype is read in place.
#include <algorithm>
#include <cstring>

#include "mainspring/exec/cpu/dequantise.h"
#include "mainspring/exec/cpu/linear_gemm.h"
#include "mainspring/exec/cpu/ops.h"

namespace mainspring::cpu {
namespace {

constexpr int64_t kSlice = 2 * kValueGrain;  // columns brought to the compute dtype at a time
constexpr int64_t kMaxPanelColumns = 64;

/// Columns [column, column + n) of a row in the compute dtype: in place, or converted into
/// `buffer`.
const void* row_slice(const Context& context, const WeightView& weight, int64_t row, int64_t column,
                      int64_t n, void* buffer) {
  const LinearKernels& kernels = linear_kernels(context);
  if (weight.dtype == context.compute) {
    return static_cast<const char*>(weight.data) +
           (row * weight.in + column) * kernels.element_bytes;
  }
  if (weight.dtype == DType::kF32) {
    const float* values = static_cast<const float*>(weight.data) + row * weight.in + column;
    kernels.round_values(values, n, false, buffer);
    return buffer;
  }
  float values[kSlice];
  load_values(weight, row, column, n, values);
  kernels.round_values(values, n, is_quantised(weight.dtype), buffer);
  return buffer;
}

struct SliceBuffer {
  alignas(64) char rows[kMaxPanelColumns][kSlice * 4];
};

/// Panel `panel` over out, pairs along in.
void pack_forward_panel(const Context& context, const WeightView& weight, int64_t panel,
                        char* packed) {
  const LinearKernels& kernels = linear_kernels(context);
  const int64_t columns = kernels.panel_columns;
  SliceBuffer buffer;
  for (int64_t k = 0; k < weight.in; k += kSlice) {
    const int64_t n = std::min(kSlice, weight.in - k);
    const void* rows[kMaxPanelColumns];
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t row = panel * columns + i;
      rows[i] = row < weight.out ? row_slice(context, weight, row, k, n, buffer.rows[i]) : nullptr;
    }
    kernels.pack_b_rows(rows, n, packed + k / 2 * kernels.b_pair_bytes * columns);
  }
}

constexpr int64_t kPieceRows =
    32;  // rows converted and laid out at a time: short, contiguous writes

/// Rows [begin, end) of columns [column, column + kSlice), pairs along out. `begin` is even.
void pack_input_grad_part(const Context& context, const WeightView& weight, int64_t column,
                          int64_t begin, int64_t end, char* destination) {
  const LinearKernels& kernels = linear_kernels(context);
  const int64_t bytes = panel_bytes(kernels, weight.out);
  const int64_t n = std::min(kSlice, weight.in - column);
  const bool in_place = weight.dtype == context.compute;
  SliceBuffer buffer;
  for (int64_t row = begin; row < end; row += kPieceRows) {
    PackTokens tokens;
    tokens.rows = std::min(kPieceRows, end - row);
    tokens.first = row_slice(context, weight, row, column, n, buffer.rows[0]);
    for (int64_t i = 1; i < tokens.rows && !in_place; ++i) {
      row_slice(context, weight, row + i, column, n, buffer.rows[i]);
    }
    tokens.stride =
        in_place ? weight.in : static_cast<int64_t>(sizeof buffer.rows[0]) / kernels.element_bytes;
    tokens.columns_end = n;
    tokens.num_columns = kernels.panel_columns;
    for (tokens.column = 0; tokens.column < n; tokens.column += kernels.panel_columns) {
      const int64_t panel = (column + tokens.column) / kernels.panel_columns;
      tokens.packed =
          destination + panel * bytes + row / 2 * kernels.b_pair_bytes * kernels.panel_columns;
      kernels.pack_b_tokens(tokens);
    }
  }
}

}  // namespace

size_t packed_forward_bytes(const Context& context, int64_t out, int64_t in) {
  const LinearKernels& kernels = linear_kernels(context);
  return static_cast<size_t>(ceil_div(out, kernels.panel_columns) * panel_bytes(kernels, in));
}

size_t packed_input_grad_bytes(const Context& context, int64_t out, int64_t in) {
  return packed_forward_bytes(context, in, out);
}

void pack_forward(const Context& context, const WeightView& weight, void* destination) {
  const LinearKernels& kernels = linear_kernels(context);
  const int64_t bytes = panel_bytes(kernels, weight.in);
  context.pool->run(ceil_div(weight.out, kernels.panel_columns), [&](int64_t panel, int) {
    pack_forward_panel(context, weight, panel, static_cast<char*>(destination) + panel * bytes);
  });
}

void pack_input_grad(const Context& context, const WeightView& weight, void* destination) {
  static_assert(kSlice % kMaxPanelColumns == 0 && kPieceRows <= kMaxPanelColumns);
  constexpr int64_t kTaskRows = 16 * kPieceRows;
  const int64_t slices = ceil_div(weight.in, kSlice);
  context.pool->run(slices * ceil_div(weight.out, kTaskRows), [&](int64_t task, int) {
    const int64_t begin = task / slices * kTaskRows;
    pack_input_grad_part(context, weight, task % slices * kSlice, begin,
                         std::min(weight.out, begin + kTaskRows), static_cast<char*>(destination));
  });
}

void dequantise_row(const Context& context, const WeightView& weight, int64_t row,
                    void* destination) {
  const LinearKernels& kernels = linear_kernels(context);
  const ComputeScope scope;
  alignas(64) char buffer[kSlice * 4];
  for (int64_t column = 0; column < weight.in; column += kSlice) {
    const int64_t n = std::min(kSlice, weight.in - column);
    const void* values = row_slice(context, weight, row, column, n, buffer);
    std::memcpy(static_cast<char*>(destination) + column * kernels.element_bytes, values,
                static_cast<size_t>(n * kernels.element_bytes));
  }
}

}  // namespace mainspring::cpu
