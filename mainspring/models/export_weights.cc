#include "mainspring/models/export_weights.h"

namespace mainspring {

Status check_export_weights(const LoadedModel& model, const TensorSet* weights) {
  if (weights == nullptr) return Status();
  for (const auto& [name, tensor] : *weights) {
    const auto own = model.weights.find(name);
    if (own == model.weights.end())
      return invalid_argument("the model has no tensor '" + name + "'");
    if (own->second.shape != tensor.shape)
      return invalid_argument("tensor '" + name + "' has another shape");
  }
  return Status();
}

StoredTensor exported_tensor(const StoredTensor& own, const TensorSet* weights,
                             const Adapter* adapter) {
  const StoredTensor* source = &own;
  if (weights != nullptr) {
    const auto replaced = weights->find(own.name);
    if (replaced != weights->end()) source = &replaced->second;
  }
  if (adapter == nullptr) return *source;
  const std::string module = module_of_weight(own.name);
  return adapter->modules.contains(module) ? merge_module(*adapter, module, *source) : *source;
}

}  // namespace mainspring
