// Shape and ValueType: the metadata of a traced value.
//
// The one idea: all dimensions are static but two, which are bound at run time up to the plan's
// capacity: kRows (tokens of the batch) and kPicked (rows that reach the head).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/ir/dtype.h"

namespace mainspring {

inline constexpr int64_t kRows = -1;
inline constexpr int64_t kPicked = -2;

/// Sizes of the run-time dimensions.
struct RowCounts {
  int64_t rows = 0;
  int64_t picked = 0;
};

struct Shape {
  std::vector<int64_t> dims;

  friend bool operator==(const Shape&, const Shape&) = default;
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  /// The product of the dimensions with kRows and kPicked replaced.
  int64_t num_elements(RowCounts counts) const;
  /// "(rows, 576)".
  std::string to_string() const;
};

struct ValueType {
  DType dtype = DType::kF32;
  Shape shape;

  friend bool operator==(const ValueType&, const ValueType&) = default;
  /// "bf16(rows, 576)".
  std::string to_string() const;
};

}  // namespace mainspring
