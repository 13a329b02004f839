// load_model: opens the files, names the tensors, and checks them against the config.
#include <cstring>

#include "mainspring/io/gguf.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/io/safetensors.h"
#include "mainspring/models/file_layout.h"
#include "mainspring/models/gguf_config.h"
#include "mainspring/models/hf_config.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/models/names.h"
#include "mainspring/models/row_order.h"
#include "mainspring/models/tokenizer_source.h"
#include "mainspring/weights/dequantise.h"

namespace mainspring {
namespace {

void count_sizes(LoadedModel& model) {
  for (const auto& [name, tensor] : model.weights) {
    model.num_parameters += tensor.num_elements();
    model.size_bytes += tensor.size_bytes;
  }
}

// ---- Hugging Face folders
// ---------------------------------------------------------------------------

Result<DType> dtype_of_safetensors(const SafetensorsEntry& entry) {
  if (entry.dtype == "F32") return DType::kF32;
  if (entry.dtype == "BF16") return DType::kBF16;
  if (entry.dtype == "F16") return DType::kF16;
  return unimplemented("tensor '" + entry.name + "': dtype " + entry.dtype +
                       " is not supported, only F32, BF16 and F16");
}

/// Buffers that old checkpoints hold and transformers recomputes: frequencies, and GPT-2's mask.
bool is_recomputed_buffer(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias");
}

/// GPT-2's first folders name their tensors without the model's prefix.
std::string full_name(const ModelConfig& config, const std::string& name) {
  const bool lacks_prefix = name.starts_with("h.") || name.starts_with("wte.") ||
                            name.starts_with("wpe.") || name.starts_with("ln_f.");
  return config.family == "gpt2" && lacks_prefix ? "transformer." + name : name;
}

Result<TensorSet> hf_tensors(const ModelConfig& config, Safetensors files) {
  TensorSet out;
  for (auto& [file_name, entry] : files.tensors) {
    if (is_recomputed_buffer(file_name)) continue;
    const std::string name = full_name(config, file_name);
    MS_ASSIGN_OR_RETURN(const DType dtype, dtype_of_safetensors(entry));
    StoredTensor tensor;
    tensor.name = name;
    tensor.dtype = dtype;
    tensor.shape = std::move(entry.shape);
    tensor.data = entry.data;
    tensor.size_bytes = entry.size_bytes;
    tensor.owner = std::move(entry.owner);
    out.emplace(name, std::move(tensor));
  }
  return out;
}

/// transformers drops a stored head when the config ties it; if it differs from the embedding,
/// releases disagree about which to use, so that is refused.
Status drop_tied_head(const ModelConfig& config, TensorSet& tensors) {
  const auto head = tensors.find("lm_head.weight");
  const auto embedding = tensors.find(file_module(config, "model.embed_tokens") + ".weight");
  if (!config.tied_embeddings || head == tensors.end() || embedding == tensors.end())
    return Status();
  const StoredTensor& a = head->second;
  const StoredTensor& b = embedding->second;
  const bool equal = a.dtype == b.dtype && a.size_bytes == b.size_bytes &&
                     std::memcmp(a.data, b.data, static_cast<size_t>(a.size_bytes)) == 0;
  if (!equal) {
    return invalid_argument(
        "the config ties the head to the embedding (tie_word_embeddings), but lm_head.weight is "
        "stored and "
        "differs from model.embed_tokens.weight; set tie_word_embeddings to what is meant");
  }
  tensors.erase(head);
  return Status();
}

/// A run's checkpoint has q, k and v apart and the embedding under its own name, whatever the
/// family's folders fuse or call otherwise.
FileKind kind_of_folder(const TensorSet& tensors) {
  const bool is_checkpoint = tensors.contains("model.embed_tokens.weight") &&
                             tensors.contains("model.layers.0.self_attn.q_proj.weight");
  return is_checkpoint ? FileKind::kCheckpoint : FileKind::kHuggingFace;
}

Result<std::shared_ptr<const LoadedModel>> load_folder(const std::string& path) {
  auto model = std::make_shared<LoadedModel>();
  model->path = path;
  model->source = ModelSource::kHuggingFace;
  const std::string config_path = join_path(path, "config.json");
  MS_ASSIGN_OR_RETURN(model->config_json, read_text_file(config_path, int64_t{1} << 24));
  MS_ASSIGN_OR_RETURN(model->config, parse_hf_config(model->config_json, config_path));
  MS_ASSIGN_OR_RETURN(Safetensors files, open_safetensors_folder(path));
  Result<TensorSet> tensors = hf_tensors(model->config, std::move(files));
  if (!tensors.ok()) return tensors.status().with_context(path);
  model->weights = std::move(tensors).value();
  const Status status = drop_tied_head(model->config, model->weights);
  if (!status.ok()) return status.with_context(path);
  Result<TensorSet> parameters =
      parameters_of_files(model->config, kind_of_folder(model->weights), model->weights);
  if (!parameters.ok()) return parameters.status().with_context(path);
  model->weights = std::move(parameters).value();
  const std::string generation_path = join_path(path, "generation_config.json");
  if (is_regular_file(generation_path)) {
    MS_ASSIGN_OR_RETURN(model->generation_config_json,
                        read_text_file(generation_path, int64_t{1} << 24));
    MS_ASSIGN_OR_RETURN(model->generation,
                        parse_generation_config(model->generation_config_json, generation_path));
  }
  MS_ASSIGN_OR_RETURN(model->tokenizer, read_folder_tokenizer(path));
  count_sizes(*model);
  return std::shared_ptr<const LoadedModel>(std::move(model));
}

// ---- GGUF files
// ----------------------------------------------------------------------------------------

Result<DType> dtype_of_gguf(const GgufTensor& tensor) {
  switch (tensor.type) {
    case kGgmlF32:
      return DType::kF32;
    case kGgmlF16:
      return DType::kF16;
    case kGgmlBF16:
      return DType::kBF16;
    case kGgmlQ4_0:
      return DType::kQ4_0;
    case kGgmlQ4_1:
      return DType::kQ4_1;
    case kGgmlQ5_0:
      return DType::kQ5_0;
    case kGgmlQ5_1:
      return DType::kQ5_1;
    case kGgmlQ8_0:
      return DType::kQ8_0;
    case kGgmlQ4_K:
      return DType::kQ4_K;
    case kGgmlQ5_K:
      return DType::kQ5_K;
    case kGgmlQ6_K:
      return DType::kQ6_K;
    default:
      return unimplemented("tensor '" + tensor.name + "': type " + std::string(tensor.type_name) +
                           " is not supported, only F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, "
                           "Q4_K, Q5_K and Q6_K");
  }
}

/// Converters store Gemma's norm weights with the one that the norm adds; here they are as in
/// Hugging Face's files.
void take_one_away(StoredTensor& tensor) {
  std::vector<float> values = read_f32(tensor);
  for (float& value : values) value -= 1.0f;
  tensor = make_tensor(tensor.name, tensor.shape, DType::kF32, values);
}

Result<TensorSet> gguf_tensors(const GgufFile& file, NameStyle style) {
  TensorSet out;
  for (const auto& [gguf_name, source] : file.tensors()) {
    if (gguf_name == "rope_freqs.weight") continue;  // part of the config
    StoredTensor tensor;
    tensor.name = hf_name_of_gguf(gguf_name, style);
    if (tensor.name.empty()) {
      return unimplemented("tensor '" + gguf_name + "' is none that this architecture has");
    }
    MS_ASSIGN_OR_RETURN(tensor.dtype, dtype_of_gguf(source));
    tensor.shape.assign(source.dims.rbegin(), source.dims.rend());
    tensor.data = source.data;
    tensor.size_bytes = source.size_bytes;
    tensor.owner = file.file();
    out.emplace(tensor.name, std::move(tensor));
  }
  return out;
}

/// Norms and biases are added or multiplied as they are: no block-quantised ones exist.
Status refuse_quantised_vectors(const TensorSet& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (tensor.shape.size() == 1 && is_quantised(tensor.dtype)) {
      return unimplemented("tensor '" + name + "': a vector of type " +
                           std::string(dtype_name(tensor.dtype)));
    }
  }
  return Status();
}

Status load_gguf_weights(const GgufFile& file, LoadedModel& model) {
  MS_ASSIGN_OR_RETURN(const TensorSet tensors, gguf_tensors(file, name_style(model.config)));
  MS_ASSIGN_OR_RETURN(model.weights, parameters_of_files(model.config, FileKind::kGguf, tensors));
  MS_RETURN_IF_ERROR(refuse_quantised_vectors(model.weights));
  for (auto& [name, tensor] : model.weights) {
    if (has_permuted_rows(model.config, name))
      tensor = with_split_pairs(tensor, model.config.head_width);
    if (model.config.norm_plus_one && name.ends_with("norm.weight")) take_one_away(tensor);
  }
  return Status();
}

Result<std::shared_ptr<const LoadedModel>> load_gguf(const std::string& path) {
  MS_ASSIGN_OR_RETURN(const std::shared_ptr<const GgufFile> file, GgufFile::open(path));
  auto model = std::make_shared<LoadedModel>();
  model->path = path;
  model->source = ModelSource::kGguf;
  MS_ASSIGN_OR_RETURN(model->config, read_gguf_config(*file));
  const Status status = load_gguf_weights(*file, *model);
  if (!status.ok()) return status.with_context(path);
  if (has_gguf_tokenizer(*file)) {
    MS_ASSIGN_OR_RETURN(model->tokenizer, read_gguf_tokenizer_source(*file));
  }
  count_sizes(*model);
  return std::shared_ptr<const LoadedModel>(std::move(model));
}

}  // namespace

Result<std::shared_ptr<const LoadedModel>> load_model(const std::string& path) {
  if (is_directory(path)) return load_folder(path);
  if (!is_regular_file(path)) {
    return not_found(path +
                     ": no such file or folder; expected a Hugging Face folder or a .gguf file");
  }
  return load_gguf(path);
}

}  // namespace mainspring
