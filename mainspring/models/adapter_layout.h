// LoRA matrices of linears that a family's files fuse (models/file_layout.h), there and back.
//
// The one idea: an adapter on a fused linear is one on each part: A is shared and B's rows are cut.
// The way back stacks the parts' A and sets their B along a diagonal, with zeros that add nothing:
//   [Bq 0 0; 0 Bk 0; 0 0 Bv] [Aq; Ak; Av] x.
#pragma once

#include <map>
#include <string>

#include "mainspring/base/status.h"
#include "mainspring/models/adapter.h"

namespace mainspring {

/// Adapter tensors by the model's own linears, and the module of the file that each came from.
struct SplitAdapter {
  TensorSet tensors;
  std::map<std::string, std::string> file_modules;  // of every module of `tensors`
};

/// Tensors of fused linears as tensors of their parts; others stay as they are. A pair that does
/// not fit the fused linear is left for make_adapter() to refuse.
SplitAdapter split_adapter(const ModelConfig& config, const TensorSet& tensors);

/// The adapter on the linears that the family's files have. Errors: unimplemented if parts of one
/// fused linear have different scales.
Result<Adapter> fuse_adapter(const ModelConfig& config, const Adapter& adapter);

}  // namespace mainspring
