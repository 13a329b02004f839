#include "mainspring/models/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "mainspring/base/elementary.h"
#include "mainspring/base/nearest.h"

namespace mainspring {
namespace {

struct Family {
  std::string_view name;
  bool qk_norm;
};
constexpr Family kFamilies[] = {{"gemma2", false}, {"gemma3", true}, {"gpt2", false},
                                {"llama", false},  {"phi3", false},  {"qwen2", false},
                                {"qwen3", true}};

Result<const Family*> find_family(const GgufFile& file) {
  MS_ASSIGN_OR_RETURN(const std::string name, file.get_string("general.architecture"));
  std::vector<std::string> known;
  for (const Family& family : kFamilies) {
    if (family.name == name) return &family;
    known.emplace_back(family.name);
  }
  return unimplemented(file.path() + ": general.architecture '" + name +
                       "' is not supported; supported are gemma2, gemma3, gpt2, llama, phi3, "
                       "qwen2, qwen3 (nearest: " +
                       nearest_name(name, known) + ")");
}

/// Reads the keys of one architecture.
class Reader {
 public:
  Reader(const GgufFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  std::string key(std::string_view name) const { return prefix_ + "." + std::string(name); }
  bool has(std::string_view name) const { return file_.has(key(name)); }
  Result<int64_t> get_int(std::string_view name) const { return file_.get_int(key(name)); }
  Result<int64_t> get_int_or(std::string_view name, int64_t fallback) const {
    return has(name) ? get_int(name) : Result<int64_t>(fallback);
  }
  Result<std::string> get_string_or(std::string_view name, std::string_view fallback) const {
    return has(name) ? file_.get_string(key(name)) : Result<std::string>(std::string(fallback));
  }
  Status read_float(std::string_view name, float& out) const {
    MS_ASSIGN_OR_RETURN(const double value, file_.get_number(key(name)));
    if (!std::isfinite(value) ||
        std::fabs(value) > static_cast<double>(std::numeric_limits<float>::max())) {
      return invalid_argument(file_.path() + ": metadata '" + key(name) +
                              "': does not fit a 32-bit float");
    }
    out = static_cast<float>(value);
    return Status();
  }
  Status refuse(std::string_view name, const std::string& why) const {
    return unimplemented(file_.path() + ": metadata '" + key(name) + "': " + why);
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

/// All keys of the architecture must be known: llama.cpp has one namespace for many variants.
Status refuse_unknown_keys(const GgufFile& file, const std::string& prefix) {
  const std::vector<std::string> known = {
      "block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size",
      "attention.head_count", "attention.head_count_kv", "attention.key_length",
      "attention.value_length", "attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon",
      "rope.freq_base", "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor",
      "rope.scale_linear", "rope.scaling.original_context_length", "rope.scaling.finetuned",
      "tensor_data_layout",
      // Zero experts and causal attention are what a dense decoder has; other values are refused
      // below.
      "expert_count", "expert_used_count", "attention.causal", "rope.scaling.attn_factor",
      "attention.sliding_window", "use_parallel_residual", "attention.clamp_kqv",
      "attention.max_alibi_bias", "attn_logit_softcapping", "final_logit_softcapping",
      "attention.sliding_window_pattern", "rope.freq_base_swa"};
  for (const auto& [key, value] : file.metadata()) {
    if (!key.starts_with(prefix + ".")) continue;
    const std::string name = key.substr(prefix.size() + 1);
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return unimplemented(file.path() + ": metadata '" + key +
                         "' is not supported (nearest known key: " + prefix + "." +
                         nearest_name(name, known) + ")");
  }
  return Status();
}

bool is_gemma(std::string_view family) { return family == "gemma2" || family == "gemma3"; }

Status refuse_unhandled_values(const GgufFile& file, const Reader& reader,
                               std::string_view family) {
  struct GemmaKey {
    std::string_view name;
    bool is_of_second, is_of_third;
  };
  constexpr GemmaKey kGemmaKeys[] = {{"attn_logit_softcapping", true, false},
                                     {"final_logit_softcapping", true, true},
                                     {"attention.sliding_window_pattern", true, true},
                                     {"rope.freq_base_swa", false, true}};
  for (const GemmaKey& key : kGemmaKeys) {
    const bool is_read =
        (family == "gemma2" && key.is_of_second) || (family == "gemma3" && key.is_of_third);
    if (reader.has(key.name) && !is_read)
      return reader.refuse(key.name, "is not supported with this architecture");
  }
  for (const std::string_view name : {"expert_count", "expert_used_count"}) {
    MS_ASSIGN_OR_RETURN(const int64_t value, reader.get_int_or(name, 0));
    if (value != 0) return reader.refuse(name, std::to_string(value) + " is not supported, only 0");
  }
  for (const std::string_view name : {"attention.clamp_kqv", "attention.max_alibi_bias"}) {
    if (!reader.has(name)) continue;
    MS_ASSIGN_OR_RETURN(const double value, file.get_number(reader.key(name)));
    if (value != 0.0) return reader.refuse(name, "is not supported, only 0");
  }
  if (reader.has("rope.scaling.attn_factor")) {
    MS_ASSIGN_OR_RETURN(const double value,
                        file.get_number(reader.key("rope.scaling.attn_factor")));
    if (value != 1.0) return reader.refuse("rope.scaling.attn_factor", "is not supported, only 1");
  }
  if (reader.has("attention.causal")) {
    MS_ASSIGN_OR_RETURN(const bool causal, file.get_bool(reader.key("attention.causal")));
    if (!causal) return reader.refuse("attention.causal", "false is not supported");
  }
  if (reader.has("use_parallel_residual")) {
    MS_ASSIGN_OR_RETURN(const bool parallel, file.get_bool(reader.key("use_parallel_residual")));
    if (parallel) return reader.refuse("use_parallel_residual", "true is not supported");
  }
  MS_ASSIGN_OR_RETURN(const std::string layout,
                      reader.get_string_or("tensor_data_layout", "Meta AI original pth"));
  if (layout != "Meta AI original pth")
    return reader.refuse("tensor_data_layout", "'" + layout + "' is not supported");
  return Status();
}

Status read_sizes(const GgufFile& file, const Reader& reader, ModelConfig& config) {
  MS_ASSIGN_OR_RETURN(config.layers, reader.get_int("block_count"));
  MS_ASSIGN_OR_RETURN(config.context_length, reader.get_int("context_length"));
  MS_ASSIGN_OR_RETURN(config.d, reader.get_int("embedding_length"));
  MS_ASSIGN_OR_RETURN(config.ffn, reader.get_int("feed_forward_length"));
  MS_ASSIGN_OR_RETURN(config.query_heads, reader.get_int("attention.head_count"));
  MS_ASSIGN_OR_RETURN(config.kv_heads,
                      reader.get_int_or("attention.head_count_kv", config.query_heads));
  if (config.query_heads < 1)
    return invalid_argument(file.path() + ": metadata '" + reader.key("attention.head_count") +
                            "': expected at least 1");
  MS_ASSIGN_OR_RETURN(config.head_width,
                      reader.get_int_or("attention.key_length", config.d / config.query_heads));
  MS_ASSIGN_OR_RETURN(const int64_t value_width,
                      reader.get_int_or("attention.value_length", config.head_width));
  if (value_width != config.head_width) {
    return reader.refuse("attention.value_length",
                         "differs from the key length " + std::to_string(config.head_width));
  }
  MS_ASSIGN_OR_RETURN(const int64_t rotary,
                      reader.get_int_or("rope.dimension_count", config.head_width));
  if (rotary != config.head_width) {
    if (config.family != "phi3") {
      return reader.refuse("rope.dimension_count", std::to_string(rotary) +
                                                       " is not supported, only the head width " +
                                                       std::to_string(config.head_width));
    }
    config.rotary_width = rotary;
  }
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding == file.tensors().end() || embedding->second.dims.size() != 2) {
    return invalid_argument(file.path() + ": tensor 'token_embd.weight' is missing or no matrix");
  }
  config.vocabulary = embedding->second.dims[1];
  return Status();
}

/// Bounds what is made per layer before the whole config is checked.
Status check_layers(const GgufFile& file, const ModelConfig& config) {
  if (config.layers >= 1 && config.layers <= 4096) return Status();
  return invalid_argument(file.path() + ": metadata 'block_count': expected 1 to 4096, got " +
                          std::to_string(config.layers));
}

/// What Gemma's files leave to the reader follows llama.cpp: 27B models scale their scores by the
/// width of a head if d were cut evenly, the others by the head width.
Status read_gemma(const Reader& reader, ModelConfig& config) {
  const bool is_third = config.family == "gemma3";
  config.activation = MlpActivation::kGeluTanh;
  config.norm_plus_one = true;
  config.sandwich_norms = true;
  config.scaled_embeddings = true;
  const int64_t layers_of_27b = is_third ? 62 : 46;
  config.query_scalar = static_cast<float>(
      config.layers == layers_of_27b ? config.d / config.query_heads : config.head_width);
  config.attention_softcap = is_third ? 0.0f : 50.0f;
  config.final_softcap = is_third ? 0.0f : 30.0f;
  if (reader.has("attn_logit_softcapping"))
    MS_RETURN_IF_ERROR(reader.read_float("attn_logit_softcapping", config.attention_softcap));
  if (reader.has("final_logit_softcapping"))
    MS_RETURN_IF_ERROR(reader.read_float("final_logit_softcapping", config.final_softcap));
  MS_ASSIGN_OR_RETURN(config.window,
                      reader.get_int_or("attention.sliding_window", is_third ? 0 : 4096));
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  MS_ASSIGN_OR_RETURN(const int64_t every, reader.get_int_or(kPattern, is_third ? 6 : 2));
  if (every < 2) return reader.refuse(kPattern, std::to_string(every) + ", only 2 or more");
  for (int64_t layer = 0; layer < config.layers && config.window > 0; ++layer)
    config.windowed_layers.push_back((layer + 1) % every != 0);
  if (!is_third) return Status();
  config.local_rope_theta = 10000.0f;
  if (!reader.has("rope.freq_base_swa")) return Status();
  return reader.read_float("rope.freq_base_swa", config.local_rope_theta);
}

/// The llama architecture with a window is Mistral; converters write 0 where there is none.
Status read_window(const Reader& reader, ModelConfig& config) {
  constexpr std::string_view kKey = "attention.sliding_window";
  MS_ASSIGN_OR_RETURN(const int64_t window, reader.get_int_or(kKey, 0));
  if (window == 0) return Status();
  if (config.family != "llama" && config.family != "phi3")
    return reader.refuse(kKey, std::to_string(window) + " is not supported, only 0");
  if (config.family == "llama") config.family = "mistral";
  config.window = window;
  return Status();
}

/// llama3's factor of one pair; see RopeScaling. f64: the converter's f32 is compared with a
/// tolerance.
double llama3_factor(double frequency, double factor, double original_context) {
  constexpr double kLow = 1.0;
  constexpr double kHigh = 4.0;
  constexpr double kTau = 6.283185307179586;
  const double wavelength = kTau / frequency;
  if (wavelength < original_context / kHigh) return 1.0;
  if (wavelength > original_context / kLow) return factor;
  const double smooth = (original_context / wavelength - kLow) / (kHigh - kLow);
  return 1.0 / ((1.0 - smooth) / factor + smooth);
}

/// The published llama3 scalings have low and high factors 1 and 4 and an original context of
/// 8,192; the largest factor is `factor`. A file whose factors are these to 1e-5 gets the scaling
/// by name, so that it computes the same bits as its Hugging Face folder and can be exported.
bool is_llama3(const std::vector<float>& factors, const ModelConfig& config) {
  constexpr double kOriginalContext = 8192.0;
  const double factor = static_cast<double>(*std::max_element(factors.begin(), factors.end()));
  for (size_t i = 0; i < factors.size(); ++i) {
    const double frequency =
        exact_pow(static_cast<double>(config.rope_theta),
                  -2.0 * static_cast<double>(i) / static_cast<double>(rotary_width(config)));
    const double expected = llama3_factor(frequency, factor, kOriginalContext);
    if (!(std::fabs(static_cast<double>(factors[i]) - expected) <= 1e-5 * expected)) return false;
  }
  return true;
}

Status refuse_longrope(const GgufFile& file) {
  for (const std::string_view name : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (!file.tensors().contains(std::string(name))) continue;
    return unimplemented(file.path() + ": tensor '" + std::string(name) +
                         "': longrope scaling is not supported");
  }
  return Status();
}

Status read_rope_factors(const GgufFile& file, const GgufTensor& tensor, ModelConfig& config) {
  const int64_t pairs = rotary_width(config) / 2;
  if (tensor.type != kGgmlF32 || tensor.dims != std::vector<int64_t>{pairs}) {
    return invalid_argument(file.path() + ": tensor 'rope_freqs.weight': expected F32 of " +
                            std::to_string(pairs) + " values");
  }
  if (config.rope_scaling.kind != RopeScaling::Kind::kNone) {
    return unimplemented(
        file.path() +
        ": tensor 'rope_freqs.weight' together with rope.scaling.type is not supported");
  }
  std::vector<float> factors(static_cast<size_t>(pairs));
  std::memcpy(factors.data(), tensor.data, static_cast<size_t>(tensor.size_bytes));
  RopeScaling& scaling = config.rope_scaling;
  if (is_llama3(factors, config)) {
    scaling.kind = RopeScaling::Kind::kLlama3;
    scaling.factor = *std::max_element(factors.begin(), factors.end());
    scaling.low_freq_factor = 1.0f;
    scaling.high_freq_factor = 4.0f;
    scaling.original_context = 8192;
  } else {
    scaling.kind = RopeScaling::Kind::kFactors;
    scaling.factors = std::move(factors);
  }
  return Status();
}

Status read_rope(const GgufFile& file, const Reader& reader, ModelConfig& config) {
  config.rope_theta = config.family == "gemma3" ? 1000000.0f : 10000.0f;
  if (reader.has("rope.freq_base"))
    MS_RETURN_IF_ERROR(reader.read_float("rope.freq_base", config.rope_theta));
  MS_ASSIGN_OR_RETURN(const std::string type, reader.get_string_or("rope.scaling.type", "none"));
  RopeScaling& scaling = config.rope_scaling;
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
    MS_RETURN_IF_ERROR(reader.read_float("rope.scaling.factor", scaling.factor));
  } else if (type != "none") {
    return reader.refuse("rope.scaling.type",
                         "'" + type + "' is not supported, only none and linear");
  } else if (reader.has("rope.scale_linear")) {  // the older spelling
    MS_RETURN_IF_ERROR(reader.read_float("rope.scale_linear", scaling.factor));
    if (scaling.factor != 1.0f) scaling.kind = RopeScaling::Kind::kLinear;
  }
  MS_RETURN_IF_ERROR(refuse_longrope(file));
  const auto factors = file.tensors().find("rope_freqs.weight");
  if (factors == file.tensors().end()) return Status();
  return read_rope_factors(file, factors->second, config);
}

Status read_token(const GgufFile& file, std::string_view name, int32_t& out) {
  const std::string key = "tokenizer.ggml." + std::string(name);
  if (!file.has(key)) return Status();
  MS_ASSIGN_OR_RETURN(const int64_t id, file.get_int(key));
  if (id == -1 || id == 0xffffffff) return Status();
  if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
    return invalid_argument(file.path() + ": metadata '" + key +
                            "': expected a token number, got " + std::to_string(id));
  }
  out = static_cast<int32_t>(id);
  return Status();
}

Status read_tokens(const GgufFile& file, ModelConfig& config) {
  int32_t eos = -1;
  int32_t eot = -1;
  int32_t eom = -1;
  MS_RETURN_IF_ERROR(read_token(file, "eos_token_id", eos));
  MS_RETURN_IF_ERROR(read_token(file, "eot_token_id", eot));
  MS_RETURN_IF_ERROR(read_token(file, "eom_token_id", eom));
  for (const int32_t token : {eos, eot, eom}) {
    const auto& known = config.eos_tokens;
    if (token >= 0 && std::find(known.begin(), known.end(), token) == known.end())
      config.eos_tokens.push_back(token);
  }
  MS_RETURN_IF_ERROR(read_token(file, "bos_token_id", config.bos_token));
  return read_token(file, "padding_token_id", config.pad_token);
}

}  // namespace

Result<ModelConfig> read_gguf_config(const GgufFile& file) {
  MS_ASSIGN_OR_RETURN(const Family* family, find_family(file));
  const Reader reader(file, std::string(family->name));
  MS_RETURN_IF_ERROR(refuse_unknown_keys(file, std::string(family->name)));
  MS_RETURN_IF_ERROR(refuse_unhandled_values(file, reader, family->name));
  ModelConfig config;
  config.family = family->name;
  config.qk_norm = family->qk_norm;
  MS_RETURN_IF_ERROR(read_sizes(file, reader, config));
  MS_RETURN_IF_ERROR(check_layers(file, config));
  if (is_gemma(config.family)) {
    MS_RETURN_IF_ERROR(read_gemma(reader, config));
  } else {
    MS_RETURN_IF_ERROR(read_window(reader, config));
  }
  const bool is_gpt2 = config.family == "gpt2";
  MS_RETURN_IF_ERROR(reader.read_float(
      is_gpt2 ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
      config.rms_eps));
  config.attention_bias =
      file.tensors().contains(is_gpt2 ? "blk.0.attn_qkv.bias" : "blk.0.attn_q.bias");
  config.output_bias = file.tensors().contains("blk.0.attn_output.bias");
  config.mlp_bias = file.tensors().contains(is_gpt2 ? "blk.0.ffn_up.bias" : "blk.0.ffn_gate.bias");
  config.tied_embeddings = !file.tensors().contains("output.weight");
  if (is_gpt2) {
    config.layer_norm = true;
    config.learned_positions = true;
    config.gated_mlp = false;
    config.activation = MlpActivation::kGeluTanh;
  }
  MS_RETURN_IF_ERROR(read_tokens(file, config));
  MS_RETURN_IF_ERROR(read_rope(file, reader, config));
  const Status valid = validate_config(config);
  if (!valid.ok()) return valid.with_context(file.path());
  return config;
}

bool has_permuted_rows(const ModelConfig& config, std::string_view hf_name) {
  if (config.family != "llama" && config.family != "mistral") return false;
  for (const std::string_view ending :
       {".q_proj.weight", ".k_proj.weight", ".q_proj.bias", ".k_proj.bias"}) {
    if (hf_name.ends_with(ending)) return true;
  }
  return false;
}

}  // namespace mainspring
