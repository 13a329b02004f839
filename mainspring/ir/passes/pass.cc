#include "mainspring/ir/passes/pass.h"

#include <algorithm>
#include <chrono>

#include "mainspring/base/nearest.h"
#include "mainspring/ir/passes/constant_folding.h"
#include "mainspring/ir/passes/dead_code.h"
#include "mainspring/ir/passes/fuse_gated_mul.h"
#include "mainspring/ir/passes/recompute.h"

namespace mainspring {
namespace {

Status check_names(const std::vector<std::string>& disabled,
                   const std::vector<std::unique_ptr<Pass>>& passes) {
  std::vector<std::string> known;
  for (const auto& pass : passes) known.emplace_back(pass->name());
  for (const std::string& name : disabled) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return invalid_argument("no pass is named '" + name + "'; the nearest is '" +
                              nearest_name(name, known) + "'");
    }
  }
  return {};
}

}  // namespace

Result<RecomputePolicy> parse_recompute(std::string_view name) {
  constexpr std::pair<std::string_view, RecomputePolicy> kPolicies[] = {
      {"none", RecomputePolicy::kNone},
      {"selective", RecomputePolicy::kSelective},
      {"keep_attention", RecomputePolicy::kKeepAttention},
      {"full", RecomputePolicy::kFull}};
  std::string names;
  for (const auto& [known, policy] : kPolicies) {
    if (known == name) return policy;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  return invalid_argument("recompute: no policy is named '" + std::string(name) +
                          "'; expected one of " + names);
}

std::vector<std::unique_ptr<Pass>> make_passes(RecomputePolicy recompute) {
  std::vector<std::unique_ptr<Pass>> passes;
  passes.push_back(std::make_unique<ConstantFolding>());
  passes.push_back(std::make_unique<FuseGatedMul>());
  passes.push_back(std::make_unique<Recompute>(recompute));
  passes.push_back(std::make_unique<DeadCode>());  // last: the others leave unused nodes behind
  return passes;
}

Status run_passes(Graph& graph, const PassOptions& options, PassTimes* times) {
  const auto passes = make_passes(options.recompute);
  MS_RETURN_IF_ERROR(check_names(options.disabled, passes));
  for (const auto& pass : passes) {
    const std::string name(pass->name());
    if (std::find(options.disabled.begin(), options.disabled.end(), name) !=
        options.disabled.end()) {
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    pass->run(graph);
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    if (times != nullptr) times->emplace_back(name, elapsed.count());
    MS_RETURN_IF_ERROR(verify(graph).with_context("after pass " + name));
  }
  return {};
}

std::vector<int32_t> use_counts(const Graph& graph) {
  std::vector<int32_t> counts(static_cast<size_t>(graph.num_values()), 0);
  for (const Node& node : graph.nodes()) {
    for (ValueId input : node.inputs) ++counts[static_cast<size_t>(input)];
  }
  for (const GraphOutput& output : graph.outputs()) ++counts[static_cast<size_t>(output.value)];
  return counts;
}

void drop_nodes(Graph& graph, const std::vector<bool>& drop) {
  std::vector<Node> kept;
  for (size_t i = 0; i < drop.size(); ++i) {
    if (!drop[i]) kept.push_back(std::move(graph.mutable_nodes()[i]));
  }
  graph.mutable_nodes() = std::move(kept);
}

}  // namespace mainspring
