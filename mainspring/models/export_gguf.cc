#include "mainspring/models/export_gguf.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "mainspring/base/check.h"
#include "mainspring/io/gguf.h"
#include "mainspring/io/gguf_writer.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/models/export_weights.h"
#include "mainspring/models/file_layout.h"
#include "mainspring/models/gguf_config.h"
#include "mainspring/models/hf_config.h"
#include "mainspring/models/model_text.h"
#include "mainspring/models/names.h"
#include "mainspring/models/rope_table.h"
#include "mainspring/models/row_order.h"
#include "mainspring/text/tokenizer_to_gguf.h"
#include "mainspring/weights/dequantise.h"
#include "mainspring/weights/quantise.h"

namespace mainspring {
namespace {

constexpr const char* kRopeFactors = "rope_freqs.weight";

/// A type as GGUF numbers it, and what general.file_type calls a file of mostly that type.
struct FileType {
  DType dtype;
  uint32_t tensor_type;
  uint32_t file_type;
};
constexpr FileType kFileTypes[] = {{DType::kF32, kGgmlF32, 0},
                                   {DType::kF16, kGgmlF16, 1},
                                   {DType::kQ8_0, kGgmlQ8_0, 7},
                                   {DType::kBF16, kGgmlBF16, 32}};

const FileType& file_type_of(DType dtype) {
  for (const FileType& type : kFileTypes) {
    if (type.dtype == dtype) return type;
  }
  MS_CHECK(false, "GGUF files are written in f32, f16, bf16 and q8_0");
  return kFileTypes[0];
}

/// llama.cpp adds learned positions as they are: F32 like vectors.
DType dtype_in_file(const FileTensor& file, DType dtype) {
  const bool is_wide = file.shape.size() != 2 || file.parts[0].name.ends_with("positions.weight");
  return is_wide ? DType::kF32 : dtype;
}

// ---- Metadata

/// What a reply ends with: the makers' generation defaults go before the config's.
const std::vector<int32_t>& eos_tokens_of(const LoadedModel& model) {
  return model.generation.eos_tokens.empty() ? model.config.eos_tokens
                                             : model.generation.eos_tokens;
}

Status check_family(const ModelConfig& config) {
  const std::vector<std::string> known = {"gemma2",  "gemma3", "gpt2",  "llama",
                                          "mistral", "phi3",   "qwen2", "qwen3"};
  if (std::find(known.begin(), known.end(), config.family) != known.end()) return Status();
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  return unimplemented("family '" + config.family + "' cannot be written to a GGUF file, only " +
                       list);
}

/// llama.cpp reads Mistral's files as Llama's with a window.
std::string architecture_of(const ModelConfig& config) {
  return config.family == "mistral" ? "llama" : config.family;
}

/// Layers up to and with the first full one, which come again and again.
int64_t window_pattern(const ModelConfig& config) {
  int64_t layer = 0;
  while (layer < config.layers && layer_window(config, layer) > 0) ++layer;
  return layer + 1;
}

void add_gemma(const ModelConfig& config, const std::string& p, GgufMetadata& out) {
  if (config.window > 0)
    out.add_u32(p + "attention.sliding_window_pattern",
                static_cast<uint32_t>(window_pattern(config)));
  if (config.attention_softcap > 0.0f)
    out.add_f32(p + "attn_logit_softcapping", config.attention_softcap);
  if (config.final_softcap > 0.0f) out.add_f32(p + "final_logit_softcapping", config.final_softcap);
  if (config.local_rope_theta > 0.0f)
    out.add_f32(p + "rope.freq_base_swa", config.local_rope_theta);
}

void add_rope(const ModelConfig& config, const std::string& p, GgufMetadata& out) {
  out.add_u32(p + "rope.dimension_count", static_cast<uint32_t>(rotary_width(config)));
  out.add_f32(p + "rope.freq_base", config.rope_theta);
  if (config.rope_scaling.kind != RopeScaling::Kind::kLinear) return;
  out.add_text(p + "rope.scaling.type", "linear");
  out.add_f32(p + "rope.scaling.factor", config.rope_scaling.factor);
}

void add_sizes(const ModelConfig& config, GgufMetadata& out) {
  const std::string p = architecture_of(config) + ".";
  const auto size = [&](const char* key, int64_t value) {
    out.add_u32(p + key, static_cast<uint32_t>(value));
  };
  size("vocab_size", config.vocabulary);
  size("context_length", config.context_length);
  size("embedding_length", config.d);
  size("block_count", config.layers);
  size("feed_forward_length", config.ffn);
  size("attention.head_count", config.query_heads);
  size("attention.head_count_kv", config.kv_heads);
  size("attention.key_length", config.head_width);
  size("attention.value_length", config.head_width);
  if (config.window > 0) size("attention.sliding_window", config.window);
  out.add_f32(
      p + (config.layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"),
      config.rms_eps);
  if (config.sandwich_norms) add_gemma(config, p, out);
  if (!config.learned_positions) add_rope(config, p, out);
}

/// One factor per rotary pair, which llama.cpp divides frequencies by; empty: none.
std::vector<float> rope_factors(const ModelConfig& config) {
  if (config.rope_scaling.kind == RopeScaling::Kind::kFactors) return config.rope_scaling.factors;
  if (config.rope_scaling.kind != RopeScaling::Kind::kLlama3) return {};
  const auto plain = rope_frequencies(config.rope_theta, {}, rotary_width(config));
  const auto scaled =
      rope_frequencies(config.rope_theta, config.rope_scaling, rotary_width(config));
  std::vector<float> factors;
  for (size_t i = 0; i < plain.size(); ++i) factors.push_back(plain[i] / scaled[i]);
  return factors;
}

Status add_eos_tokens(const LoadedModel& model, GgufMetadata& out) {
  constexpr const char* kKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                   "tokenizer.ggml.eom_token_id"};
  const std::vector<int32_t>& tokens = eos_tokens_of(model);
  if (tokens.size() > std::size(kKeys)) {
    return unimplemented(std::to_string(tokens.size()) +
                         " tokens end a reply, a GGUF file can name 3");
  }
  for (size_t i = 0; i < tokens.size(); ++i)
    out.add_u32(kKeys[i], static_cast<uint32_t>(tokens[i]));
  return Status();
}

void add_tokenizer(const GgufTokenizer& tokenizer, GgufMetadata& out) {
  const std::string p = "tokenizer.ggml.";
  out.add_text(p + "model", tokenizer.model);
  if (!tokenizer.pre.empty()) out.add_text(p + "pre", tokenizer.pre);
  out.add_texts(p + "tokens", tokenizer.tokens);
  if (!tokenizer.token_types.empty()) out.add_i32s(p + "token_type", tokenizer.token_types);
  if (!tokenizer.scores.empty()) out.add_f32s(p + "scores", tokenizer.scores);
  if (!tokenizer.merges.empty()) out.add_texts(p + "merges", tokenizer.merges);
  if (tokenizer.unknown_token >= 0)
    out.add_u32(p + "unknown_token_id", static_cast<uint32_t>(tokenizer.unknown_token));
  out.add_bool(p + "add_bos_token", tokenizer.add_bos_token);
  out.add_bool(p + "add_eos_token", tokenizer.add_eos_token);
  if (tokenizer.model == "llama") out.add_bool(p + "add_space_prefix", tokenizer.add_space_prefix);
}

Result<std::optional<GgufTokenizer>> tokenizer_of(const LoadedModel& model) {
  if (model.tokenizer.gguf.has_value()) return model.tokenizer.gguf;
  MS_ASSIGN_OR_RETURN(const ModelText text, make_model_text(model));
  if (text.tokenizer == nullptr) return std::optional<GgufTokenizer>();
  MS_ASSIGN_OR_RETURN(GgufTokenizer fields,
                      gguf_tokenizer_of(*text.tokenizer, model.config.vocabulary));
  return std::optional<GgufTokenizer>(std::move(fields));
}

Result<GgufMetadata> metadata_of(const LoadedModel& model, DType dtype) {
  const ModelConfig& config = model.config;
  MS_RETURN_IF_ERROR(check_family(config));
  GgufMetadata out;
  out.add_text("general.architecture", architecture_of(config));
  out.add_u32("general.file_type", file_type_of(dtype).file_type);
  if (is_quantised(dtype)) out.add_u32("general.quantization_version", 2);
  add_sizes(config, out);
  MS_ASSIGN_OR_RETURN(const auto tokenizer, tokenizer_of(model));
  if (tokenizer.has_value()) {
    add_tokenizer(*tokenizer, out);
  } else {
    out.add_text("tokenizer.ggml.model", "none");  // llama.cpp reads no file that does not say it
  }
  MS_RETURN_IF_ERROR(add_eos_tokens(model, out));
  if (config.bos_token >= 0)
    out.add_u32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(config.bos_token));
  if (config.pad_token >= 0)
    out.add_u32("tokenizer.ggml.padding_token_id", static_cast<uint32_t>(config.pad_token));
  if (!model.tokenizer.chat_template.empty())
    out.add_text("tokenizer.chat_template", model.tokenizer.chat_template);
  return out;
}

// ---- Tensors

Result<std::vector<GgufTensorSpec>> specs_of(const ModelConfig& config,
                                             const std::vector<float>& factors, DType dtype) {
  std::vector<GgufTensorSpec> specs;
  if (!factors.empty()) {
    const auto count = static_cast<int64_t>(factors.size());
    specs.push_back({kRopeFactors, kGgmlF32, {count}, 4 * count});
  }
  for (const FileTensor& file : file_tensors(config, FileKind::kGguf)) {
    const DType stored = dtype_in_file(file, dtype);
    const int64_t row = file.shape.back();
    if (row % dtype_block_elements(stored) != 0) {
      return invalid_argument("tensor '" + file.name + "': rows of " + std::to_string(row) +
                              " are no whole number of " + std::string(dtype_name(stored)) +
                              " blocks of " + std::to_string(dtype_block_elements(stored)) +
                              "; write f32, f16 or bf16");
    }
    const int64_t elements = file.shape.size() == 2 ? file.shape[0] * row : row;
    specs.push_back({gguf_name_of_hf(file.name, name_style(config)),
                     file_type_of(stored).tensor_type,
                     {file.shape.rbegin(), file.shape.rend()},
                     dtype_bytes(stored, elements)});
    MS_CHECK(!specs.back().name.empty(), file.name);
  }
  return specs;
}

/// Halves end at 65,504; weights beyond would become infinite.
Status check_halves(const StoredTensor& halves) {
  const std::vector<float> values = read_f32(halves);
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  if (bad == values.end()) return Status();
  const int64_t place = bad - values.begin();
  return invalid_argument("tensor '" + halves.name + "': row " +
                          std::to_string(place / row_elements(halves)) + ", column " +
                          std::to_string(place % row_elements(halves)) +
                          " is beyond f16; write bf16 or f32");
}

Result<StoredTensor> convert(const StoredTensor& tensor, DType dtype) {
  if (tensor.dtype == dtype) return tensor;
  if (is_quantised(dtype))
    return quantise(is_quantised(tensor.dtype) ? to_dtype(tensor, DType::kF32) : tensor, dtype);
  StoredTensor out = to_dtype(tensor, dtype);
  if (dtype == DType::kF16) MS_RETURN_IF_ERROR(check_halves(out));
  return out;
}

/// A norm's weight with the one that the norm adds to it, as converters store it.
StoredTensor with_one(const StoredTensor& tensor) {
  std::vector<float> values = read_f32(tensor);
  for (float& value : values) value += 1.0f;
  return make_tensor(tensor.name, tensor.shape, DType::kF32, values);
}

Result<StoredTensor> part_in_file(const LoadedModel& model, const GgufExportOptions& options,
                                  const std::string& name, DType dtype) {
  StoredTensor source = exported_tensor(model.weights.at(name), options.weights, options.adapter);
  if (model.config.norm_plus_one && name.ends_with("norm.weight")) source = with_one(source);
  MS_ASSIGN_OR_RETURN(StoredTensor out, convert(source, dtype));
  return has_permuted_rows(model.config, name) ? with_adjacent_pairs(out, model.config.head_width)
                                               : out;
}

Status write_tensors(const LoadedModel& model, const GgufExportOptions& options,
                     GgufWriter& writer) {
  for (const FileTensor& file : file_tensors(model.config, FileKind::kGguf)) {
    std::vector<StoredTensor> parts;
    for (const ParameterSpec& part : file.parts) {
      MS_ASSIGN_OR_RETURN(StoredTensor out, part_in_file(model, options, part.name,
                                                         dtype_in_file(file, options.dtype)));
      parts.push_back(std::move(out));
    }
    const StoredTensor out = join_parts(file, parts);
    MS_RETURN_IF_ERROR(writer.append(out.data, out.size_bytes));
  }
  return Status();
}

/// The fields of a Hugging Face config that differ between the two.
std::string differing_fields(const ModelConfig& a, const ModelConfig& b) {
  const std::pair<const char*, bool> fields[] = {
      {"query_pre_attn_scalar", a.query_scalar == b.query_scalar},
      {"layer_types", a.windowed_layers == b.windowed_layers},
      {"sliding_window", a.window == b.window},
      {"rope_scaling", a.rope_scaling == b.rope_scaling},
      {"rope_theta", a.rope_theta == b.rope_theta},
      {"rope_local_base_freq", a.local_rope_theta == b.local_rope_theta},
      {"partial_rotary_factor", a.rotary_width == b.rotary_width},
      {"attn_logit_softcapping", a.attention_softcap == b.attention_softcap},
      {"final_logit_softcapping", a.final_softcap == b.final_softcap},
      {"head_dim", a.head_width == b.head_width},
      {"rms_norm_eps", a.rms_eps == b.rms_eps},
      {"max_position_embeddings", a.context_length == b.context_length},
      {"tie_word_embeddings", a.tied_embeddings == b.tied_embeddings},
      {"eos_token_id", a.eos_tokens == b.eos_tokens},
      {"bos_token_id", a.bos_token == b.bos_token},
      {"pad_token_id", a.pad_token == b.pad_token}};
  std::string names;
  for (const auto& [name, is_equal] : fields) {
    if (!is_equal) names += std::string(names.empty() ? "" : ", ") + name;
  }
  return names.empty() ? "a bias or a norm" : names;
}

/// The file must say the model's config again.
Status check_config(const std::string& written, const LoadedModel& model) {
  MS_ASSIGN_OR_RETURN(const auto file, GgufFile::open(written));
  MS_ASSIGN_OR_RETURN(ModelConfig config, read_gguf_config(*file));
  ModelConfig expected = model.config;
  expected.eos_tokens = eos_tokens_of(model);
  // GGUF has one architecture for both, told apart by the window alone.
  if (expected.family == "mistral" && expected.window == 0) expected.family = "llama";
  // Stretched frequencies are written as factors, which are recognised only where they are the
  // published ones.
  if (expected.rope_scaling.kind == RopeScaling::Kind::kLlama3) {
    config.rope_scaling = expected.rope_scaling;
  }
  if (config == expected) return Status();
  return unimplemented("a GGUF file of family '" + model.config.family +
                       "' cannot say the config's " + differing_fields(config, expected));
}

}  // namespace

Status export_gguf(const LoadedModel& model, const std::string& path,
                   const GgufExportOptions& options) {
  MS_RETURN_IF_ERROR(check_export_weights(model, options.weights));
  if (needs_own_class(model.config)) {
    return unimplemented("export: a GGUF file of family '" + model.config.family +
                         "' cannot say the config's final_logit_softcapping");
  }
  MS_ASSIGN_OR_RETURN(const GgufMetadata metadata, metadata_of(model, options.dtype));
  const std::vector<float> factors = rope_factors(model.config);
  MS_ASSIGN_OR_RETURN(std::vector<GgufTensorSpec> specs,
                      specs_of(model.config, factors, options.dtype));
  if (is_regular_file(path)) return already_exists(path + ": already exists");
  MS_ASSIGN_OR_RETURN(const auto writer, GgufWriter::create(path, metadata, std::move(specs)));
  if (!factors.empty())
    MS_RETURN_IF_ERROR(writer->append(factors.data(), 4 * static_cast<int64_t>(factors.size())));
  MS_RETURN_IF_ERROR(write_tensors(model, options, *writer));
  MS_ASSIGN_OR_RETURN(const std::string written, writer->finish());
  MS_RETURN_IF_ERROR(check_config(written, model));
  return writer->commit();
}

}  // namespace mainspring
