#include "mainspring/models/adapter.h"

#include "mainspring/models/names.h"
#include "mainspring/weights/dequantise.h"

namespace mainspring {
namespace {

constexpr std::string_view kA = ".lora_A.weight";
constexpr std::string_view kB = ".lora_B.weight";

/// (out, in) of every linear that can be adapted.
std::map<std::string, std::vector<int64_t>> linear_shapes(const ModelConfig& config) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (ParameterSpec& spec : model_parameters(config)) {
    if (spec.shape.size() == 2 && spec.name.ends_with("_proj.weight")) {
      shapes.emplace(module_of_weight(spec.name), std::move(spec.shape));
    }
  }
  return shapes;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

Status check_pair(const std::string& module, const std::vector<int64_t>& linear,
                  const StoredTensor& a, const StoredTensor& b) {
  const int64_t rank = a.shape.size() == 2 ? a.shape[0] : 0;
  if (rank >= 1 && a.shape[1] == linear[1] && b.shape == std::vector<int64_t>{linear[0], rank})
    return Status();
  return invalid_argument("adapter of '" + module + "': expected lora_A [r, " +
                          std::to_string(linear[1]) + "] and lora_B [" + std::to_string(linear[0]) +
                          ", r], got " + shape_text(a.shape) + " and " + shape_text(b.shape));
}

Status check_float(const StoredTensor& tensor) {
  if (tensor.dtype == DType::kF32 || tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF16)
    return Status();
  return invalid_argument("adapter tensor '" + tensor.name + "': expected a float dtype, got " +
                          std::string(dtype_name(tensor.dtype)));
}

}  // namespace

std::string module_of_weight(std::string_view weight_name) {
  constexpr std::string_view kEnding = ".weight";
  if (weight_name.ends_with(kEnding)) weight_name.remove_suffix(kEnding.size());
  return std::string(weight_name);
}

Result<Adapter> make_adapter(const ModelConfig& config, const TensorSet& tensors, float alpha,
                             float dropout) {
  Adapter adapter;
  adapter.dropout = dropout;
  const auto linears = linear_shapes(config);
  for (const auto& [name, tensor] : tensors) {
    const bool is_a = name.ends_with(kA);
    if (!is_a && !name.ends_with(kB)) {
      return invalid_argument("adapter tensor '" + name +
                              "': expected a name that ends in lora_A.weight or lora_B.weight");
    }
    const std::string module = name.substr(0, name.size() - kA.size());
    const auto linear = linears.find(module);
    if (linear == linears.end()) {
      return invalid_argument("adapter tensor '" + name + "': the model has no linear '" + module +
                              "'");
    }
    const auto other = tensors.find(module + std::string(is_a ? kB : kA));
    if (other == tensors.end()) {
      return invalid_argument("adapter of '" + module + "': has " + (is_a ? "lora_A" : "lora_B") +
                              " alone");
    }
    MS_RETURN_IF_ERROR(check_float(tensor));
    if (is_a) {
      MS_RETURN_IF_ERROR(check_pair(module, linear->second, tensor, other->second));
      const int64_t rank = tensor.shape[0];
      adapter.modules[module] = {.rank = rank, .scale = alpha / static_cast<float>(rank)};
    }
    StoredTensor wide = to_dtype(tensor, DType::kF32);
    wide.name = name;
    adapter.tensors.emplace(name, std::move(wide));
  }
  if (adapter.modules.empty()) return invalid_argument("the adapter has no tensors");
  return adapter;
}

StoredTensor merge_module(const Adapter& adapter, const std::string& module,
                          const StoredTensor& weight) {
  const StoredTensor& a = adapter.tensors.at(module + std::string(kA));
  const StoredTensor& b = adapter.tensors.at(module + std::string(kB));
  const AdapterModule& spec = adapter.modules.at(module);
  const int64_t rows = weight.shape[0];
  const int64_t columns = weight.shape[1];
  const auto* a_values = static_cast<const float*>(a.data);
  const auto* b_values = static_cast<const float*>(b.data);
  std::vector<float> merged(static_cast<size_t>(rows * columns));
  std::vector<float> product(static_cast<size_t>(columns));
  for (int64_t row = 0; row < rows; ++row) {
    std::fill(product.begin(), product.end(), 0.0f);
    for (int64_t k = 0; k < spec.rank; ++k) {
      const float factor = b_values[row * spec.rank + k];
      const float* a_row = a_values + k * columns;
      for (int64_t i = 0; i < columns; ++i) product[static_cast<size_t>(i)] += factor * a_row[i];
    }
    float* out = merged.data() + row * columns;
    read_row_f32(weight, row, out);
    for (int64_t i = 0; i < columns; ++i) out[i] += spec.scale * product[static_cast<size_t>(i)];
  }
  return make_tensor(weight.name, weight.shape, DType::kF32, merged);
}

TensorSet merge_adapter(const TensorSet& weights, const Adapter& adapter) {
  TensorSet out;
  for (const auto& [name, tensor] : weights) {
    const std::string module = module_of_weight(name);
    out.emplace(name,
                adapter.modules.contains(module) ? merge_module(adapter, module, tensor) : tensor);
  }
  return out;
}

}  // namespace mainspring
