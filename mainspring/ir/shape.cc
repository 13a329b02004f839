#include "mainspring/ir/shape.h"

namespace mainspring {

int64_t Shape::num_elements(RowCounts counts) const {
  int64_t n = 1;
  for (int64_t dim : dims) n *= dim == kRows ? counts.rows : dim == kPicked ? counts.picked : dim;
  return n;
}

std::string Shape::to_string() const {
  std::string text = "(";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += dims[i] == kRows ? "rows" : dims[i] == kPicked ? "picked" : std::to_string(dims[i]);
  }
  return text + ")";
}

std::string ValueType::to_string() const {
  return std::string(dtype_name(dtype)) + shape.to_string();
}

}  // namespace mainspring
