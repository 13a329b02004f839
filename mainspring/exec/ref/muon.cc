// Muon: momentum, Newton-Schulz, step.
#include <algorithm>
#include <cmath>

#include "mainspring/exec/ref/op.h"

namespace mainspring::ref {
namespace {

// A matrix of f64 whose products are rounded, to `dtype`, if the executor rounds.
struct Rounded {
  const OpCall& call;
  DType dtype;
  double operator()(double x) const { return call.round ? round_to(dtype, x) : x; }
};

struct Matrix {
  size_t rows = 0;
  size_t columns = 0;
  std::vector<double> data;
  double at(size_t r, size_t c) const { return data[r * columns + c]; }
};

// round(alpha left right + beta addend); the right side is transposed if asked.
Matrix product(const Rounded& rounded, const Matrix& left, const Matrix& right, bool transposed,
               double alpha, double beta, const Matrix& addend) {
  Matrix y{left.rows, transposed ? right.rows : right.columns, {}};
  for (size_t r = 0; r < y.rows; ++r) {
    for (size_t c = 0; c < y.columns; ++c) {
      double sum = 0;
      for (size_t k = 0; k < left.columns; ++k) {
        sum += left.at(r, k) * (transposed ? right.at(c, k) : right.at(k, c));
      }
      y.data.push_back(rounded(alpha * sum + (beta == 0 ? 0 : beta * addend.at(r, c))));
    }
  }
  return y;
}

Matrix transpose(const Matrix& x) {
  Matrix y{x.columns, x.rows, {}};
  for (size_t c = 0; c < x.columns; ++c) {
    for (size_t r = 0; r < x.rows; ++r) y.data.push_back(x.at(r, c));
  }
  return y;
}

void orthogonalise(const Rounded& rounded, Matrix& x) {
  double squares = 0;
  for (double& value : x.data) {
    value = rounded(value);
    squares += value * value;
  }
  const double norm = std::max(rounded(std::sqrt(squares)), static_cast<double>(kMuonEps));
  for (double& value : x.data) value = rounded(value / norm);
  const bool tall = x.rows > x.columns;
  if (tall) x = transpose(x);
  const double a = kNewtonSchulz[0], b = kNewtonSchulz[1], c = kNewtonSchulz[2];
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    const Matrix gram = product(rounded, x, x, true, 1.0, 0.0, x);
    const Matrix update = product(rounded, gram, gram, false, c, b, gram);
    x = product(rounded, update, x, false, 1.0, a, x);
  }
  if (tall) x = transpose(x);
}

}  // namespace

// torch.optim.Muon's update. Inputs param, momentum, grad, scalars (lr, weight_decay, momentum,
// grad_scale); outputs param, momentum.
void muon(const OpCall& call) {
  const auto& a = call.attrs<MuonAttrs>();
  const std::vector<double>& s = call.in(3).data;
  const double rate = 1.0 - s[2];
  Matrix x{static_cast<size_t>(call.in(0).dims[0]), static_cast<size_t>(call.in(0).dims[1]), {}};
  for (size_t i = 0; i < call.in(0).data.size(); ++i) {
    const double g = call.in(2).data[i] * s[3];
    double& momentum = call.out(1).data[i];
    momentum += rate * (g - momentum);
    x.data.push_back(a.nesterov ? momentum + rate * (g - momentum) : momentum);
  }
  orthogonalise({call, a.products}, x);
  for (size_t i = 0; i < x.data.size(); ++i) {
    double& param = call.out(0).data[i];
    param = param * (1.0 - s[0] * s[1]) - s[0] * static_cast<double>(a.rate_scale) * x.data[i];
  }
}

}  // namespace mainspring::ref
