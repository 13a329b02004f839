// The interpreter behind RefExecutable. Internal to exec/ref.
#pragma once

#include <memory>

#include "mainspring/exec/ref/ref_executor.h"

namespace mainspring::ref {

/// Precondition: the graph is verified and find_op knows its ops. `round`: see RefOptions.
std::unique_ptr<RefExecutable> make_interpreter(Graph graph, RowCounts capacity, bool round,
                                                PlanReport report);

}  // namespace mainspring::ref
