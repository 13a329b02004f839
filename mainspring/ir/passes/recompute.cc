#include "mainspring/ir/passes/recompute.h"

#include <map>

#include "mainspring/ir/op_table.h"

namespace mainspring {
namespace {

// What the policies ask about each value.
struct ValueFacts {
  std::vector<bool> crosses;        // a region's border, or leaves the graph
  std::vector<bool> read_backward;  // by an original backward node
};

ValueFacts collect_facts(const Graph& graph) {
  const auto size = static_cast<size_t>(graph.num_values());
  ValueFacts facts{std::vector<bool>(size, false), std::vector<bool>(size, false)};
  const auto producers = graph.producers();
  for (const Node& node : graph.nodes()) {
    for (ValueId input : node.inputs) {
      const auto value = static_cast<size_t>(input);
      const Node& producer = graph.nodes()[static_cast<size_t>(producers[value])];
      if (node.backward) {
        facts.read_backward[value] = true;
      } else if (producer.region != node.region) {
        facts.crosses[value] = true;
      }
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    facts.crosses[static_cast<size_t>(output.value)] = true;
  }
  return facts;
}

bool is_inside_region(const Node& node) {
  return !node.backward && node.region >= 0 && !op_info(node.op).is_source;
}

// By value: true if backward readers get a clone's value. Nodes are visited in order, so the
// answers for a node's inputs are known.
std::vector<bool> choose_full(const Graph& graph, const ValueFacts& facts, bool keep_quadratic) {
  std::vector<bool> rebuilt(facts.crosses.size(), false);
  for (const Node& node : graph.nodes()) {
    if (!is_inside_region(node) || (keep_quadratic && op_info(node.op).is_quadratic)) continue;
    for (ValueId output : node.outputs) {
      rebuilt[static_cast<size_t>(output)] = !facts.crosses[static_cast<size_t>(output)];
    }
  }
  return rebuilt;
}

std::vector<bool> choose_selective(const Graph& graph, const ValueFacts& facts) {
  std::vector<bool> rebuilt(facts.crosses.size(), false);
  std::vector<bool> is_free = facts.read_backward;  // kept anyway, or rebuilt from such
  for (const Node& node : graph.nodes()) {
    if (op_info(node.op).is_source) is_free[static_cast<size_t>(node.outputs[0])] = true;
    if (!is_inside_region(node) || !op_info(node.op).is_cheap) continue;
    bool inputs_free = true;
    for (ValueId input : node.inputs)
      inputs_free = inputs_free && is_free[static_cast<size_t>(input)];
    for (ValueId output : node.outputs) {
      const auto value = static_cast<size_t>(output);
      if (!inputs_free || facts.crosses[value]) continue;
      rebuilt[value] = true;
      is_free[value] = true;
    }
  }
  return rebuilt;
}

// Copies the nodes one by one, with the clones a backward node needs just before it.
class Rebuilder {
 public:
  Rebuilder(Graph& graph, std::vector<bool> rebuilt)
      : graph_(graph),
        originals_(graph.nodes()),
        producers_(graph.producers()),
        rebuilt_(std::move(rebuilt)) {}

  void run() {
    for (const Node& original : originals_) {
      Node node = original;
      if (node.backward) {
        for (ValueId& input : node.inputs) input = backward_value(input);
      }
      nodes_.push_back(std::move(node));
    }
    graph_.mutable_nodes() = std::move(nodes_);
  }

 private:
  // The value that backward nodes read in place of `value`, made now if need be.
  ValueId backward_value(ValueId value) {
    if (!rebuilt_[static_cast<size_t>(value)]) return value;
    const auto made = clones_.find(value);
    if (made != clones_.end()) return made->second;
    const Node& original = originals_[static_cast<size_t>(producers_[static_cast<size_t>(value)])];
    Node clone = original;
    clone.backward = true;
    clone.recomputed = true;
    for (ValueId& input : clone.inputs) input = backward_value(input);  // depth: one region's chain
    for (ValueId& output : clone.outputs) {
      const ValueId copy = graph_.add_value(graph_.type(output));
      clones_[output] = copy;
      output = copy;
    }
    nodes_.push_back(std::move(clone));
    return clones_.at(value);
  }

  Graph& graph_;
  const std::vector<Node> originals_;
  const std::vector<int32_t> producers_;
  const std::vector<bool> rebuilt_;
  std::map<ValueId, ValueId> clones_;
  std::vector<Node> nodes_;
};

}  // namespace

void Recompute::run(Graph& graph) const {
  if (policy_ == RecomputePolicy::kNone) return;
  const ValueFacts facts = collect_facts(graph);
  std::vector<bool> rebuilt =
      policy_ == RecomputePolicy::kSelective
          ? choose_selective(graph, facts)
          : choose_full(graph, facts, policy_ == RecomputePolicy::kKeepAttention);
  Rebuilder(graph, std::move(rebuilt)).run();
}

}  // namespace mainspring
