// Writing a model as a Hugging Face folder.
//
// The one idea: a tensor at a time, from wherever it lies (mapped file, training masters, merged
// adapter), so memory stays at one tensor; the folder appears whole, by one rename.
#pragma once

#include <cstdint>
#include <string>

#include "mainspring/base/status.h"
#include "mainspring/models/adapter.h"
#include "mainspring/models/loaded_model.h"

namespace mainspring {

struct ExportOptions {
  DType dtype = DType::kBF16;  // kF32 or kBF16
  const TensorSet* weights =
      nullptr;  // replace the model's own, by name (full fine-tuning); null: none
  const Adapter* adapter = nullptr;  // merged in f32 before the rounding; null: none
  int64_t max_shard_bytes = 5'000'000'000;
};

/// Writes config.json, model.safetensors (or shards and their index), generation_config.json,
/// tokenizer.json, tokenizer_config.json and chat_template.jinja to the new folder `folder`. What a
/// Hugging Face source says in these is kept, apart from the dtype; a GGUF source's tokenizer is
/// written as tokenizer.json. Cost: one read of the weights, one write. Errors: already exists;
/// invalid argument if options.weights has a tensor that the model does not have, or of another
/// shape; unimplemented for a config or tokenizer that these files cannot say; the system's
/// (resource exhausted: disk full). After an error nothing is left.
Status export_hf_folder(const LoadedModel& model, const std::string& folder,
                        const ExportOptions& options);

}  // namespace mainspring
