// StoredTensor and TensorSet: named parameters as they lie in a file or in memory.
//
// The one idea: a tensor is a name, a dtype, a shape and bytes that somebody keeps alive; a linear
// weight is (out, in) row-major as in Hugging Face files, quantised rows stay quantised. Names are
// Hugging Face's whatever file the tensor came from.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/ir/dtype.h"

namespace mainspring {

struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  int64_t size_bytes = 0;
  std::shared_ptr<const void> owner;  // the mapping or allocation behind `data`
  std::vector<float> aux;             // NF4's and int8's scales (exec/cpu/ops.h, WeightView::aux)

  int64_t num_elements() const {
    int64_t n = 1;
    for (int64_t dim : shape) n *= dim;
    return n;
  }
};

/// Tensors by name, in name order.
using TensorSet = std::map<std::string, StoredTensor>;

}  // namespace mainspring
