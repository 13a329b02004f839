// Tiny models written to disk, for tests of loading and export. For tests only.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "mainspring/io/gguf_builder.h"
#include "mainspring/io/json.h"
#include "mainspring/io/safetensors.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/models/config.h"
#include "mainspring/models/file_layout.h"
#include "mainspring/models/hf_config.h"
#include "mainspring/models/names.h"
#include "mainspring/weights/dequantise.h"

namespace mainspring {

/// Gemma's layer on the sizes of tiny_config: the first layer windowed, the second full.
inline void make_gemma(ModelConfig& config) {
  const bool is_third = config.family == "gemma3";
  config.window = 5;
  config.windowed_layers = {true, false};
  config.activation = MlpActivation::kGeluTanh;
  config.norm_plus_one = true;
  config.sandwich_norms = true;
  config.scaled_embeddings = true;
  config.query_scalar = 4.0f;  // the head width, as in files that do not say it
  config.attention_softcap = is_third ? 0.0f : 20.0f;
  config.final_softcap = is_third ? 0.0f : 15.0f;
  config.qk_norm = is_third;
  config.local_rope_theta = is_third ? 5000.0f : 0.0f;
}

/// d 8, two layers, 2 query heads and 1 kv head of width 4, ffn 8, vocabulary 6, untied.
inline ModelConfig tiny_config(std::string family = "llama") {
  ModelConfig config;
  config.family = std::move(family);
  config.d = 8;
  config.layers = 2;
  config.query_heads = 2;
  config.kv_heads = 1;
  config.head_width = 4;
  config.ffn = 8;
  config.vocabulary = 6;
  config.context_length = 64;
  config.rms_eps = 1e-5f;
  config.attention_bias = config.family == "qwen2";
  config.qk_norm = config.family == "qwen3";
  config.eos_tokens = {2};
  config.bos_token = 1;
  if (config.family == "mistral" || config.family == "phi3") config.window = 5;
  if (config.family == "phi3") config.rotary_width = 2;
  if (config.family == "gpt2") {
    config.kv_heads = config.query_heads;
    config.layer_norm = true;
    config.learned_positions = true;
    config.gated_mlp = false;
    config.activation = MlpActivation::kGeluTanh;
    config.attention_bias = config.output_bias = config.mlp_bias = true;
    config.tied_embeddings = true;
  }
  if (config.family == "gemma2" || config.family == "gemma3") make_gemma(config);
  return config;
}

/// A value of its own for every tensor, row and column.
inline std::vector<float> tiny_values(size_t tensor_index, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) count *= dim;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(tensor_index) + static_cast<float>(i) / 128.0f);
  return values;
}

inline TensorSet tiny_weights(const ModelConfig& config) {
  TensorSet out;
  size_t index = 0;
  for (const ParameterSpec& spec : model_parameters(config)) {
    out[spec.name] =
        make_tensor(spec.name, spec.shape, DType::kF32, tiny_values(index++, spec.shape));
  }
  return out;
}

/// Parameters as a family's files hold them: fused, transposed and named as there. A set that lacks
/// a part of a file's tensor, or has others, keeps what it has.
inline TensorSet files_of(const ModelConfig& config, TensorSet tensors,
                          FileKind kind = FileKind::kHuggingFace) {
  for (const FileTensor& file : file_tensors(config, kind)) {
    const auto has = [&](const ParameterSpec& part) { return tensors.contains(part.name); };
    if (!std::all_of(file.parts.begin(), file.parts.end(), has)) continue;
    std::vector<StoredTensor> parts;
    for (const ParameterSpec& part : file.parts) {
      parts.push_back(tensors.at(part.name));
      tensors.erase(part.name);
    }
    StoredTensor joined = join_parts(file, parts);
    joined.name = file.name;
    tensors[file.name] = std::move(joined);
  }
  return tensors;
}

/// model.safetensors of any float tensors, in f32.
inline void write_weights(const TestDir& dir, const std::string& folder, const TensorSet& tensors) {
  std::vector<SafetensorsSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, "F32", tensor.shape});
  dir.write(folder + "/model.safetensors", "");
  auto writer = SafetensorsWriter::create(dir.file(folder + "/model.safetensors"), specs).value();
  for (const auto& [name, tensor] : tensors)
    MS_CHECK(writer->append(tensor.data, tensor.size_bytes).ok(), name);
  MS_CHECK(writer->finish().ok(), "finish");
}

/// config.json and model.safetensors. Returns the folder.
inline std::string write_hf_folder(const TestDir& dir, const ModelConfig& config,
                                   const TensorSet& tensors) {
  dir.write("hf/config.json", json_text(make_hf_config(config, "float32").value()));
  write_weights(dir, "hf", files_of(config, tensors));
  return dir.file("hf");
}

/// The rows of q and k as llama.cpp's converter orders them: row 2 i + s of a head holds row i + s
/// c/2.
inline std::vector<float> permuted(const std::vector<float>& values, int64_t row_elements,
                                   int64_t c) {
  std::vector<float> out(values.size());
  const auto rows = static_cast<int64_t>(values.size()) / row_elements;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / c;
    const int64_t i = row % c % (c / 2);
    const int64_t s = row % c / (c / 2);
    const int64_t to = head * c + 2 * i + s;
    std::memcpy(out.data() + to * row_elements, values.data() + row * row_elements,
                static_cast<size_t>(row_elements) * sizeof(float));
  }
  return out;
}

/// Metadata of a GGUF model without its tensors.
inline GgufBuilder gguf_metadata(const ModelConfig& config) {
  const std::string architecture = config.family == "mistral" ? "llama" : config.family;
  const std::string f = architecture + ".";
  GgufBuilder builder;
  builder.add_text("general.architecture", architecture)
      .add_u32(f + "block_count", static_cast<uint32_t>(config.layers))
      .add_u32(f + "context_length", static_cast<uint32_t>(config.context_length))
      .add_u32(f + "embedding_length", static_cast<uint32_t>(config.d))
      .add_u32(f + "feed_forward_length", static_cast<uint32_t>(config.ffn))
      .add_u32(f + "attention.head_count", static_cast<uint32_t>(config.query_heads))
      .add_u32(f + "attention.head_count_kv", static_cast<uint32_t>(config.kv_heads))
      .add_u32(f + "attention.key_length", static_cast<uint32_t>(config.head_width))
      .add_f32(f + (config.layer_norm ? "attention.layer_norm_epsilon"
                                      : "attention.layer_norm_rms_epsilon"),
               config.rms_eps)
      .add_f32(f + "rope.freq_base", config.rope_theta)
      .add_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(config.eos_tokens.at(0)))
      .add_u32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(config.bos_token));
  if (config.rotary_width != 0)
    builder.add_u32(f + "rope.dimension_count", static_cast<uint32_t>(config.rotary_width));
  if (config.sandwich_norms) builder.add_u32(f + "attention.sliding_window_pattern", 2);
  if (config.attention_softcap > 0)
    builder.add_f32(f + "attn_logit_softcapping", config.attention_softcap);
  if (config.final_softcap > 0)
    builder.add_f32(f + "final_logit_softcapping", config.final_softcap);
  if (config.local_rope_theta > 0)
    builder.add_f32(f + "rope.freq_base_swa", config.local_rope_theta);
  if (config.window != 0)
    builder.add_u32(f + "attention.sliding_window", static_cast<uint32_t>(config.window));
  return builder;
}

/// Adds f32 tensors as the converter would; those named in `skip` (GGUF names) are left out.
inline void add_gguf_tensors(const ModelConfig& config, const TensorSet& tensors,
                             GgufBuilder& builder, const std::vector<std::string>& skip = {}) {
  for (const auto& [name, tensor] : files_of(config, tensors, FileKind::kGguf)) {
    const std::string gguf_name = gguf_name_of_hf(name, name_style(config));
    if (std::find(skip.begin(), skip.end(), gguf_name) != skip.end()) continue;
    std::vector<float> values = read_f32(tensor);
    const bool is_qk =
        name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos;
    if (is_qk && (config.family == "llama" || config.family == "mistral")) {
      values = permuted(values, tensor.shape.size() == 2 ? tensor.shape[1] : 1, config.head_width);
    }
    if (config.norm_plus_one && name.ends_with("norm.weight")) {
      for (float& value : values) value += 1.0f;
    }
    builder.add_f32_tensor(gguf_name, {tensor.shape.rbegin(), tensor.shape.rend()}, values);
  }
}

/// A folder of tests/golden/.
inline std::string golden(const std::string& name) {
  const char* root = std::getenv("MS_SOURCE_DIR");
  MS_CHECK(root != nullptr, "run tests through ctest, or set MS_SOURCE_DIR");
  return std::string(root) + "/tests/golden/" + name;
}

}  // namespace mainspring
