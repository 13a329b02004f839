// Recomputation: values that the backward pass reads are computed again there instead of kept.
//
// The one idea: what is kept decides the rest. Always kept: sources, values made outside any
// region, and values that cross a region's border (read by a forward node of another region, or
// graph outputs). A value that backward nodes read and that is not kept is rebuilt from kept ones
// by clones of its producers, each made once, just before the first backward node that needs it.
// Clones carry the same attributes, so dropout keys repeat, and every value is cut at its rounding:
// no bit changes (docs/exactness.md, rule 6).
//
// Full: nothing else is kept. Selective: everything is kept but results of cheap ops (op table:
// is_cheap) whose inputs the backward pass keeps anyway, so that each clone frees memory and none
// takes any. Keep attention: like full, but for results of ops whose cost grows with the square of
// a sequence (is_quadratic): long sequences keep little and compute the linears alone again.
#pragma once

#include "mainspring/ir/passes/pass.h"

namespace mainspring {

class Recompute final : public Pass {
 public:
  explicit Recompute(RecomputePolicy policy) : policy_(policy) {}
  std::string_view name() const override { return "recompute"; }
  void run(Graph& graph) const override;

 private:
  RecomputePolicy policy_;
};

}  // namespace mainspring
