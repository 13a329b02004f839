#include "mainspring/engine/snapshot.h"

#include "mainspring/weights/digest.h"

namespace mainspring {

WeightSnapshot::WeightSnapshot(Executor& executor, int64_t version,
                               std::optional<nn::AdapterSpec> adapter, const ParameterSet& live)
    : version_(version), adapter_(std::move(adapter)) {
  for (const auto& [name, buffer] : live) {
    parameters_[name] = executor.borrow({.dtype = buffer->dtype(),
                                         .shape = buffer->shape(),
                                         .data = std::as_const(*buffer).data(),
                                         .owner = buffer});
  }
}

const Digest128& WeightSnapshot::digest() const {
  if (!digest_.has_value()) digest_ = digest_parameters(parameters_, adapter_);
  return *digest_;
}

Status WeightSnapshot::keep() {
  int64_t bytes = 0;
  for (const auto& [name, buffer] : parameters_) {
    MS_RETURN_IF_ERROR(buffer->own().with_context("a snapshot's copy of " + name));
    bytes += buffer->size_bytes();
  }
  copied_bytes_ = bytes;
  return {};
}

Digest128 digest_parameters(const ParameterSet& parameters,
                            const std::optional<nn::AdapterSpec>& adapter) {
  TensorSet tensors;
  for (const auto& [name, buffer] : parameters) {
    tensors[name] = {.name = name,
                     .dtype = buffer->dtype(),
                     .shape = buffer->shape(),
                     .data = std::as_const(*buffer).data(),
                     .size_bytes = buffer->size_bytes(),
                     .owner = nullptr,
                     .aux = {}};
  }
  if (adapter.has_value()) {
    for (const auto& [module, sizes] : adapter->modules) {
      const std::string name = module + ".lora_scale";
      tensors[name] = {.name = name,
                       .dtype = DType::kF32,
                       .shape = {1},
                       .data = &sizes.scale,
                       .size_bytes = sizeof(sizes.scale),
                       .owner = nullptr,
                       .aux = {}};
    }
  }
  return digest_of(tensors);
}

}  // namespace mainspring
