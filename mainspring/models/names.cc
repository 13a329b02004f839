#include "mainspring/models/names.h"

#include <algorithm>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

constexpr unsigned bit(NameStyle style) { return 1u << static_cast<unsigned>(style); }
constexpr unsigned kEvery = ~0u;
constexpr unsigned kSplit = bit(NameStyle::kSplit) | bit(NameStyle::kSandwich);
constexpr unsigned kFused = bit(NameStyle::kFused);
constexpr unsigned kSandwich = bit(NameStyle::kSandwich);
constexpr unsigned kGpt2 = bit(NameStyle::kGpt2);

struct Stem {
  std::string_view hf;
  std::string_view gguf;
  bool in_layer;
  unsigned styles = kEvery;  // a bit per NameStyle

  bool is_of(NameStyle style) const { return (styles & bit(style)) != 0; }
};
constexpr Stem kStems[] = {
    {"model.embed_tokens", "token_embd", false},
    {"model.embed_positions", "position_embd", false, kGpt2},
    {"input_layernorm", "attn_norm", true},
    {"self_attn.q_proj", "attn_q", true, kSplit},
    {"self_attn.k_proj", "attn_k", true, kSplit},
    {"self_attn.v_proj", "attn_v", true, kSplit},
    {"self_attn.qkv_proj", "attn_qkv", true, kFused | kGpt2},
    {"self_attn.o_proj", "attn_output", true},
    {"self_attn.q_norm", "attn_q_norm", true},
    {"self_attn.k_norm", "attn_k_norm", true},
    {"post_attention_layernorm", "ffn_norm", true, ~kSandwich},
    {"post_attention_layernorm", "post_attention_norm", true, kSandwich},
    {"pre_feedforward_layernorm", "ffn_norm", true, kSandwich},
    {"post_feedforward_layernorm", "post_ffw_norm", true, kSandwich},
    {"mlp.gate_proj", "ffn_gate", true, kSplit},
    {"mlp.up_proj", "ffn_up", true, kSplit | kGpt2},
    {"mlp.gate_up_proj", "ffn_up", true, kFused},
    {"mlp.down_proj", "ffn_down", true},
    {"model.norm", "output_norm", false},
    {"lm_head", "output", false},
};
constexpr std::string_view kHfLayer = "model.layers.";
constexpr std::string_view kGgufLayer = "blk.";

/// A name cut into its layer number (empty outside layers), stem and ending.
struct Parts {
  std::string_view layer;
  std::string_view stem;
  std::string_view ending;  // ".weight" or ".bias"
};

bool cut(std::string_view name, std::string_view layer_prefix, Parts& parts) {
  for (const std::string_view ending : {std::string_view(".weight"), std::string_view(".bias")}) {
    if (name.ends_with(ending)) parts.ending = ending;
  }
  if (parts.ending.empty()) return false;
  name.remove_suffix(parts.ending.size());
  if (name.starts_with(layer_prefix)) {
    name.remove_prefix(layer_prefix.size());
    const size_t dot = name.find('.');
    if (dot == std::string_view::npos || dot == 0 || dot > 9) return false;
    parts.layer = name.substr(0, dot);
    const bool digits = std::all_of(parts.layer.begin(), parts.layer.end(),
                                    [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || (dot > 1 && parts.layer[0] == '0')) return false;
    name.remove_prefix(dot + 1);
  }
  parts.stem = name;
  return true;
}

std::string translate(std::string_view name, bool to_hf, NameStyle style) {
  Parts parts;
  if (!cut(name, to_hf ? kGgufLayer : kHfLayer, parts)) return "";
  for (const Stem& stem : kStems) {
    if (stem.in_layer == parts.layer.empty()) continue;
    if ((to_hf ? stem.gguf : stem.hf) != parts.stem) continue;
    if (!stem.is_of(style)) continue;
    std::string out;
    if (stem.in_layer) {
      out += to_hf ? kHfLayer : kGgufLayer;
      out += parts.layer;
      out += '.';
    }
    out += to_hf ? stem.hf : stem.gguf;
    out += parts.ending;
    return out;
  }
  return "";
}

}  // namespace

std::string hf_name_of_gguf(std::string_view gguf_name, NameStyle style) {
  return translate(gguf_name, true, style);
}
std::string gguf_name_of_hf(std::string_view hf_name, NameStyle style) {
  return translate(hf_name, false, style);
}

const std::vector<std::string>& linear_names() {
  static const std::vector<std::string> names = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                 "gate_proj", "up_proj", "down_proj"};
  return names;
}

std::string linear_module(int64_t layer, std::string_view linear) {
  for (const Stem& stem : kStems) {
    if (!stem.in_layer || !stem.hf.ends_with(linear) || stem.hf.size() == linear.size()) continue;
    if (stem.hf[stem.hf.size() - linear.size() - 1] != '.') continue;
    return std::string(kHfLayer) + std::to_string(layer) + "." + std::string(stem.hf);
  }
  MS_CHECK(false, std::string("no linear named ") + std::string(linear));
  return "";
}

}  // namespace mainspring
