#include "mainspring/ir/passes/constant_folding.h"

#include <optional>

#include "mainspring/base/bf16.h"
#include "mainspring/base/thread_pool.h"

namespace mainspring {
namespace {

// Not inlined, so that the arithmetic stays inside the caller's ComputeScope.
[[gnu::noinline]] float multiply(float a, float b) { return a * b; }
[[gnu::noinline]] float sum(const std::vector<float>& terms) {
  float total = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) total += terms[i];
  return total;
}

float rounded_to(DType dtype, float x) { return dtype == DType::kBF16 ? to_f32(to_bf16(x)) : x; }

// The constant that `node` computes, given the constants known so far by value.
std::optional<float> fold(const Graph& graph, const Node& node,
                          const std::vector<std::optional<float>>& constants) {
  const bool foldable =
      node.op == OpKind::kScale || node.op == OpKind::kMul || node.op == OpKind::kAdd;
  if (!foldable || node.inputs.empty()) return std::nullopt;
  std::vector<float> terms;
  for (ValueId input : node.inputs) {
    const auto& constant = constants[static_cast<size_t>(input)];
    if (!constant) return std::nullopt;
    terms.push_back(*constant);
  }
  const ComputeScope compute_mode;
  float result = 0.0f;
  if (node.op == OpKind::kScale) {
    result = multiply(std::get<ScalarAttrs>(node.attrs).value, terms[0]);
  } else if (node.op == OpKind::kMul) {
    result = multiply(terms[0], terms[1]);
  } else {
    result = sum(terms);
  }
  return rounded_to(graph.type(node.outputs[0]).dtype, result);
}

}  // namespace

void ConstantFolding::run(Graph& graph) const {
  std::vector<std::optional<float>> constants(static_cast<size_t>(graph.num_values()));
  for (Node& node : graph.mutable_nodes()) {
    if (node.op == OpKind::kFill) {
      constants[static_cast<size_t>(node.outputs[0])] =
          rounded_to(graph.type(node.outputs[0]).dtype, std::get<ScalarAttrs>(node.attrs).value);
    } else if (const auto folded = fold(graph, node, constants)) {
      constants[static_cast<size_t>(node.outputs[0])] = folded;
      node.op = OpKind::kFill;
      node.inputs.clear();
      node.attrs = ScalarAttrs{*folded};
    }
  }
}

}  // namespace mainspring
