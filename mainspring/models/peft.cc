// PEFT's adapter folders: adapter_config.json and adapter_model.safetensors, read and written.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "mainspring/io/atomic_file.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/io/safetensors.h"
#include "mainspring/models/adapter.h"
#include "mainspring/models/adapter_layout.h"
#include "mainspring/models/file_layout.h"
#include "mainspring/models/names.h"

namespace mainspring {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kConfigName = "adapter_config.json";

Status refuse(const JsonObject& json, std::string_view key, const std::string& why) {
  return unimplemented(json.where(key) + ": " + why);
}

/// null, false, 0, "", [] and {}: what PEFT writes for what is not used.
bool is_unused(const Json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value == 0;
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.empty();
}

/// Fields that are read here, or that say nothing about the result of a trained adapter: where it
/// came from, which modules were chosen (the tensors tell), and how it was initialised without
/// touching the base.
bool is_harmless(std::string_view key) {
  constexpr std::string_view kHarmless[] = {"r",
                                            "lora_alpha",
                                            "lora_dropout",
                                            "rank_pattern",
                                            "alpha_pattern",
                                            "use_rslora",
                                            "peft_type",
                                            "init_lora_weights",
                                            "bias",
                                            "target_modules",
                                            "exclude_modules",
                                            "layers_to_transform",
                                            "layers_pattern",
                                            "base_model_name_or_path",
                                            "revision",
                                            "task_type",
                                            "inference_mode",
                                            "auto_mapping",
                                            "peft_version",
                                            "megatron_core",
                                            "qalora_group_size",
                                            "runtime_config",
                                            "loftq_config",
                                            "eva_config",
                                            "ensure_weight_tying"};
  return std::find(std::begin(kHarmless), std::end(kHarmless), key) != std::end(kHarmless);
}

/// Whether the family's files hold linears as (in, out).
bool has_transposed_linears(const ModelConfig& config) {
  return name_style(config) == NameStyle::kGpt2;
}

Status refuse_unhandled_fields(const JsonObject& json, const ModelConfig& config) {
  MS_ASSIGN_OR_RETURN(const std::string type, json.get_string("peft_type"));
  if (type != "LORA")
    return refuse(json, "peft_type", "'" + type + "' is not supported, only LORA");
  MS_ASSIGN_OR_RETURN(const std::string bias, json.get_string_or("bias", "none"));
  if (bias != "none") return refuse(json, "bias", "'" + bias + "' is not supported, only none");
  // The other initialisations (pissa, olora, corda, loftq, lora_ga) change the base weights.
  if (const Json* init = json.find("init_lora_weights"); init != nullptr && !init->is_boolean()) {
    MS_ASSIGN_OR_RETURN(const std::string name, json.get_string("init_lora_weights"));
    if (name != "gaussian" && name != "orthogonal" && name != "eva") {
      return refuse(json, "init_lora_weights",
                    "'" + name + "' changes the base weights and is not supported");
    }
  }
  for (const std::string& key : json.keys()) {
    if (is_harmless(key)) continue;
    // A, B are of the same shapes; only merging inside PEFT reads it.
    if (key == "fan_in_fan_out" && has_transposed_linears(config)) continue;
    const Json* value = json.find(key);
    if (value == nullptr || is_unused(*value)) continue;
    return refuse(json, key, json_text(*value).substr(0, 100) + " is not supported");
  }
  return Status();
}

/// The module of the file that a linear's adapter came from.
using FileModules = std::map<std::string, std::string>;
const std::string& file_name(const FileModules& files, const std::string& module) {
  const auto it = files.find(module);
  return it == files.end() ? module : it->second;
}

/// Whether a module is called `name`, or ends in it after a dot.
bool is_called(std::string_view module, std::string_view name) {
  if (module == name) return true;
  return !name.empty() && module.ends_with(name) && module[module.size() - name.size() - 1] == '.';
}

/// PEFT matches a pattern as a regular expression at the end of a module's name, after a dot. Plain
/// names (their dots match themselves) are what it writes; a leading ^ pins the name's start.
Result<bool> matches(const JsonObject& patterns, std::string_view pattern,
                     std::string_view module) {
  const std::string_view full = pattern;
  const bool pinned = pattern.starts_with('^');
  if (pinned) pattern.remove_prefix(1);
  for (const char c : pattern) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.';
    if (!plain)
      return refuse(patterns, full,
                    "regular expressions are not supported here, only module names");
  }
  return pinned ? module == pattern : is_called(module, pattern);
}

/// The value of the first pattern that matches the module, else `fallback`.
Result<double> pattern_value(const JsonObject& json, std::string_view key,
                             const std::string& module, double fallback) {
  if (!json.has(key)) return fallback;
  MS_ASSIGN_OR_RETURN(const JsonObject patterns, json.get_object(key));
  for (const std::string& pattern : patterns.keys()) {
    MS_ASSIGN_OR_RETURN(const bool found, matches(patterns, pattern, module));
    if (found) return patterns.get_number(pattern);
  }
  return fallback;
}

/// The layer of "model.layers.7.mlp.up_proj": 7; -1 without one.
int64_t layer_of(std::string_view module) {
  constexpr std::string_view kLayers = "layers.";
  const size_t at = module.find(kLayers);
  if (at == std::string_view::npos) return -1;
  int64_t layer = -1;
  std::from_chars(module.data() + at + kLayers.size(), module.data() + module.size(), layer);
  return layer;
}

/// PEFT loads the tensors of the modules that its configuration chooses and drops others with a
/// warning: a file that has more is refused.
Status check_chosen(const JsonObject& json, const Adapter& adapter, const FileModules& files) {
  const Json* targets = json.find("target_modules");
  const bool has_names = targets != nullptr && targets->is_array();
  std::vector<std::string> names;
  if (has_names) {
    MS_ASSIGN_OR_RETURN(names, json.get_strings("target_modules"));
  }
  const Json* layers = json.find("layers_to_transform");
  std::vector<int64_t> chosen;
  if (layers != nullptr && layers->is_array()) {
    MS_ASSIGN_OR_RETURN(chosen, json.get_ints("layers_to_transform"));
  } else if (layers != nullptr) {
    MS_ASSIGN_OR_RETURN(const int64_t layer, json.get_int("layers_to_transform"));
    chosen = {layer};
  }
  for (const auto& [own, spec] : adapter.modules) {
    const std::string& module = file_name(files, own);
    const auto is_target = [&module](const std::string& target) {
      return is_called(module, target);
    };
    if (has_names && std::none_of(names.begin(), names.end(), is_target)) {
      return json.error("target_modules", "does not choose '" + module + "', which has tensors");
    }
    if (layers != nullptr && layer_of(module) >= 0 &&
        std::find(chosen.begin(), chosen.end(), layer_of(module)) == chosen.end()) {
      return json.error("layers_to_transform",
                        "does not choose '" + module + "', which has tensors");
    }
  }
  return Status();
}

Status set_scales(const JsonObject& json, const FileModules& files, Adapter& adapter) {
  MS_ASSIGN_OR_RETURN(const int64_t rank, json.get_int_or("r", 8));
  MS_ASSIGN_OR_RETURN(const double alpha, json.get_number_or("lora_alpha", 8));
  MS_ASSIGN_OR_RETURN(const bool stabilised, json.get_bool_or("use_rslora", false));
  for (auto& [own, spec] : adapter.modules) {
    const std::string& module = file_name(files, own);
    MS_ASSIGN_OR_RETURN(const double module_rank,
                        pattern_value(json, "rank_pattern", module, static_cast<double>(rank)));
    if (module_rank != static_cast<double>(spec.rank)) {
      return invalid_argument(json.where("r") + ": rank " +
                              std::to_string(static_cast<int64_t>(module_rank)) + " for '" +
                              module + "', but its tensors have rank " + std::to_string(spec.rank));
    }
    MS_ASSIGN_OR_RETURN(const double module_alpha,
                        pattern_value(json, "alpha_pattern", module, alpha));
    const double divisor = stabilised ? std::sqrt(module_rank) : module_rank;
    spec.scale = static_cast<float>(module_alpha / divisor);
    if (!std::isfinite(spec.scale)) return json.error("lora_alpha", "is not finite");
  }
  MS_ASSIGN_OR_RETURN(const double dropout, json.get_number_or("lora_dropout", 0.0));
  if (!(dropout >= 0.0 && dropout < 1.0))
    return json.error("lora_dropout", "expected 0 to below 1");
  adapter.dropout = static_cast<float>(dropout);
  MS_ASSIGN_OR_RETURN(adapter.base_model, json.get_string_or("base_model_name_or_path", ""));
  return Status();
}

Result<TensorSet> adapter_tensors(const std::string& folder, std::string_view stem) {
  MS_ASSIGN_OR_RETURN(Safetensors files, open_safetensors_folder(folder, stem));
  TensorSet out;
  for (auto& [name, entry] : files.tensors) {
    if (!name.starts_with(kPrefix)) {
      return invalid_argument(folder + ": adapter tensor '" + name +
                              "': expected a name that starts with " + std::string(kPrefix));
    }
    StoredTensor tensor;
    tensor.name = name.substr(kPrefix.size());
    const std::string_view dtype = entry.dtype;
    if (dtype != "F32" && dtype != "F16" && dtype != "BF16") {
      return unimplemented(folder + ": adapter tensor '" + name + "': dtype " + entry.dtype +
                           " is not supported");
    }
    tensor.dtype = dtype == "F32" ? DType::kF32 : dtype == "F16" ? DType::kF16 : DType::kBF16;
    tensor.shape = std::move(entry.shape);
    tensor.data = entry.data;
    tensor.size_bytes = entry.size_bytes;
    tensor.owner = std::move(entry.owner);
    out.emplace(tensor.name, std::move(tensor));
  }
  return out;
}

}  // namespace

Result<Adapter> load_peft(const std::string& folder, const ModelConfig& config,
                          std::string_view stem) {
  const std::string config_path = join_path(folder, kConfigName);
  MS_ASSIGN_OR_RETURN(const Json root, read_json_file(config_path, int64_t{1} << 24));
  MS_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::from(root, config_path));
  MS_RETURN_IF_ERROR(refuse_unhandled_fields(json, config));
  if (stem == kPeftTensors && !is_regular_file(join_path(folder, "adapter_model.safetensors")) &&
      is_regular_file(join_path(folder, "adapter_model.bin"))) {
    return unimplemented(
        folder + ": adapter_model.bin is not read (a pickle can run code); save it as safetensors");
  }
  MS_ASSIGN_OR_RETURN(const TensorSet tensors, adapter_tensors(folder, stem));
  const SplitAdapter split = split_adapter(config, tensors);
  Result<Adapter> adapter = make_adapter(config, split.tensors, 0.0f, 0.0f);
  if (!adapter.ok()) return adapter.status().with_context(folder);
  MS_RETURN_IF_ERROR(check_chosen(json, *adapter, split.file_modules));
  MS_RETURN_IF_ERROR(set_scales(json, split.file_modules, *adapter));
  return adapter;
}

// ---- writing
// ---------------------------------------------------------------------------------------------

std::string peft_tensor_name(std::string_view tensor_name) {
  return std::string(kPrefix) + std::string(tensor_name);
}

namespace {

/// The alpha that gives back `scale` exactly when PEFT divides it by the rank in f64: a short
/// number if one does.
Json alpha_of(const AdapterModule& spec) {
  const double exact = static_cast<double>(spec.scale) * static_cast<double>(spec.rank);
  const double whole = std::round(exact);
  const auto gives_scale = [&spec](double alpha) {
    return static_cast<float>(alpha / static_cast<double>(spec.rank)) == spec.scale;
  };
  if (std::fabs(whole) < 1e15 && gives_scale(whole)) return Json(static_cast<int64_t>(whole));
  const Json shorter = json_float(static_cast<float>(exact));
  if (shorter.is_number() && gives_scale(shorter.get<double>())) return shorter;
  return Json(exact);
}

/// Suffixes if every layer has each of them, else full module names: PEFT makes an adapter for each
/// module that a suffix matches.
Json target_modules(const Adapter& adapter, const ModelConfig& config) {
  Json targets = Json::array();
  std::vector<std::string> linears = linear_names();
  linears.insert(linears.end(), {"qkv_proj", "gate_up_proj"});
  for (const std::string& linear : linears) {
    std::vector<std::string> present;
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      std::string module = linear_module(layer, linear);
      if (adapter.modules.contains(module)) present.push_back(std::move(module));
    }
    if (static_cast<int64_t>(present.size()) == config.layers) {
      targets.push_back(linear);
    } else {
      for (std::string& module : present) targets.push_back(std::move(module));
    }
  }
  // Families with names of their own: every module in full.
  if (targets.empty()) {
    for (const auto& [module, spec] : adapter.modules) targets.push_back(module);
  }
  return targets;
}

struct Common {
  int64_t rank = 0;
  std::string alpha;  // as JSON text
};

/// The rank and alpha that most modules have; the others go to the patterns.
Common most_common(const Adapter& adapter) {
  std::map<std::pair<int64_t, std::string>, int64_t> counts;
  for (const auto& [module, spec] : adapter.modules)
    ++counts[{spec.rank, json_text(alpha_of(spec))}];
  Common best;
  int64_t most = 0;
  for (const auto& [key, count] : counts) {
    if (count <= most) continue;
    most = count;
    best = {.rank = key.first, .alpha = key.second};
  }
  return best;
}

}  // namespace

std::string peft_config_text(const Adapter& adapter, const ModelConfig& config,
                             std::string_view base_model) {
  const Common common = most_common(adapter);
  Json rank_pattern = Json::object();
  Json alpha_pattern = Json::object();
  Json common_alpha = 0;
  for (const auto& [module, spec] : adapter.modules) {
    const Json alpha = alpha_of(spec);
    if (json_text(alpha) == common.alpha) {
      common_alpha = alpha;
    } else {
      alpha_pattern[module] = alpha;
    }
    if (spec.rank != common.rank) rank_pattern[module] = spec.rank;
  }
  const std::string base = base_model.empty() ? adapter.base_model : std::string(base_model);
  const Json json = {{"peft_type", "LORA"},
                     {"task_type", "CAUSAL_LM"},
                     {"base_model_name_or_path", base.empty() ? Json(nullptr) : Json(base)},
                     {"r", common.rank},
                     {"lora_alpha", common_alpha},
                     {"lora_dropout", json_float(adapter.dropout)},
                     {"target_modules", target_modules(adapter, config)},
                     {"rank_pattern", rank_pattern},
                     {"alpha_pattern", alpha_pattern},
                     {"bias", "none"},
                     {"use_rslora", false},
                     {"use_dora", false},
                     {"fan_in_fan_out", has_transposed_linears(config)},
                     {"modules_to_save", nullptr},
                     {"init_lora_weights", true},
                     {"inference_mode", true}};
  return json_text(json, 2) + "\n";
}

Status export_peft(const Adapter& own, const ModelConfig& config, std::string_view base_model,
                   const std::string& folder) {
  MS_ASSIGN_OR_RETURN(const Adapter adapter, fuse_adapter(config, own));
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicDir> target, AtomicDir::create(folder));
  std::vector<SafetensorsSpec> specs;
  for (const auto& [name, tensor] : adapter.tensors) {
    specs.push_back({.name = peft_tensor_name(name), .dtype = "F32", .shape = tensor.shape});
  }
  MS_ASSIGN_OR_RETURN(
      const std::unique_ptr<SafetensorsWriter> writer,
      SafetensorsWriter::create(join_path(target->path(), "adapter_model.safetensors"), specs,
                                {{"format", "pt"}}));
  for (const auto& [name, tensor] : adapter.tensors)
    MS_RETURN_IF_ERROR(writer->append(tensor.data, tensor.size_bytes));
  MS_RETURN_IF_ERROR(writer->finish());
  MS_RETURN_IF_ERROR(write_file_atomically(join_path(target->path(), kConfigName),
                                           peft_config_text(adapter, config, base_model)));
  return target->commit();
}

}  // namespace mainspring
