// GGUF metadata as a ModelConfig, and which of a file's tensors need their rows put back in order.
#pragma once

#include "mainspring/base/status.h"
#include "mainspring/io/gguf.h"
#include "mainspring/models/config.h"

namespace mainspring {

/// Reads general.architecture (llama, qwen2, qwen3) and that architecture's keys; biases and a tied
/// head are told from the tensors present. rope_freqs.weight becomes llama3 scaling if it is one of
/// the published ones to within rounding, else factors. Errors: unimplemented for another
/// architecture and for keys that would change results and are not handled; not found and invalid
/// argument name the key.
Result<ModelConfig> read_gguf_config(const GgufFile& file);

/// llama.cpp stores the q and k rows of the llama architecture in the order of adjacent rotary
/// pairs; the row at `gguf_row` of a head of width c holds row (i + (c/2) s) of Hugging Face's,
/// gguf_row = 2 i + s. True for those tensors (weights and biases).
bool has_permuted_rows(const ModelConfig& config, std::string_view hf_name);

}  // namespace mainspring
