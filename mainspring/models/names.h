// Names of parameters in Hugging Face and GGUF files, both ways.
//
// The one idea: one table of stems; a name is a stem with a layer number, and ".weight" or ".bias".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mainspring {

/// Where families name things apart: kFused has qkv_proj and gate_up_proj in place of their parts,
/// kSandwich norms after attention and MLP too, kGpt2 qkv_proj and a row per position.
enum class NameStyle { kSplit, kFused, kSandwich, kGpt2 };

/// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; "" if there is no such name.
std::string hf_name_of_gguf(std::string_view gguf_name, NameStyle style = NameStyle::kSplit);

/// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight"; "" if there is no such name.
std::string gguf_name_of_hf(std::string_view hf_name, NameStyle style = NameStyle::kSplit);

/// The seven linears of a layer that adapters may target: "q_proj", ..., "down_proj", in forward
/// order.
const std::vector<std::string>& linear_names();

/// The module path of a layer's linear: (3, "q_proj") -> "model.layers.3.self_attn.q_proj".
/// Precondition: `linear` is one of linear_names(), "qkv_proj" or "gate_up_proj".
std::string linear_module(int64_t layer, std::string_view linear);

}  // namespace mainspring
