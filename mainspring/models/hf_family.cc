#include "mainspring/models/hf_family.h"

namespace mainspring {
namespace {

constexpr HfFamily kFamilies[] = {
    {.name = "llama",
     .architecture = "LlamaForCausalLM",
     .has_attention_bias = true,
     .has_mlp_bias = true},
    {.name = "mistral",
     .architecture = "MistralForCausalLM",
     .window = WindowRule::kEveryLayer,
     .default_window = 4096,
     .default_kv_heads = 8},
    {.name = "phi3",
     .architecture = "Phi3ForCausalLM",
     .has_partial_rotary = true,
     .window = WindowRule::kEveryLayer,
     .default_rms_eps = 1e-5f},
    {.name = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .qkv_bias_always = true,
     .window = WindowRule::kSwitched,
     .default_window = 4096,
     .default_kv_heads = 32},
    {.name = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .has_attention_bias = true,
     .qk_norm = true,
     .window = WindowRule::kSwitched,
     .default_window = 4096,
     .default_head_width = 128,
     .default_kv_heads = 32},
};

}  // namespace

std::span<const HfFamily> hf_families() { return kFamilies; }

const HfFamily* find_hf_family(std::string_view name) {
  for (const HfFamily& family : kFamilies) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

}  // namespace mainspring
