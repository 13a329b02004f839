// A value of the reference executor: f64 elements with their bound dimensions.
#pragma once

#include <cstdint>
#include <vector>

namespace mainspring::ref {

/// Row-major. `rows()` is the first dimension, `width()` the product of the others.
struct Value {
  std::vector<int64_t> dims;
  std::vector<double> data;
  bool by_picks = false;  // the first dimension counts picks, not rows

  Value() = default;
  /// Zeros.
  explicit Value(std::vector<int64_t> dimensions) : dims(std::move(dimensions)) {
    int64_t elements = 1;
    for (int64_t dim : dims) elements *= dim;
    data.assign(static_cast<size_t>(elements), 0.0);
  }

  int64_t rows() const { return dims.empty() ? 1 : dims[0]; }
  int64_t width() const {
    int64_t elements = 1;
    for (size_t i = 1; i < dims.size(); ++i) elements *= dims[i];
    return elements;
  }
  double* row(int64_t r) { return data.data() + r * width(); }
  const double* row(int64_t r) const { return data.data() + r * width(); }
};

}  // namespace mainspring::ref
