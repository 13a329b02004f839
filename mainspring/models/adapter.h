// Adapter: LoRA matrices of a model as data, with the way to PEFT's files and back, and merging.
//
// The one idea: an adapter is, per linear, A (r, in), B (out, r) and a scale; everything else in a
// PEFT folder either follows from that or must be switched off.  y = x W^T + scale * (x A^T) B^T.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "mainspring/base/status.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/weights/stored_tensor.h"

namespace mainspring {

struct AdapterModule {
  int64_t rank = 0;
  float scale = 0.0f;  // alpha / r, or alpha / sqrt(r) for rank-stabilised LoRA
};

struct Adapter {
  /// By module: "model.layers.3.self_attn.q_proj". Ranks and scales may differ.
  std::map<std::string, AdapterModule> modules;
  /// f32: "<module>.lora_A.weight" (r, in) and "<module>.lora_B.weight" (out, r).
  TensorSet tensors;
  float dropout = 0.0f;
  std::string base_model;  // as the folder names it; may be empty
};

/// An adapter of `tensors` (named as in Adapter, any float dtype) whose every module has scale
/// alpha / rank. Errors: invalid argument for a name, pair or shape that does not fit `config`.
Result<Adapter> make_adapter(const ModelConfig& config, const TensorSet& tensors, float alpha,
                             float dropout);

/// The stem of the file that holds a PEFT folder's tensors.
inline constexpr std::string_view kPeftTensors = "adapter_model";

/// Reads adapter_config.json and adapter_model.safetensors (mapped; f16 and bf16 are widened).
/// Errors: not found; unimplemented for a config field that would change results and is not handled
/// (use_dora, bias, modules_to_save, ...), with file and field; invalid argument for tensors that
/// do not fit `config` or a rank_pattern that disagrees with them. `stem`: of the file of tensors,
/// if it is another one.
Result<Adapter> load_peft(const std::string& folder, const ModelConfig& config,
                          std::string_view stem = kPeftTensors);

/// Writes a folder that `peft` loads, atomically; linears that the family's files fuse get one pair
/// (adapter_layout.h). `base_model` is what adapter_config.json says of
/// the base (a path or a name); empty: the adapter's own. Errors: already exists; the system's.
Status export_peft(const Adapter& adapter, const ModelConfig& config, std::string_view base_model,
                   const std::string& folder);

/// adapter_config.json and the file names of the tensors, for those who write the files themselves
/// (checkpoints): "base_model.model.<module>.lora_A.weight".
std::string peft_config_text(const Adapter& adapter, const ModelConfig& config,
                             std::string_view base_model);
std::string peft_tensor_name(std::string_view tensor_name);

/// W + scale * (B A) of one module in f32: the product's terms added in increasing rank, then
/// scaled, then added to W (widened, or dequantised). Named after the weight. Precondition: the
/// adapter has the module, and `weight` is its weight.
StoredTensor merge_module(const Adapter& adapter, const std::string& module,
                          const StoredTensor& weight);

/// The weights with every adapted matrix replaced by its merged one in f32; the others are shared.
/// Precondition: the adapter fits the weights' config.
TensorSet merge_adapter(const TensorSet& weights, const Adapter& adapter);

/// `weight_name` without its ".weight": the module a weight belongs to.
std::string module_of_weight(std::string_view weight_name);

}  // namespace mainspring
