#include "mainspring/models/adapter_layout.h"

#include <algorithm>

#include "mainspring/models/file_layout.h"
#include "mainspring/weights/dequantise.h"

namespace mainspring {
namespace {

constexpr std::string_view kA = ".lora_A.weight";
constexpr std::string_view kB = ".lora_B.weight";

/// A linear of the files that is fused, or has another name there.
struct Whole {
  std::string module;
  std::vector<std::string> parts;  // modules
  std::vector<int64_t> rows;       // outputs of each part
  int64_t total_rows = 0;
};

std::vector<Whole> fused_linears(const ModelConfig& config) {
  std::vector<Whole> wholes;
  for (const FileTensor& file : file_tensors(config)) {
    if (file.shape.size() != 2) continue;
    if (file.parts.size() == 1 && file.name == file.parts[0].name) continue;
    Whole whole;
    whole.module = module_of_weight(file.name);
    for (const ParameterSpec& part : file.parts) {
      whole.parts.push_back(module_of_weight(part.name));
      whole.rows.push_back(part.shape[0]);
      whole.total_rows += part.shape[0];
    }
    wholes.push_back(std::move(whole));
  }
  return wholes;
}

StoredTensor rows_of(const StoredTensor& tensor, int64_t first, int64_t count) {
  StoredTensor out = tensor;
  const int64_t row_bytes = tensor.size_bytes / tensor.shape[0];
  out.shape[0] = count;
  out.data = static_cast<const char*>(tensor.data) + first * row_bytes;
  out.size_bytes = count * row_bytes;
  return out;
}

void split_one(const Whole& whole, SplitAdapter& split) {
  const auto a = split.tensors.find(whole.module + std::string(kA));
  const auto b = split.tensors.find(whole.module + std::string(kB));
  if (a == split.tensors.end() || b == split.tensors.end()) return;
  if (b->second.shape.size() != 2 || b->second.shape[0] != whole.total_rows) return;
  int64_t row = 0;
  for (size_t i = 0; i < whole.parts.size(); ++i) {
    split.tensors[whole.parts[i] + std::string(kA)] = a->second;
    split.tensors[whole.parts[i] + std::string(kB)] = rows_of(b->second, row, whole.rows[i]);
    split.file_modules[whole.parts[i]] = whole.module;
    row += whole.rows[i];
  }
  split.tensors.erase(a);
  split.tensors.erase(b);
}

void name_by_key(TensorSet& tensors) {
  for (auto& [name, tensor] : tensors) tensor.name = name;
}

/// Moves the parts' matrices into one pair.
Status fuse_one(const Whole& whole, Adapter& adapter) {
  int64_t rank = 0;
  const AdapterModule* first = nullptr;
  for (const std::string& part : whole.parts) {
    const auto it = adapter.modules.find(part);
    if (it == adapter.modules.end()) continue;
    rank += it->second.rank;
    if (first == nullptr) first = &it->second;
    if (it->second.scale != first->scale) {
      return unimplemented("adapter of '" + part +
                           "': its scale differs from that of another part of '" + whole.module +
                           "', which the family's files hold as one linear");
    }
  }
  if (first == nullptr) return Status();
  const float scale = first->scale;
  std::vector<float> a;
  std::vector<float> b(static_cast<size_t>(whole.total_rows * rank), 0.0f);
  int64_t row = 0;
  int64_t column = 0;
  for (size_t i = 0; i < whole.parts.size(); ++i) {
    const auto it = adapter.modules.find(whole.parts[i]);
    if (it != adapter.modules.end()) {
      const int64_t own_rank = it->second.rank;
      const auto own_a = adapter.tensors.extract(whole.parts[i] + std::string(kA));
      const auto own_b = adapter.tensors.extract(whole.parts[i] + std::string(kB));
      const std::vector<float> a_values = read_f32(own_a.mapped());
      const std::vector<float> b_values = read_f32(own_b.mapped());
      a.insert(a.end(), a_values.begin(), a_values.end());
      for (int64_t r = 0; r < whole.rows[i]; ++r) {
        std::copy_n(b_values.begin() + r * own_rank, own_rank,
                    b.begin() + (row + r) * rank + column);
      }
      column += own_rank;
      adapter.modules.erase(it);
    }
    row += whole.rows[i];
  }
  const int64_t in = static_cast<int64_t>(a.size()) / rank;
  const std::string name_a = whole.module + std::string(kA);
  const std::string name_b = whole.module + std::string(kB);
  adapter.modules[whole.module] = {.rank = rank, .scale = scale};
  adapter.tensors[name_a] = make_tensor(name_a, {rank, in}, DType::kF32, a);
  adapter.tensors[name_b] = make_tensor(name_b, {whole.total_rows, rank}, DType::kF32, b);
  return Status();
}

}  // namespace

SplitAdapter split_adapter(const ModelConfig& config, const TensorSet& tensors) {
  SplitAdapter split{.tensors = tensors, .file_modules = {}};
  for (const Whole& whole : fused_linears(config)) split_one(whole, split);
  name_by_key(split.tensors);
  return split;
}

Result<Adapter> fuse_adapter(const ModelConfig& config, const Adapter& adapter) {
  Adapter fused = adapter;
  for (const Whole& whole : fused_linears(config)) MS_RETURN_IF_ERROR(fuse_one(whole, fused));
  return fused;
}

}  // namespace mainspring
