#include "mainspring/autodiff/grad.h"

#include <map>

#include "mainspring/autodiff/rules.h"
#include "mainspring/base/check.h"
#include "mainspring/ir/op_table.h"

namespace mainspring {
namespace {

// Which values lead to a trainable parameter, and how often each parameter was used before each
// node.
struct Analysis {
  std::vector<bool> wants;                                  // by value
  std::map<std::pair<size_t, size_t>, int32_t> use_number;  // (node, input) of a trainable param
  std::map<ValueId, std::string> trainable;                 // value -> name
};

Analysis analyse(const Graph& graph, const std::function<bool(const std::string&)>& is_trainable) {
  Analysis result;
  result.wants.assign(static_cast<size_t>(graph.num_values()), false);
  std::map<ValueId, int32_t> uses;
  for (size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (node.op == OpKind::kParam) {
      const std::string& name = std::get<SourceAttrs>(node.attrs).name;
      if (!is_trainable(name)) continue;
      result.wants[static_cast<size_t>(node.outputs[0])] = true;
      result.trainable[node.outputs[0]] = name;
      continue;
    }
    bool wants = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      wants = wants || result.wants[static_cast<size_t>(node.inputs[i])];
      if (result.trainable.count(node.inputs[i]) > 0) {
        result.use_number[{n, i}] = uses[node.inputs[i]]++;
      }
    }
    for (ValueId output : node.outputs) result.wants[static_cast<size_t>(output)] = wants;
  }
  return result;
}

class Backward final : public RuleContext {
 public:
  Backward(Tracer& tracer, Analysis analysis)
      : tracer_(tracer), analysis_(std::move(analysis)), grads_(analysis_.wants.size()) {}

  // `node` is a copy: appending nodes moves the graph's own.
  void visit(size_t index, Node node) {
    index_ = index;
    node_ = std::move(node);
    if (GradRule rule = grad_rule(node_.op)) {
      Tracer::Scope scope(tracer_, node_.path);
      rule(*this);
      return;
    }
    throw ShapeError("[" + std::string(op_info(node_.op).name) + "] has no gradient rule (" +
                     node_.path + ")");
  }

  /// The forward nodes in reverse order, but for `except`.
  void visit_all(size_t num_forward, size_t except) {
    for (size_t n = num_forward; n-- > 0;) {
      Node node = tracer_.graph().nodes()[n];
      if (n == except || op_info(node.op).is_source || !has_grad(node)) continue;
      visit(n, std::move(node));
    }
  }

  /// A gradient from outside of the graph.
  void start(ValueId value, const Tensor& grad) {
    grads_[static_cast<size_t>(value)].push_back(grad);
  }

  bool has_grad(const Node& node) const {
    for (ValueId output : node.outputs) {
      if (!grads_[static_cast<size_t>(output)].empty()) return true;
    }
    return false;
  }

  std::vector<GradAccumulator> take_accumulators() {
    std::vector<GradAccumulator> result;
    for (auto& [key, accumulator] : accumulators_) result.push_back(std::move(accumulator));
    return result;
  }

  Tracer& tracer() override { return tracer_; }
  const Node& node() const override { return node_; }
  Tensor input(size_t index) override { return {&tracer_, node_.inputs[index]}; }
  Tensor output(size_t index) override { return {&tracer_, node_.outputs[index]}; }
  // A rule asks this of inputs for which it has no accumulator.
  bool wants_grad(size_t index) const override {
    const auto param = analysis_.trainable.find(node_.inputs[index]);
    if (param != analysis_.trainable.end()) {
      throw ShapeError("[" + std::string(op_info(node_.op).name) + "] cannot train parameter " +
                       param->second + " (input " + std::to_string(index) +
                       "): only embedding, linear, rms_norm and the head accumulate gradients");
    }
    return analysis_.wants[static_cast<size_t>(node_.inputs[index])];
  }

  std::optional<Tensor> output_grad(size_t index) override {
    auto& terms = grads_[static_cast<size_t>(node_.outputs[index])];
    if (terms.empty()) return std::nullopt;
    if (terms.size() > 1) terms = {add(terms)};
    return terms[0];
  }

  std::optional<Tensor> accumulator(size_t index) override {
    const auto use = analysis_.use_number.find({index_, index});
    if (use == analysis_.use_number.end()) return std::nullopt;
    const std::string& param = analysis_.trainable.at(node_.inputs[index]);
    const Shape& shape = tracer_.graph().type(node_.inputs[index]).shape;
    std::string name = "grad/" + param;
    if (use->second > 0) name += "#" + std::to_string(use->second);
    accumulators_[{index_, index}] = {name, param, use->second, shape};
    return tracer_.state(name, {DType::kF32, shape});
  }

  void add_grad(size_t index, const Tensor& grad) override {
    grads_[static_cast<size_t>(node_.inputs[index])].push_back(grad);
  }

 private:
  Tracer& tracer_;
  Analysis analysis_;
  std::vector<std::vector<Tensor>> grads_;  // by forward value: contributions so far
  std::map<std::pair<size_t, size_t>, GradAccumulator> accumulators_;  // in forward order of use
  size_t index_ = 0;
  Node node_;
};

}  // namespace

std::vector<GradAccumulator> value_and_grad(
    const Tensor& loss, const std::function<bool(const std::string&)>& is_trainable) {
  Tracer& tracer = loss.tracer();
  const size_t num_forward = tracer.graph().nodes().size();
  const auto producers = tracer.graph().producers();
  const size_t loss_node = static_cast<size_t>(producers[static_cast<size_t>(loss.value())]);
  MS_CHECK(tracer.graph().nodes()[loss_node].op == OpKind::kReduceSum,
           "the loss must be the result of reduce_sum");
  Backward backward(tracer, analyse(tracer.graph(), is_trainable));
  tracer.set_backward(true);
  backward.visit(loss_node, tracer.graph().nodes()[loss_node]);
  backward.visit_all(num_forward, loss_node);
  tracer.set_backward(false);
  return backward.take_accumulators();
}

std::vector<GradAccumulator> pull_back(
    const std::vector<Cotangent>& cotangents,
    const std::function<bool(const std::string&)>& is_trainable) {
  MS_CHECK(!cotangents.empty(), "a gradient to start from");
  Tracer& tracer = cotangents[0].value.tracer();
  const size_t num_forward = tracer.graph().nodes().size();
  Backward backward(tracer, analyse(tracer.graph(), is_trainable));
  for (const Cotangent& cotangent : cotangents) {
    const ValueType& of_value = cotangent.value.type();
    const ValueType& of_grad = cotangent.grad.type();
    const bool is_rounded =
        of_value.dtype == DType::kF32 && of_grad.dtype == tracer.graph().compute();
    if (of_value.shape != of_grad.shape || !(of_value.dtype == of_grad.dtype || is_rounded)) {
      throw ShapeError("[pull_back] expected a gradient " + of_value.to_string() + ", got " +
                       of_grad.to_string());
    }
    backward.start(cotangent.value.value(), cotangent.grad);
  }
  tracer.set_backward(true);
  backward.visit_all(num_forward, num_forward);
  tracer.set_backward(false);
  return backward.take_accumulators();
}

bool has_grad_rule(OpKind op) { return grad_rule(op) != nullptr; }

}  // namespace mainspring
