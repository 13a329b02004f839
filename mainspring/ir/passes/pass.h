// Passes: rewrites of a graph between tracing and planning, and the one function that runs them.
//
// The one idea: a pass changes how much is computed and kept, never a bit of a result
// (docs/exactness.md, rule 6), so each can be switched off by name. Every pass is timed and the
// graph verified after it. Not for choices that depend on a device: those are the planner's.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/ir/graph.h"

namespace mainspring {

class Pass {
 public:
  virtual ~Pass() = default;
  /// The name by which people switch it off, such as "dead_code".
  virtual std::string_view name() const = 0;
  /// Precondition: verify(graph) is ok, and it is afterwards.
  virtual void run(Graph& graph) const = 0;
};

/// Which values of the forward pass are computed again in the backward pass instead of kept.
enum class RecomputePolicy {
  kNone,
  kSelective,      // cheap ops whose inputs are kept anyway
  kKeepAttention,  // everything within a region but what crosses its border and attention's results
  kFull,           // everything within a region but what crosses its border
};

/// By the recipe's name: "none", "selective", "keep_attention", "full".
/// Errors: invalid argument with the names.
Result<RecomputePolicy> parse_recompute(std::string_view name);

struct PassOptions {
  std::vector<std::string> disabled = {};  // pass names
  RecomputePolicy recompute = RecomputePolicy::kNone;
};

/// Milliseconds by pass name, in the order run.
using PassTimes = std::vector<std::pair<std::string, double>>;

/// The passes in the order they run: constant_folding, fuse_gated_mul, recompute, dead_code.
std::vector<std::unique_ptr<Pass>> make_passes(RecomputePolicy recompute);

/// Runs every pass that is not disabled. `times` (may be null) gets one entry per pass run.
/// Errors: invalid argument for an unknown name in `disabled`, with the nearest known one; internal
/// naming the pass that broke the graph.
Status run_passes(Graph& graph, const PassOptions& options, PassTimes* times);

// ---- what passes are written with
// --------------------------------------------------------------------

/// How many node inputs and graph outputs read each value.
std::vector<int32_t> use_counts(const Graph& graph);

/// Drops the nodes for which drop[index] is true; their values must have no readers left.
void drop_nodes(Graph& graph, const std::vector<bool>& drop);

}  // namespace mainspring
