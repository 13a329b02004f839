// Drops nodes whose results nobody reads and that update no state.
//
// Sources stay even when unread: they are the graph's interface, and binding one must keep working
// whatever passes ran.
#pragma once

#include "mainspring/ir/passes/pass.h"

namespace mainspring {

class DeadCode final : public Pass {
 public:
  std::string_view name() const override { return "dead_code"; }
  void run(Graph& graph) const override;
};

}  // namespace mainspring
