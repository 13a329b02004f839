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
};

/// One class, by its modeling and configuration files in transformers 5. Fields beyond the name
/// are the class's defaults where a field may be absent.
struct HfFamily {
  std::string_view name;  // also model_type
  std::string_view architecture;
  bool qkv_bias_always = false;     // Qwen2: no field says so
  bool has_attention_bias = false;  // reads attention_bias (for q, k, v and o alike)
  bool has_mlp_bias = false;        // reads mlp_bias
  bool qk_norm = false;
  bool has_partial_rotary = false;  // reads partial_rotary_factor
  WindowRule window = WindowRule::kNone;
  int64_t default_window = 0;
  int64_t default_head_width = 0;  // 0: d / h
  int64_t default_kv_heads = 0;    // 0: the query heads
  float default_rms_eps = 1e-6f;
};

std::span<const HfFamily> hf_families();

/// Null if there is no such family.
const HfFamily* find_hf_family(std::string_view name);

}  // namespace mainspring
