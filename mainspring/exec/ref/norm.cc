// Root-mean-square norm over groups of `width` along each row, and its gradient.
#include <cmath>

#include "mainspring/exec/ref/op.h"

namespace mainspring::ref {
namespace {

// 1 / sqrt(mean(x^2) + eps)
double inverse_rms(const double* x, int64_t width, double eps) {
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += x[i] * x[i];
  return 1.0 / std::sqrt(sum / static_cast<double>(width) + eps);
}

}  // namespace

// Inputs x (rows, groups * width), w (width); output y = x * inv * w.
void rms_norm(const OpCall& call) {
  const auto& attrs = call.attrs<NormAttrs>();
  const Value& x = call.in(0);
  const Value w = call.parameter(1);
  Value& y = call.out(0);
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t begin = 0; begin < x.width(); begin += attrs.width) {
      const double* group = x.row(r) + begin;
      const double inv = inverse_rms(group, attrs.width, attrs.eps);
      for (int64_t i = 0; i < attrs.width; ++i) {
        y.row(r)[begin + i] = group[i] * inv * w.data[static_cast<size_t>(i)];
      }
    }
  }
}

// With n = x * inv and g = dy * w:  dx = inv * (g - n * mean(g * n)),  dw += dy * n.
// Inputs x, w, dy [, acc (width)]; outputs dx [, acc].
void rms_norm_grad(const OpCall& call) {
  const auto& attrs = call.attrs<NormAttrs>();
  const Value& x = call.in(0);
  const Value w = call.parameter(1);
  const Value& dy = call.in(2);
  Value* acc = call.outputs.size() > 1 ? &call.out(1) : nullptr;
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t begin = 0; begin < x.width(); begin += attrs.width) {
      const double* group = x.row(r) + begin;
      const double* d = dy.row(r) + begin;
      const double inv = inverse_rms(group, attrs.width, attrs.eps);
      double mean = 0;
      for (int64_t i = 0; i < attrs.width; ++i) {
        mean += d[i] * w.data[static_cast<size_t>(i)] * group[i] * inv;
      }
      mean /= static_cast<double>(attrs.width);
      for (int64_t i = 0; i < attrs.width; ++i) {
        const double n = group[i] * inv;
        call.out(0).row(r)[begin + i] = inv * (d[i] * w.data[static_cast<size_t>(i)] - n * mean);
        if (acc != nullptr) acc->data[static_cast<size_t>(i)] += d[i] * n;
      }
    }
  }
}

}  // namespace mainspring::ref
