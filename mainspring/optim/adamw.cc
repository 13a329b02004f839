#include "mainspring/optim/adamw.h"

#include <cmath>

#include "mainspring/base/elementary.h"

namespace mainspring {

AdamwScalars adamw_scalars(const AdamwSettings& s, int64_t step, float grad_scale) {
  const double t = static_cast<double>(step);
  const double correction1 = 1.0 - exact_pow(static_cast<double>(s.beta1), t);
  const double correction2 = 1.0 - exact_pow(static_cast<double>(s.beta2), t);
  return {.lr = s.lr,
          .beta1 = s.beta1,
          .beta2 = s.beta2,
          .eps = s.eps,
          .weight_decay = s.weight_decay,
          .bias_correction1 = static_cast<float>(correction1),
          .bias_correction2_sqrt = static_cast<float>(std::sqrt(correction2)),
          .grad_scale = grad_scale};
}

void trace_adamw(Tracer& tracer, const std::vector<OptimizedParam>& params) {
  const Tensor scalars = tracer.input("adamw.scalars", {DType::kF32, {{8}}});
  for (const OptimizedParam& p : params) {
    const ValueType type{DType::kF32, p.shape};
    tracer.node(OpKind::kAdamw,
                {tracer.state(p.name, type), tracer.state("adam_m/" + p.name, type),
                 tracer.state("adam_v/" + p.name, type), tracer.state("grad/" + p.name, type), scalars},
                NoAttrs{});
  }
}

void trace_sum_of_squares(Tracer& tracer, const std::vector<OptimizedParam>& params) {
  std::vector<Tensor> grads;
  for (const OptimizedParam& p : params) {
    grads.push_back(tracer.state("grad/" + p.name, {DType::kF32, p.shape}));
  }
  tracer.output("sum_of_squares", tracer.node(OpKind::kSumOfSquares, grads, NoAttrs{})[0]);
}

}  // namespace mainspring
