#include "mainspring/models/file_layout.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>

namespace mainspring {
namespace {

/// Where a linear or norm of a layer lies in a file.
struct Place {
  std::string_view part;
  std::string_view whole;
  bool is_transposed = false;
};
constexpr Place kFusedPlaces[] = {{"self_attn.q_proj", "self_attn.qkv_proj"},
                                  {"self_attn.k_proj", "self_attn.qkv_proj"},
                                  {"self_attn.v_proj", "self_attn.qkv_proj"},
                                  {"mlp.gate_proj", "mlp.gate_up_proj"},
                                  {"mlp.up_proj", "mlp.gate_up_proj"}};
// GPT-2's linears are of a class that keeps its weight (in, out).
constexpr Place kGpt2Places[] = {{"input_layernorm", "ln_1"},
                                 {"self_attn.q_proj", "attn.c_attn", true},
                                 {"self_attn.k_proj", "attn.c_attn", true},
                                 {"self_attn.v_proj", "attn.c_attn", true},
                                 {"self_attn.o_proj", "attn.c_proj", true},
                                 {"post_attention_layernorm", "ln_2"},
                                 {"mlp.up_proj", "mlp.c_fc", true},
                                 {"mlp.down_proj", "mlp.c_proj", true}};
constexpr Place kGpt2Globals[] = {{"model.embed_tokens", "transformer.wte"},
                                  {"model.embed_positions", "transformer.wpe"},
                                  {"model.norm", "transformer.ln_f"}};
constexpr std::string_view kLayers = "model.layers.";

/// What a module is called in a file.
struct FileModule {
  std::string name;
  bool is_transposed = false;
};

/// "model.layers.3.mlp.up_proj" by the place of "mlp.up_proj" under a prefix in place of
/// "model.layers.".
FileModule place_in_layer(const std::string& module, std::span<const Place> places,
                          std::string_view prefix) {
  const size_t dot = module.find('.', kLayers.size());
  const std::string layer = module.substr(kLayers.size(), dot + 1 - kLayers.size());
  const std::string_view stem = std::string_view(module).substr(dot + 1);
  for (const Place& place : places) {
    if (place.part != stem) continue;
    return {std::string(prefix) + layer + std::string(place.whole), place.is_transposed};
  }
  return {std::string(prefix) + layer + std::string(stem)};
}

FileModule find_module(const ModelConfig& config, const std::string& module, FileKind kind) {
  if (kind == FileKind::kCheckpoint) return {module};
  const bool in_layer = module.starts_with(kLayers);
  const NameStyle style = name_style(config);
  if (style == NameStyle::kFused && in_layer) return place_in_layer(module, kFusedPlaces, kLayers);
  if (style != NameStyle::kGpt2) return {module};
  if (kind == FileKind::kGguf) {
    // Only q, k and v are fused there, and nothing is transposed.
    return in_layer ? place_in_layer(module, std::span(kFusedPlaces).first(3), kLayers)
                    : FileModule{module};
  }
  if (in_layer) return place_in_layer(module, kGpt2Places, "transformer.h.");
  for (const Place& place : kGpt2Globals) {
    if (place.part == module) return {std::string(place.whole)};
  }
  return {module};
}

/// "module.weight" -> "module" and ".weight".
std::pair<std::string, std::string> cut_ending(const std::string& name) {
  const size_t dot = name.rfind('.');
  return {name.substr(0, dot), name.substr(dot)};
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

/// At most five names, and how many more there are.
std::string some_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) out += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kShown) out += " and " + std::to_string(names.size() - kShown) + " more";
  return out;
}

/// The set must be exactly the config's tensors, each with its shape.
Status check_files(const std::vector<FileTensor>& expected, const TensorSet& files) {
  std::vector<std::string> missing;
  std::set<std::string> known;
  for (const FileTensor& file : expected) {
    known.insert(file.name);
    const auto it = files.find(file.name);
    if (it == files.end()) {
      missing.push_back(file.name);
    } else if (it->second.shape != file.shape) {
      return invalid_argument("tensor '" + file.name + "': expected shape " +
                              shape_text(file.shape) + " by the config, got " +
                              shape_text(it->second.shape));
    }
  }
  if (!missing.empty()) return invalid_argument("missing tensors: " + some_names(missing));
  if (files.size() == known.size()) return Status();
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : files) {
    if (!known.contains(name)) unexpected.push_back(name);
  }
  return invalid_argument("tensors that the config does not have: " + some_names(unexpected));
}

/// Rows [first, first + rows of the part) of a file's tensor. Quantised blocks lie within rows.
StoredTensor rows_of(const StoredTensor& file, const ParameterSpec& part, int64_t first) {
  StoredTensor out = file;
  const int64_t row_bytes = file.size_bytes / file.shape[0];
  out.name = part.name;
  out.shape = part.shape;
  out.data = static_cast<const char*>(file.data) + first * row_bytes;
  out.size_bytes = part.shape[0] * row_bytes;
  return out;
}

/// to[column, row] = from[row, first + column], elements of `bytes`.
void transpose(const char* from, int64_t from_columns, int64_t first, int64_t rows, int64_t columns,
               int64_t bytes, char* to) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      std::memcpy(to + (column * rows + row) * bytes,
                  from + (row * from_columns + first + column) * bytes, static_cast<size_t>(bytes));
    }
  }
}

StoredTensor with_memory(StoredTensor tensor, std::shared_ptr<std::vector<char>> memory) {
  tensor.data = memory->data();
  tensor.size_bytes = static_cast<int64_t>(memory->size());
  tensor.owner = std::move(memory);
  return tensor;
}

/// Columns of a file's tensor (in, all outs) as (out, in).
StoredTensor columns_of(const StoredTensor& file, const ParameterSpec& part, int64_t first) {
  const int64_t bytes = dtype_bytes(file.dtype, 1);
  const int64_t out = part.shape[0];
  const int64_t in = file.shape[0];
  auto memory = std::make_shared<std::vector<char>>(static_cast<size_t>(out * in * bytes));
  transpose(static_cast<const char*>(file.data), file.shape[1], first, in, out, bytes,
            memory->data());
  StoredTensor tensor = file;
  tensor.name = part.name;
  tensor.shape = part.shape;
  return with_memory(std::move(tensor), std::move(memory));
}

}  // namespace

NameStyle name_style(const ModelConfig& config) {
  if (config.family == "phi3") return NameStyle::kFused;
  if (config.family == "gpt2") return NameStyle::kGpt2;
  return config.sandwich_norms ? NameStyle::kSandwich : NameStyle::kSplit;
}

std::string file_module(const ModelConfig& config, const std::string& module, FileKind kind) {
  return find_module(config, module, kind).name;
}

std::vector<FileTensor> file_tensors(const ModelConfig& config, FileKind kind) {
  std::vector<FileTensor> files;
  std::map<std::string, size_t> index;
  for (ParameterSpec& spec : model_parameters(config)) {
    const auto [module, ending] = cut_ending(spec.name);
    const FileModule found = find_module(config, module, kind);
    const bool is_transposed = found.is_transposed && spec.shape.size() == 2;
    const auto [it, is_new] = index.emplace(found.name + ending, files.size());
    if (is_new) {
      files.push_back({.name = it->first,
                       .shape = {spec.shape.rbegin(), spec.shape.rend()},
                       .parts = {},
                       .is_transposed = is_transposed});
      if (!is_transposed) files.back().shape = spec.shape;
    } else {
      files[it->second].shape[is_transposed ? 1 : 0] += spec.shape[0];
    }
    files[it->second].parts.push_back(std::move(spec));
  }
  return files;
}

Result<TensorSet> parameters_of_files(const ModelConfig& config, FileKind kind,
                                      const TensorSet& files) {
  const std::vector<FileTensor> expected = file_tensors(config, kind);
  MS_RETURN_IF_ERROR(check_files(expected, files));
  TensorSet out;
  for (const FileTensor& file : expected) {
    const StoredTensor& stored = files.at(file.name);
    if (file.is_transposed && is_quantised(stored.dtype)) {
      return unimplemented("tensor '" + file.name + "': a transposed matrix of type " +
                           std::string(dtype_name(stored.dtype)));
    }
    int64_t first = 0;
    for (const ParameterSpec& part : file.parts) {
      out.emplace(part.name, file.is_transposed ? columns_of(stored, part, first)
                                                : rows_of(stored, part, first));
      first += part.shape[0];
    }
  }
  return out;
}

StoredTensor join_parts(const FileTensor& file, const std::vector<StoredTensor>& parts) {
  if (parts.size() == 1 && !file.is_transposed) return parts[0];
  auto memory = std::make_shared<std::vector<char>>();
  for (const StoredTensor& part : parts) {
    const auto* bytes = static_cast<const char*>(part.data);
    memory->insert(memory->end(), bytes, bytes + part.size_bytes);
  }
  StoredTensor joined = parts[0];
  joined.name = file.name;
  joined.shape = file.shape;
  if (file.is_transposed) {
    auto turned = std::make_shared<std::vector<char>>(memory->size());
    const int64_t out = file.shape[1];
    const int64_t in = file.shape[0];
    transpose(memory->data(), in, 0, out, in, dtype_bytes(joined.dtype, 1), turned->data());
    memory = std::move(turned);
  }
  return with_memory(std::move(joined), std::move(memory));
}

}  // namespace mainspring
