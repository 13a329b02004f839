// AdamW and the gradient norm's sums: how they are split over threads.

#include "mainspring/exec/cpu/chunks.h"
#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/cpu/row_walk.h"
#include "mainspring/exec/cpu/rows_of.h"

namespace mainspring::cpu {
namespace {

constexpr int64_t kElementGrain = 16384;

/// Balanced tree over n sums, in place: neighbours add level by level, an odd last one passes on.
/// The same as splitting at the largest power of two below n.
float tree_sum(float* sums, int64_t n) {
  if (n == 0) return 0.0f;
  for (; n > 1; n = (n + 1) / 2) {
    for (int64_t i = 0; i < n / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
    if (n % 2 != 0) sums[n / 2] = sums[n - 1];
  }
  return sums[0];
}

}  // namespace

void adamw(const Context& context, int64_t n, const AdamwStep& step, const float* grad,
           float* param, float* m, float* v) {
  const AdamwScalars scalars{step.lr,
                             step.beta1,
                             step.beta2,
                             step.eps,
                             step.weight_decay,
                             step.bias_correction1,
                             step.bias_correction2_sqrt,
                             step.grad_scale};
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    rows_of(context).adamw(end - begin, scalars, grad + begin, param + begin, m + begin, v + begin);
  });
}

size_t sum_of_squares_scratch_bytes(int64_t rows) {
  return static_cast<size_t>(rows) * sizeof(float);
}

float sum_of_squares(const Context& context, int64_t rows, int64_t columns, const float* x,
                     void* scratch) {
  auto* sums = static_cast<float*>(scratch);
  const int chunks = num_chunks(columns);
  const int64_t width = 2 * chunk_pairs(columns, chunks);
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, columns));
  parallel_pieces(*context.pool, rows, grain, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      float parts[8] = {};
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int64_t begin = std::min(columns, chunk * width);
        const int64_t end = std::min(columns, begin + width);
        parts[chunk] = rows_of(context).sum_of_squares(x + row * columns + begin, end - begin);
      }
      sums[row] = tree_sum(parts, chunks);
    }
  });
  const ComputeScope scope;
  return tree_sum(sums, rows);
}

}  // namespace mainspring::cpu
