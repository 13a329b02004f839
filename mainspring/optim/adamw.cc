#include "mainspring/optim/adamw.h"

#include <cmath>

#include "mainspring/base/elementary.h"

namespace mainspring {
namespace {

// The accumulators of all uses, added in order of use.
Tensor total_gradient(Tracer& tracer, const OptimizedParam& p) {
  std::vector<Tensor> uses;
  for (int64_t use = 0; use < p.num_uses; ++use) {
    std::string name = "grad/" + p.name;
    if (use > 0) name += "#" + std::to_string(use);
    uses.push_back(tracer.state(name, {DType::kF32, p.shape}));
  }
  return uses.size() == 1 ? uses[0] : add(uses);
}

}  // namespace

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
                 tracer.state("adam_v/" + p.name, type), total_gradient(tracer, p), scalars},
                NoAttrs{});
  }
}

void trace_sum_of_squares(Tracer& tracer, const std::vector<OptimizedParam>& params) {
  std::vector<Tensor> grads;
  for (const OptimizedParam& p : params) {
    grads.push_back(total_gradient(tracer, p));
  }
  tracer.output("sum_of_squares", tracer.node(OpKind::kSumOfSquares, grads, NoAttrs{})[0]);
}

}  // namespace mainspring
