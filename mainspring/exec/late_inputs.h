// Late inputs: inputs that the host fills in the middle of a run, from what the run gave so far.
//
// The one idea: a graph runs in one order, so there is a first node that reads such an input, and
// all outputs are made before it or the graph is refused. Not for values that outlive a run: those
// are states.
#pragma once

#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/ir/graph.h"

namespace mainspring {

/// How many steps (nodes that are no sources) come before the first that reads one of `names`; all
/// of them if none does. Errors: not found for a name that is no input; invalid argument naming an
/// output that is made later.
Result<size_t> steps_before_late_inputs(const Graph& graph, const std::vector<std::string>& names);

}  // namespace mainspring
