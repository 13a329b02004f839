// Fuses the gated MLP's two elementwise ops into one, forward and backward:
//
//   y = mul(silu(gate), up)                        ->  y = silu_mul(gate, up)
//   ds = mul(dy, up), dgate = silu_grad(gate, ds),
//   dup = mul(dy, silu(gate))                      ->  dgate, dup = silu_mul_grad(gate, up, dy)
//
// and gelu the same, in either order of a mul's operands. The fused ops round where their parts do
// (exec/cpu/ops.h), so no bit changes. An inner value that anyone else reads is left alone.
#pragma once

#include "mainspring/ir/passes/pass.h"

namespace mainspring {

class FuseGatedMul final : public Pass {
 public:
  std::string_view name() const override { return "fuse_gated_mul"; }
  void run(Graph& graph) const override;
};

}  // namespace mainspring
