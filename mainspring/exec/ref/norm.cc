// Root-mean-square norm over groups of `width` along each row, layer norm over rows, and their
// gradients.
#include <cmath>
#include <vector>

#include "mainspring/exec/ref/op.h"

namespace mainspring::ref {
namespace {

// 1 / sqrt(mean(x^2) + eps)
double inverse_rms(const double* x, int64_t width, double eps) {
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += x[i] * x[i];
  return 1.0 / std::sqrt(sum / static_cast<double>(width) + eps);
}

// The weight as it multiplies.
Value norm_weight(const OpCall& call) {
  Value w = call.parameter(1);
  if (call.attrs<NormAttrs>().plus_one) {
    for (double& x : w.data) x += 1.0;
  }
  return w;
}

// (x - mean) / sqrt(variance + eps) of one row; `inv` gets the divisor's inverse.
std::vector<double> normalised(const double* x, int64_t width, double eps, double* inv) {
  double mean = 0;
  for (int64_t i = 0; i < width; ++i) mean += x[i];
  mean /= static_cast<double>(width);
  std::vector<double> h(static_cast<size_t>(width));
  double variance = 0;
  for (int64_t i = 0; i < width; ++i) {
    h[static_cast<size_t>(i)] = x[i] - mean;
    variance += (x[i] - mean) * (x[i] - mean);
  }
  *inv = 1.0 / std::sqrt(variance / static_cast<double>(width) + eps);
  for (double& value : h) value *= *inv;
  return h;
}

}  // namespace

// Inputs x (rows, groups * width), w (width); output y = x * inv * w.
void rms_norm(const OpCall& call) {
  const auto& attrs = call.attrs<NormAttrs>();
  const Value& x = call.in(0);
  const Value w = norm_weight(call);
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
  const Value w = norm_weight(call);
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

// Inputs x (rows, width), w, b (width); output y = h * w + b with h = (x - mean) * inv.
void layer_norm(const OpCall& call) {
  const auto& attrs = call.attrs<NormAttrs>();
  const Value& x = call.in(0);
  const Value w = call.parameter(1);
  const Value b = call.parameter(2);
  for (int64_t r = 0; r < x.rows(); ++r) {
    double inv = 0;
    const std::vector<double> h = normalised(x.row(r), attrs.width, attrs.eps, &inv);
    for (size_t i = 0; i < h.size(); ++i) {
      call.out(0).row(r)[i] = h[i] * w.data[i] + b.data[i];
    }
  }
}

// With g = dy * w:  dx = inv * (g - mean(g) - h * mean(g * h)),  dw += dy * h.
// Inputs x, w, dy [, acc (width)]; outputs dx [, acc].
void layer_norm_grad(const OpCall& call) {
  const auto& attrs = call.attrs<NormAttrs>();
  const Value& x = call.in(0);
  const Value w = call.parameter(1);
  Value* acc = call.outputs.size() > 1 ? &call.out(1) : nullptr;
  for (int64_t r = 0; r < x.rows(); ++r) {
    const double* d = call.in(2).row(r);
    double inv = 0;
    const std::vector<double> h = normalised(x.row(r), attrs.width, attrs.eps, &inv);
    double mean_g = 0;
    double mean_gh = 0;
    for (size_t i = 0; i < h.size(); ++i) {
      mean_g += d[i] * w.data[i] / static_cast<double>(h.size());
      mean_gh += d[i] * w.data[i] * h[i] / static_cast<double>(h.size());
    }
    for (size_t i = 0; i < h.size(); ++i) {
      call.out(0).row(r)[i] = inv * (d[i] * w.data[i] - mean_g - h[i] * mean_gh);
      if (acc != nullptr) acc->data[i] += d[i] * h[i];
    }
  }
}

}  // namespace mainspring::ref
