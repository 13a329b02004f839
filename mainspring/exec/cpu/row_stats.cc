// Rows of logits for the sampler: the same functions as the head, on the calling thread.

#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/cpu/rows_of.h"

namespace mainspring::cpu {

RowStats row_stats(const Context& context, const float* logits, int64_t n) {
  const ComputeScope scope;
  const RowStatsValues values = rows_of(context).row_stats(logits, n);
  return {values.max, values.sum, values.lse};
}

void row_exp(const Context& context, const float* logits, int64_t n, float max, float* out) {
  const ComputeScope scope;
  rows_of(context).row_exp(logits, n, max, out);
}

float log_f32(const Context& context, float x) {
  const ComputeScope scope;
  float y = 0.0f;
  rows_of(context).log(&x, 1, &y);
  return y;
}

float exp_f32(const Context& context, float x) {
  const ComputeScope scope;
  float y = 0.0f;
  rows_of(context).exp(&x, 1, &y);
  return y;
}

}  // namespace mainspring::cpu
