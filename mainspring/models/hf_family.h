// What sets the supported Hugging Face classes apart: which fields they read, and their defaults.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace mainspring {

/// Which fields say what a layer's query sees.
enum class WindowRule {
  kNone,        // the class reads none; one that is stated is a mistake
  kEveryLayer,  // sliding_window, null for none
  kSwitched,    // use_sliding_window, sliding_window, and max_window_layers or layer_types
  kPattern,     // sliding_window, and layer_types or every n-th layer full
};

/// One class, by its modeling and configuration files in transformers 5. Fields beyond the name
/// are the class's defaults where a field may be absent.
struct HfFamily {
  std::string_view name;
  std::string_view architecture;
  std::string_view model_type;
  bool qkv_bias_always = false;     // Qwen2: no field says so
  bool has_attention_bias = false;  // reads attention_bias (for q, k, v and o alike)
  bool has_mlp_bias = false;        // reads mlp_bias
  bool qk_norm = false;
  bool has_partial_rotary = false;  // reads partial_rotary_factor
  WindowRule window = WindowRule::kNone;
  int64_t default_window = 0;
  int64_t default_pattern = 0;     // kPattern: every n-th layer is full
  int64_t default_head_width = 0;  // 0: d / h
  int64_t default_kv_heads = 0;    // 0: the query heads
  float default_rms_eps = 1e-6f;
  bool is_gpt2 = false;  // fields and layer of its own: hf_config_gpt2.h
  /// Gemma's layer: norms with 1 + w around attention and MLP, scaled embeddings, a gated MLP of
  /// tanh gelu, query_pre_attn_scalar, and a head tied by default.
  bool is_gemma = false;
  bool has_attention_softcap = false;
  float default_attention_softcap = 0.0f;
  float default_final_softcap = 0.0f;
  /// Windowed layers have a rotary theta of their own; both defaults. 0: one theta, 10,000.
  float default_local_theta = 0.0f;
  float default_global_theta = 10000.0f;
};

std::span<const HfFamily> hf_families();

/// By ModelConfig::family; null if there is no such one.
const HfFamily* find_hf_family(std::string_view name);

}  // namespace mainspring
