// A two-layer decoder with adapters and its gradients: a whole graph for tests of passes.
#pragma once

#include "tests/conformance/case_builder.h"

namespace mainspring::conformance {

/// Pre-norm layers of width 16 with grouped attention, per-head norms, rope, a gated MLP written as
/// its parts, and LoRA with dropout on the query and the down projections; each layer is a
/// recomputation region. Gradients of every parameter are checked.
BuiltCase build_decoder(DType compute, const Rows& rows);

}  // namespace mainspring::conformance
