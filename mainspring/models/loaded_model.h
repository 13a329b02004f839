// LoadedModel: a model as it lies in its files, checked and named, with nothing computed.
//
// The one idea: a Hugging Face folder and a GGUF file give the same struct: one config, one set of
// tensors under Hugging Face names (mapped, not read), the tokenizer's own description and the
// generation defaults. Quantised GGUF tensors stay quantised. Design note: docs/design.md, section
// 2 (models/).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/gguf_tokenizer.h"
#include "mainspring/models/config.h"
#include "mainspring/weights/stored_tensor.h"

namespace mainspring {

enum class ModelSource { kHuggingFace, kGguf };

/// What the model's makers suggest for sampling; unset where they say nothing. The product's own
/// defaults do not come from here (temperature 1, no truncation).
struct GenerationConfig {
  std::vector<int32_t> eos_tokens;  // empty: use ModelConfig::eos_tokens
  std::optional<bool> do_sample;
  std::optional<float> temperature;
  std::optional<int32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
};

/// Where text/ builds a tokenizer from: exactly one of tokenizer_json and gguf is set, or neither.
struct TokenizerSource {
  std::string tokenizer_json;  // the file's text; empty for GGUF or when the folder has none
  std::optional<GgufTokenizer> gguf;
  std::string tokenizer_config_json;  // the file's text; may be empty
  std::string chat_template;          // Jinja text; empty: none
  /// Further templates by name ("tool_use", "rag"), without the default.
  std::map<std::string, std::string> named_chat_templates;
  /// Texts of special tokens, as templates see them; empty: none.
  std::string bos_token;
  std::string eos_token;
  std::string pad_token;
  std::string unk_token;
};

struct LoadedModel {
  ModelConfig config;
  /// HF names: model.embed_tokens.weight, model.layers.N.self_attn.q_proj.weight, ...,
  /// lm_head.weight only if untied. Exactly the names of model_parameters(config), each with its
  /// shape.
  TensorSet weights;
  std::string path;  // the folder or file it came from
  ModelSource source = ModelSource::kHuggingFace;
  TokenizerSource tokenizer;
  GenerationConfig generation;
  std::string config_json;             // config.json's text; empty for GGUF
  std::string generation_config_json;  // generation_config.json's text; may be empty
  int64_t num_parameters = 0;          // elements; tied ones once
  int64_t size_bytes = 0;              // of the stored weights
};

/// Loads a Hugging Face folder or a .gguf file by memory map; costs the parsing of headers, not of
/// weights (GGUF q/k rows of the llama architecture are copied once to undo their permutation).
/// Errors: not found (path, file); unimplemented with the supported list for an unknown
/// architecture, an unhandled config field or a tensor type; invalid argument for wrong shapes,
/// missing or unexpected tensors (named) and broken files (file and place).
Result<std::shared_ptr<const LoadedModel>> load_model(const std::string& path);

}  // namespace mainspring
