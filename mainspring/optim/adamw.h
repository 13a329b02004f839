// AdamW and the gradient norm as graph functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/tensor/tensor.h"

namespace mainspring {

/// The eight scalars of kAdamw, in the order of their f32(8) input "adamw.scalars".
struct AdamwScalars {
  float lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2_sqrt, grad_scale;
};

/// lr, betas, ... of step t (from 1), with bias corrections 1 - beta1^t and sqrt(1 - beta2^t) in
/// f64 by exact_pow, rounded once.
struct AdamwSettings {
  float lr = 1e-4f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float weight_decay = 0.01f;
};
AdamwScalars adamw_scalars(const AdamwSettings& settings, int64_t step, float grad_scale);

struct OptimizedParam {
  std::string name;
  Shape shape;
  int64_t num_uses =
      1;  // accumulators "grad/<name>", "grad/<name>#1", ..., added in order (rule 11)
};

/// Traces torch.optim.AdamW's update of every param: states "<name>", "adam_m/<name>",
/// "adam_v/<name>", gradient state "grad/<name>", scalars input "adamw.scalars". Updates in place.
/// Source: Loshchilov & Hutter 2019, arXiv:1711.05101; the definition is PyTorch's.
void trace_adamw(Tracer& tracer, const std::vector<OptimizedParam>& params);

/// Traces the sum of squares of all gradients, output "sum_of_squares" f32(1): blocks of (row,
/// K-chunk), tree over chunks, rows, then parameters in the order given (docs/exactness.md, rule
/// 15: name order).
void trace_sum_of_squares(Tracer& tracer, const std::vector<OptimizedParam>& params);

}  // namespace mainspring
