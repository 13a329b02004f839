// The packed layouts of weights, and rows of stored weights (rules 16 and 17).
//
// The one idea: a block of rows and columns is brought to the compute dtype on the stack once and
// laid out both ways by the path's packing kernels; a weight already stored in the compute dtype is
// read in place.
#include <algorithm>
#include <cstring>

#include "mainspring/exec/cpu/dequantise.h"
#include "mainspring/exec/cpu/linear_gemm.h"
#include "mainspring/exec/cpu/ops.h"

namespace mainspring::cpu {
namespace {

constexpr int64_t kSlice = kValueGrain;  // columns brought to the compute dtype at a time
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
  load_values(kernels, weight, row, column, n, values);
  kernels.round_values(values, n, is_quantised(weight.dtype), buffer);
  return buffer;
}

/// Rows brought to the compute dtype together: whole panels of every path, whole pairs.
constexpr int64_t kBlockRows = kMaxPanelColumns;

/// Rows [begin, begin + count) of columns [column, column + n).
struct Block {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t column = 0;
  int64_t n = 0;
  const void* rows[kBlockRows] = {};  // null beyond count
  int64_t stride = 0;                 // elements from row to row
};

/// Into panels over out, pairs along in.
void lay_out_forward(const LinearKernels& kernels, const WeightView& weight, const Block& block,
                     char* packed) {
  const int64_t columns = kernels.panel_columns;
  for (int64_t row = 0; row < block.count; row += columns) {
    char* panel = packed + (block.begin + row) / columns * panel_bytes(kernels, weight.in);
    kernels.pack_b_rows(block.rows + row, block.n,
                        panel + block.column / 2 * kernels.b_pair_bytes * columns);
  }
}

/// Into panels over in, pairs along out.
void lay_out_input_grad(const LinearKernels& kernels, const WeightView& weight, const Block& block,
                        char* packed) {
  PackTokens tokens;
  tokens.first = block.rows[0];
  tokens.stride = block.stride;
  tokens.rows = block.count;
  tokens.columns_end = block.n;
  tokens.num_columns = kernels.panel_columns;
  for (tokens.column = 0; tokens.column < block.n; tokens.column += kernels.panel_columns) {
    const int64_t panel = (block.column + tokens.column) / kernels.panel_columns;
    tokens.packed = packed + panel * panel_bytes(kernels, weight.out) +
                    block.begin / 2 * kernels.b_pair_bytes * kernels.panel_columns;
    kernels.pack_b_tokens(tokens);
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

void pack_weight(const Context& context, const WeightView& weight, void* forward,
                 void* input_grad) {
  static_assert(kSlice % kMaxPanelColumns == 0 && kBlockRows % 2 == 0);
  const LinearKernels& kernels = linear_kernels(context);
  const int64_t slices = ceil_div(weight.in, kSlice);
  context.pool->run(slices * ceil_div(weight.out, kBlockRows), [&](int64_t task, int) {
    alignas(64) char buffer[kBlockRows * kSlice * sizeof(float)];
    Block block;
    block.begin = task / slices * kBlockRows;
    block.count = std::min(kBlockRows, weight.out - block.begin);
    block.column = task % slices * kSlice;
    block.n = std::min(kSlice, weight.in - block.column);
    block.stride = weight.dtype == context.compute ? weight.in : kSlice;
    for (int64_t i = 0; i < block.count; ++i) {
      block.rows[i] = row_slice(context, weight, block.begin + i, block.column, block.n,
                                buffer + i * kSlice * kernels.element_bytes);
    }
    if (forward != nullptr) {
      lay_out_forward(kernels, weight, block, static_cast<char*>(forward));
    }
    if (input_grad != nullptr) {
      lay_out_input_grad(kernels, weight, block, static_cast<char*>(input_grad));
    }
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
