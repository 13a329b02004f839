// AdamW, Lion and the gradient norm's sums: how they are split over threads.

#include "mainspring/exec/cpu/chunks.h"
#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/cpu/row_walk.h"
#include "mainspring/exec/cpu/rows_of.h"
#include "mainspring/exec/cpu/tree_sum.h"

namespace mainspring::cpu {
namespace {

constexpr int64_t kElementGrain = 16384;

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

void lion(const Context& context, int64_t n, const LionStep& step, const float* grad, float* param,
          float* m) {
  const LionScalars scalars{step.lr, step.beta1, step.beta2, step.weight_decay, step.grad_scale};
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    rows_of(context).lion(end - begin, scalars, grad + begin, param + begin, m + begin);
  });
}

size_t sum_of_squares_scratch_bytes(int64_t rows) {
  return static_cast<size_t>(rows) * sizeof(float);
}

float sum_of_squares(const Context& context, int64_t rows, int64_t columns, const float* x,
                     void* scratch) {
  auto* sums = static_cast<float*>(scratch);
  const RowKernels& kernels = rows_of(context);
  sum_rows(*context.pool, rows, columns, sums, [&](int64_t row, int64_t begin, int64_t n) {
    return kernels.sum_of_squares(x + row * columns + begin, n);
  });
  const ComputeScope scope;
  return tree_sum(sums, rows);
}

}  // namespace mainspring::cpu
