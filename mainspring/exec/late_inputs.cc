#include "mainspring/exec/late_inputs.h"

#include <algorithm>

#include "mainspring/ir/op_table.h"

namespace mainspring {
namespace {

Result<std::vector<bool>> late_values(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<bool> is_late(static_cast<size_t>(graph.num_values()), false);
  size_t found = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != OpKind::kInput) continue;
    const std::string& name = std::get<SourceAttrs>(node.attrs).name;
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    is_late[static_cast<size_t>(node.outputs[0])] = true;
    ++found;
  }
  if (found == names.size()) return is_late;
  std::string all;
  for (const std::string& name : names) all += " " + name;
  return not_found("late inputs: the graph lacks some of" + all);
}

}  // namespace

Result<size_t> steps_before_late_inputs(const Graph& graph, const std::vector<std::string>& names) {
  MS_ASSIGN_OR_RETURN(const std::vector<bool> is_late, late_values(graph, names));
  std::vector<bool> is_made(static_cast<size_t>(graph.num_values()), false);
  size_t steps = 0;
  for (const Node& node : graph.nodes()) {
    const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return is_late[static_cast<size_t>(input)];
    });
    if (reads) break;
    for (ValueId output : node.outputs) is_made[static_cast<size_t>(output)] = true;
    if (!op_info(node.op).is_source) ++steps;
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (names.empty() || is_made[static_cast<size_t>(output.value)]) continue;
    return invalid_argument("output " + output.name + " is made after a late input is read");
  }
  return steps;
}

}  // namespace mainspring
