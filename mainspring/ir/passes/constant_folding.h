// Computes at plan time what depends on constants only: scale, mul and add of fills become one
// fill.
//
// The arithmetic is the kernels' own: f32 with denormals flushed, rounded to the value's dtype
// (docs/exactness.md, rules 1 and 6). Not folded, because it would change bits: scale of scale (two
// roundings), anything across a non-constant value, and sums whose length is known only at run
// time.
#pragma once

#include "mainspring/ir/passes/pass.h"

namespace mainspring {

class ConstantFolding final : public Pass {
 public:
  std::string_view name() const override { return "constant_folding"; }
  void run(Graph& graph) const override;
};

}  // namespace mainspring
