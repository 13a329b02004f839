// Writing a model as a GGUF file, for llama.cpp and what is built on it.
//
// The one idea: tensor names, row order and metadata keys are the ones llama.cpp's architectures
// read; matrices get the asked type, vectors (norms, biases) are F32 as llama.cpp wants them. What
// is written is read back as a config before the file appears, so a field that GGUF cannot say is
// an error and never lost.
#pragma once

#include <string>

#include "mainspring/base/status.h"
#include "mainspring/models/adapter.h"
#include "mainspring/models/loaded_model.h"

namespace mainspring {

struct GgufExportOptions {
  DType dtype = DType::kBF16;          // of matrices: kF32, kF16, kBF16 or kQ8_0
  const TensorSet* weights = nullptr;  // replace the model's own, by name; null: none
  const Adapter* adapter = nullptr;    // merged in f32 before the rounding; null: none
};

/// Writes the new file `path` with tokenizer and chat template. Values that the type holds keep
/// their bits; others round to nearest even (Q8_0: as weights/quantise.h). Cost: one read of the
/// weights, one write, memory of one tensor. Errors: unimplemented for a family, config or
/// tokenizer that GGUF cannot say; invalid argument if options.weights has a tensor that the model
/// does not have, a value is beyond the type, or rows are no whole number of Q8_0's blocks; the
/// system's (resource exhausted: disk full). After an error nothing is left.
Status export_gguf(const LoadedModel& model, const std::string& path,
                   const GgufExportOptions& options);

}  // namespace mainspring
