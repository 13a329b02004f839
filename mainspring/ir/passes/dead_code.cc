#include "mainspring/ir/passes/dead_code.h"

#include <algorithm>

#include "mainspring/ir/op_table.h"

namespace mainspring {

void DeadCode::run(Graph& graph) const {
  std::vector<int32_t> uses = use_counts(graph);
  std::vector<bool> drop(graph.nodes().size(), false);
  for (size_t i = graph.nodes().size(); i-- > 0;) {  // readers before what they read
    const Node& node = graph.nodes()[i];
    const bool is_read = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId value) {
      return uses[static_cast<size_t>(value)] > 0;
    });
    if (is_read || op_info(node.op).is_source || has_effect(node)) continue;
    drop[i] = true;
    for (ValueId input : node.inputs) --uses[static_cast<size_t>(input)];
  }
  drop_nodes(graph, drop);
}

}  // namespace mainspring
