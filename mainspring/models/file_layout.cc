#include "mainspring/models/file_layout.h"

#include <algorithm>
#include <map>
#include <set>

namespace mainspring {
namespace {

struct Fusion {
  std::string_view part;
  std::string_view whole;
};
constexpr Fusion kFusions[] = {{"self_attn.q_proj", "self_attn.qkv_proj"},
                               {"self_attn.k_proj", "self_attn.qkv_proj"},
                               {"self_attn.v_proj", "self_attn.qkv_proj"},
                               {"mlp.gate_proj", "mlp.gate_up_proj"},
                               {"mlp.up_proj", "mlp.gate_up_proj"}};

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
StoredTensor part_of(const StoredTensor& file, const ParameterSpec& part, int64_t first) {
  StoredTensor out = file;
  const int64_t row_bytes = file.size_bytes / file.shape[0];
  out.name = part.name;
  out.shape = part.shape;
  out.data = static_cast<const char*>(file.data) + first * row_bytes;
  out.size_bytes = part.shape[0] * row_bytes;
  return out;
}

}  // namespace

NameStyle name_style(const ModelConfig& config) {
  return config.family == "phi3" ? NameStyle::kFused : NameStyle::kSplit;
}

std::string file_module(const ModelConfig& config, const std::string& module) {
  if (name_style(config) != NameStyle::kFused) return module;
  for (const Fusion& fusion : kFusions) {
    if (!module.ends_with("." + std::string(fusion.part))) continue;
    return module.substr(0, module.size() - fusion.part.size()) + std::string(fusion.whole);
  }
  return module;
}

std::vector<FileTensor> file_tensors(const ModelConfig& config) {
  std::vector<FileTensor> files;
  std::map<std::string, size_t> index;
  for (ParameterSpec& spec : model_parameters(config)) {
    const auto [module, ending] = cut_ending(spec.name);
    const std::string name = file_module(config, module) + ending;
    const auto [it, is_new] = index.emplace(name, files.size());
    if (is_new) {
      files.push_back({.name = name, .shape = spec.shape, .parts = {}});
    } else {
      files[it->second].shape[0] += spec.shape[0];
    }
    files[it->second].parts.push_back(std::move(spec));
  }
  return files;
}

Result<TensorSet> parameters_of_files(const ModelConfig& config, const TensorSet& files) {
  const std::vector<FileTensor> expected = file_tensors(config);
  MS_RETURN_IF_ERROR(check_files(expected, files));
  TensorSet out;
  for (const FileTensor& file : expected) {
    int64_t row = 0;
    for (const ParameterSpec& part : file.parts) {
      out.emplace(part.name, part_of(files.at(file.name), part, row));
      row += part.shape[0];
    }
  }
  return out;
}

}  // namespace mainspring
