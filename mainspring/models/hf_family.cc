#include "mainspring/models/hf_family.h"

namespace mainspring {
namespace {

constexpr HfFamily kFamilies[] = {
    {.name = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .model_type = "gemma2",
     .has_attention_bias = true,
     .window = WindowRule::kPattern,
     .default_window = 4096,
     .default_pattern = 2,
     .default_head_width = 256,
     .default_kv_heads = 4,
     .is_gemma = true,
     .has_attention_softcap = true,
     .default_attention_softcap = 50.0f,
     .default_final_softcap = 30.0f},
    {.name = "gemma3",
     .architecture = "Gemma3ForCausalLM",
     .model_type = "gemma3_text",
     .has_attention_bias = true,
     .qk_norm = true,
     .window = WindowRule::kPattern,
     .default_window = 4096,
     .default_pattern = 6,
     .default_head_width = 256,
     .default_kv_heads = 4,
     .is_gemma = true,
     .default_local_theta = 10000.0f,
     .default_global_theta = 1000000.0f},
    {.name = "gpt2", .architecture = "GPT2LMHeadModel", .model_type = "gpt2", .is_gpt2 = true},
    {.name = "llama",
     .architecture = "LlamaForCausalLM",
     .model_type = "llama",
     .has_attention_bias = true,
     .has_mlp_bias = true},
    {.name = "mistral",
     .architecture = "MistralForCausalLM",
     .model_type = "mistral",
     .window = WindowRule::kEveryLayer,
     .default_window = 4096,
     .default_kv_heads = 8},
    {.name = "phi3",
     .architecture = "Phi3ForCausalLM",
     .model_type = "phi3",
     .has_partial_rotary = true,
     .window = WindowRule::kEveryLayer,
     .default_rms_eps = 1e-5f},
    {.name = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .qkv_bias_always = true,
     .window = WindowRule::kSwitched,
     .default_window = 4096,
     .default_kv_heads = 32},
    {.name = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .model_type = "qwen3",
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
