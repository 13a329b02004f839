// Gradient norms and AdamW.
#include <cmath>

#include "mainspring/exec/ref/op.h"

namespace mainspring::ref {

// Inputs any number of f32 gradients; output the sum of all their squares.
void sum_of_squares(const OpCall& call) {
  for (const Value* gradient : call.inputs) {
    for (double g : gradient->data) call.out(0).data[0] += g * g;
  }
}

// torch.optim.AdamW's update. Inputs param, m, v, grad, scalars (8): lr, beta1, beta2, eps,
// weight_decay, 1 - beta1^t, sqrt(1 - beta2^t), grad_scale; outputs param, m, v.
void adamw(const OpCall& call) {
  const std::vector<double>& s = call.in(4).data;
  const double lr = s[0], beta1 = s[1], beta2 = s[2], eps = s[3], weight_decay = s[4];
  const double correction1 = s[5], correction2_sqrt = s[6], grad_scale = s[7];
  for (size_t i = 0; i < call.in(0).data.size(); ++i) {
    const double g = call.in(3).data[i] * grad_scale;
    double& param = call.out(0).data[i];
    double& m = call.out(1).data[i];
    double& v = call.out(2).data[i];
    param *= 1.0 - lr * weight_decay;
    m = beta1 * m + (1.0 - beta1) * g;
    v = beta2 * v + (1.0 - beta2) * g * g;
    param -= lr / correction1 * m / (std::sqrt(v) / correction2_sqrt + eps);
  }
}

}  // namespace mainspring::ref
