// Adafactor: what its factors and its clipped direction need of the whole matrix, in fixed order.
//
// The one idea: the direction is never stored. Its squares are summed first, from the factors and
// the gradient, and it is computed again where it is applied: one more pass over the gradient
// instead of a matrix.
#include <algorithm>
#include <cmath>

#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/cpu/rows_of.h"
#include "mainspring/exec/cpu/tree_sum.h"

namespace mainspring::cpu {
namespace {

constexpr int64_t kColumnGrain = 64;

/// out[c] = sum over rows of (scale x[row][c])^2: rule 5's chunks of rows, each folded in order,
/// and their tree. `parts` (chunks, columns).
void sum_columns(const Context& context, int64_t rows, int64_t columns, float scale, const float* x,
                 float* parts, float* out) {
  const int chunks = num_chunks(rows);
  const int64_t height = 2 * chunk_pairs(rows, chunks);
  const int64_t pieces = (columns + kColumnGrain - 1) / kColumnGrain;
  context.pool->run(pieces * chunks, [&](int64_t task, int) {
    const int64_t chunk = task / pieces;
    const int64_t column = task % pieces * kColumnGrain;
    const int64_t first = std::min(rows, chunk * height);
    const int64_t last = std::min(rows, first + height);
    rows_of(context).column_squares(last - first, columns, std::min(kColumnGrain, columns - column),
                                    scale, x + first * columns + column,
                                    parts + chunk * columns + column);
  });
  parallel_pieces(*context.pool, columns, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      float sums[8] = {};
      for (int chunk = 0; chunk < chunks; ++chunk) sums[chunk] = parts[chunk * columns + c];
      out[c] = tree_sum(sums, chunks);
    }
  });
}

struct Scratch {
  float* sums;   // (rows)
  float* copy;   // (rows): of the row factors, for their mean
  float* parts;  // (8, columns)
  float* columns;

  Scratch(void* scratch, int64_t rows, int64_t num_columns)
      : sums(static_cast<float*>(scratch)),
        copy(sums + rows),
        parts(copy + rows),
        columns(parts + 8 * num_columns) {}
};

}  // namespace

size_t adafactor_scratch_bytes(int64_t rows, int64_t columns) {
  return static_cast<size_t>(2 * rows + 9 * columns) * sizeof(float);
}

void adafactor(const Context& context, int64_t rows, int64_t columns, const AdafactorStep& step,
               const float* grad, float* param, float* r, float* c, void* scratch) {
  const RowKernels& kernels = rows_of(context);
  ThreadPool& pool = *context.pool;
  const ComputeScope scope;
  const Scratch room(scratch, rows, columns);
  const float count = static_cast<float>(rows) * static_cast<float>(columns);

  sum_rows(pool, rows, columns, room.sums, [&](int64_t row, int64_t begin, int64_t n) {
    return kernels.sum_of_squares(param + row * columns + begin, n);
  });
  const float rms = std::sqrt(tree_sum(room.sums, rows) / count);
  const float alpha = std::max(step.eps2, rms) * step.rho;

  float mean = 1.0f;
  if (r != nullptr) {
    sum_rows(pool, rows, columns, room.sums, [&](int64_t row, int64_t begin, int64_t n) {
      return kernels.scaled_squares(grad + row * columns + begin, n, step.grad_scale);
    });
    kernels.blend_mean(rows, static_cast<float>(columns), step.rate, room.sums, r);
    std::copy_n(r, rows, room.copy);
    mean = std::max(tree_sum(room.copy, rows) / static_cast<float>(rows), step.eps1);
  }
  sum_columns(context, rows, columns, step.grad_scale, grad, room.parts, room.columns);
  kernels.blend_mean(columns, static_cast<float>(rows), step.rate, room.columns, c);

  const auto row_of = [&](int64_t row) {
    return AdafactorRow{r != nullptr ? r[row] : 1.0f, mean, step.eps1 * step.eps1, step.grad_scale};
  };
  sum_rows(pool, rows, columns, room.sums, [&](int64_t row, int64_t begin, int64_t n) {
    return kernels.adafactor_squares(n, row_of(row), grad + row * columns + begin, c + begin);
  });
  const float direction = std::sqrt(tree_sum(room.sums, rows) / count);
  const float rate = alpha / std::max(1.0f, direction / step.clip);
  const float decay = 1.0f - step.lr * step.weight_decay;
  parallel_pieces(pool, rows, std::max<int64_t>(1, 16384 / columns),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t row = begin; row < end; ++row) {
                      kernels.adafactor_apply(columns, row_of(row), decay, rate,
                                              grad + row * columns, c, param + row * columns);
                    }
                  });
}

}  // namespace mainspring::cpu
