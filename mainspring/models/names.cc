#include "mainspring/models/names.h"

#include <algorithm>
#include <optional>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

struct Stem {
  std::string_view hf;
  std::string_view gguf;
  bool in_layer;
  std::optional<NameStyle> style = std::nullopt;  // unset: of every style
};
constexpr Stem kStems[] = {
    {"model.embed_tokens", "token_embd", false},
    {"input_layernorm", "attn_norm", true},
    {"self_attn.q_proj", "attn_q", true, NameStyle::kSplit},
    {"self_attn.k_proj", "attn_k", true, NameStyle::kSplit},
    {"self_attn.v_proj", "attn_v", true, NameStyle::kSplit},
    {"self_attn.qkv_proj", "attn_qkv", true, NameStyle::kFused},
    {"self_attn.o_proj", "attn_output", true},
    {"self_attn.q_norm", "attn_q_norm", true},
    {"self_attn.k_norm", "attn_k_norm", true},
    {"post_attention_layernorm", "ffn_norm", true},
    {"mlp.gate_proj", "ffn_gate", true, NameStyle::kSplit},
    {"mlp.up_proj", "ffn_up", true, NameStyle::kSplit},
    {"mlp.gate_up_proj", "ffn_up", true, NameStyle::kFused},
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
    if (stem.style.value_or(style) != style) continue;
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
