// Gradient norms, AdamW, Lion and Adafactor.
#include <algorithm>
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
  if (std::holds_alternative<RoundingAttrs>(call.node.attrs)) return adamw_bf16(call);
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

// Inputs param, m, grad, scalars (lr, beta1, beta2, weight_decay, grad_scale); outputs param, m.
void lion(const OpCall& call) {
  if (std::holds_alternative<RoundingAttrs>(call.node.attrs)) return lion_bf16(call);
  const std::vector<double>& s = call.in(3).data;
  for (size_t i = 0; i < call.in(0).data.size(); ++i) {
    const double g = call.in(2).data[i] * s[4];
    double& param = call.out(0).data[i];
    double& m = call.out(1).data[i];
    const double c = s[1] * m + (1.0 - s[1]) * g;
    param = param * (1.0 - s[0] * s[3]) - s[0] * static_cast<double>((c > 0.0) - (c < 0.0));
    m = s[2] * m + (1.0 - s[2]) * g;
  }
}

namespace {

double root_mean_square(const std::vector<double>& x) {
  double sum = 0;
  for (double value : x) sum += value * value;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

}  // namespace

// torch.optim.Adafactor's update. Inputs param, row and column factors (a vector: its second
// moment), grad, scalars (lr, weight_decay, rho, rate, eps1, eps2, clip, grad_scale).
void adafactor(const OpCall& call) {
  const size_t states = call.in(0).dims.size() + 1;
  const std::vector<double>& s = call.in(states + 1).data;
  const size_t columns = static_cast<size_t>(call.in(0).dims.back());
  const size_t rows = call.in(0).data.size() / columns;
  std::vector<double> g = call.in(states).data;
  for (double& x : g) x *= s[7];
  const double alpha = std::max(s[5], root_mean_square(call.in(0).data)) * s[2];
  std::vector<double> row_factors(rows, 1.0);
  double mean = 1.0;
  if (states == 3) {
    double sum = 0;
    for (size_t r = 0; r < rows; ++r) {
      double squares = 0;
      for (size_t c = 0; c < columns; ++c) squares += g[r * columns + c] * g[r * columns + c];
      double& factor = call.out(1).data[r];
      factor += s[3] * (squares / static_cast<double>(columns) - factor);
      row_factors[r] = factor;
      sum += factor;
    }
    mean = std::max(sum / static_cast<double>(rows), s[4]);
  }
  std::vector<double>& column_factors = call.out(states - 1).data;
  for (size_t c = 0; c < columns; ++c) {
    double squares = 0;
    for (size_t r = 0; r < rows; ++r) squares += g[r * columns + c] * g[r * columns + c];
    column_factors[c] += s[3] * (squares / static_cast<double>(rows) - column_factors[c]);
  }
  for (size_t i = 0; i < g.size(); ++i) {
    const double v = row_factors[i / columns] * column_factors[i % columns] / mean;
    g[i] /= std::sqrt(std::max(v, s[4] * s[4]));
  }
  const double step = alpha / std::max(1.0, root_mean_square(g) / s[6]);
  for (size_t i = 0; i < g.size(); ++i) {
    double& param = call.out(0).data[i];
    param = param * (1.0 - s[0] * s[1]) - step * g[i];
  }
}

}  // namespace mainspring::ref
