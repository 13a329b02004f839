#include "mainspring/weights/parameter_set.h"

#include <algorithm>
#include <vector>

#include "mainspring/base/bf16.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/weights/dequantise.h"

namespace mainspring {

ParameterSet borrow_parameters(Executor& executor, const TensorSet& tensors) {
  ParameterSet set;
  for (const auto& [name, tensor] : tensors) {
    set[name] = executor.borrow({.dtype = tensor.dtype,
                                 .shape = tensor.shape,
                                 .data = tensor.data,
                                 .aux = tensor.aux.empty() ? nullptr : tensor.aux.data(),
                                 .owner = tensor.owner});
  }
  return set;
}

ParameterSet copy_parameters_f32(Executor& executor, const TensorSet& tensors) {
  ParameterSet set;
  for (const auto& [name, tensor] : tensors) {
    std::shared_ptr<Buffer> buffer = executor.allocate(DType::kF32, tensor.shape);
    auto* values = static_cast<float*>(buffer->data());
    const int64_t width = row_elements(tensor);
    for (int64_t row = 0; row < num_rows(tensor); ++row) {
      read_row_f32(tensor, row, values + row * width);
    }
    if (is_quantised(tensor.dtype)) {
      const int64_t n = tensor.num_elements();
      for (int64_t i = 0; i < n; ++i) values[i] = to_f32(to_bf16(values[i]));
    }
    buffer->mark_changed();
    MappedFile::let_go(tensor.data, static_cast<size_t>(tensor.size_bytes));
    set[name] = std::move(buffer);
  }
  return set;
}

ParameterSet copy_parameters_bf16(Executor& executor, const TensorSet& tensors) {
  ParameterSet set;
  for (const auto& [name, tensor] : tensors) {
    std::shared_ptr<Buffer> buffer = executor.allocate(DType::kBF16, tensor.shape);
    auto* values = static_cast<bf16*>(buffer->data());
    std::vector<float> row_values(static_cast<size_t>(row_elements(tensor)));
    for (int64_t row = 0; row < num_rows(tensor); ++row) {
      read_row_f32(tensor, row, row_values.data());
      values = std::transform(row_values.begin(), row_values.end(), values, to_bf16);
    }
    buffer->mark_changed();
    MappedFile::let_go(tensor.data, static_cast<size_t>(tensor.size_bytes));
    set[name] = std::move(buffer);
  }
  return set;
}

Buffer* find_parameter(const std::string& name, std::initializer_list<const ParameterSet*> sets) {
  for (const ParameterSet* set : sets) {
    const auto found = set->find(name);
    if (found != set->end()) return found->second.get();
  }
  return nullptr;
}

}  // namespace mainspring
