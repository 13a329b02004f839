// The interpreter behind RefExecutable. Internal to exec/ref.
#pragma once

#include <memory>

#include "mainspring/exec/ref/ref_executor.h"

namespace mainspring::ref {

/// `executor` outlives the result and says where runs are timed. Precondition: the graph is
/// verified and find_op knows its ops. `round`: see RefOptions. Errors: those of
/// steps_before_late_inputs.
Result<std::unique_ptr<RefExecutable>> make_interpreter(Graph graph, const CompileOptions& options,
                                                        bool round, PlanReport report,
                                                        const Executor& executor);

}  // namespace mainspring::ref
