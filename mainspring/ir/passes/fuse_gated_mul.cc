#include "mainspring/ir/passes/fuse_gated_mul.h"

#include <algorithm>
#include <optional>

namespace mainspring {
namespace {

/// An activation's ops: itself and its gradient, and what they fuse into.
struct GatedOps {
  OpKind activation;
  OpKind activation_grad;
  OpKind fused;
  OpKind fused_grad;
};
constexpr GatedOps kGatedOps[] = {
    {OpKind::kSilu, OpKind::kSiluGrad, OpKind::kSiluMul, OpKind::kSiluMulGrad},
    {OpKind::kGelu, OpKind::kGeluGrad, OpKind::kGeluMul, OpKind::kGeluMulGrad}};

// Producers and readers of the values while nodes are being replaced one by one.
class Fuser {
 public:
  Fuser(Graph& graph, const GatedOps& ops)
      : ops_(ops),
        nodes_(graph.mutable_nodes()),
        producers_(graph.producers()),
        uses_(use_counts(graph)),
        drop_(nodes_.size(), false) {}

  void fuse_backward() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!drop_[i] && nodes_[i].op == ops_.activation_grad) try_backward(i);
    }
  }

  void fuse_forward() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!drop_[i] && nodes_[i].op == OpKind::kMul) try_forward(i);
    }
  }

  const std::vector<bool>& drop() const { return drop_; }

 private:
  size_t producer(ValueId value) const {
    return static_cast<size_t>(producers_[static_cast<size_t>(value)]);
  }
  bool is_made_by(ValueId value, OpKind op) const { return nodes_[producer(value)].op == op; }
  int32_t uses(ValueId value) const { return uses_[static_cast<size_t>(value)]; }

  void remove(size_t index) {
    drop_[index] = true;
    for (ValueId input : nodes_[index].inputs) --uses_[static_cast<size_t>(input)];
  }

  void try_forward(size_t index) {
    Node& mul = nodes_[index];
    for (size_t side = 0; side < 2; ++side) {
      const ValueId gated = mul.inputs[side];
      const ValueId up = mul.inputs[1 - side];
      if (!is_made_by(gated, ops_.activation) || uses(gated) != 1) continue;
      const size_t gated_index = producer(gated);
      const ValueId gate = nodes_[gated_index].inputs[0];
      drop_[gated_index] = true;
      mul.op = ops_.fused;
      mul.inputs = {gate,
                    up};  // gate's one reader was the activation and is mul now: counts stay true
      return;
    }
  }

  // dup = mul(dy, activation(gate)) in either order, or nothing.
  std::optional<size_t> find_up_grad(ValueId gate, ValueId dy) const {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (drop_[i] || nodes_[i].op != OpKind::kMul) continue;
      for (size_t side = 0; side < 2; ++side) {
        const ValueId gated = nodes_[i].inputs[side];
        if (nodes_[i].inputs[1 - side] == dy && is_made_by(gated, ops_.activation) &&
            nodes_[producer(gated)].inputs[0] == gate) {
          return i;
        }
      }
    }
    return std::nullopt;
  }

  void try_backward(size_t gate_grad) {
    const ValueId gate = nodes_[gate_grad].inputs[0];
    const ValueId ds = nodes_[gate_grad].inputs[1];
    if (!is_made_by(ds, OpKind::kMul) || uses(ds) != 1) return;
    const size_t ds_index = producer(ds);
    for (size_t side = 0; side < 2; ++side) {
      const ValueId dy = nodes_[ds_index].inputs[side];
      const ValueId up = nodes_[ds_index].inputs[1 - side];
      const auto up_grad = find_up_grad(gate, dy);
      if (!up_grad || *up_grad == ds_index) continue;
      const size_t first = std::min(gate_grad, *up_grad);
      const size_t last = std::max(gate_grad, *up_grad);
      if (std::max({producer(gate), producer(up), producer(dy)}) >= first) continue;
      fuse_gradients(gate_grad, *up_grad, ds_index, {gate, up, dy}, first, last);
      return;
    }
  }

  void fuse_gradients(size_t gate_grad, size_t up_grad, size_t ds_index,
                      std::vector<ValueId> inputs, size_t first, size_t last) {
    std::vector<ValueId> outputs{nodes_[gate_grad].outputs[0], nodes_[up_grad].outputs[0]};
    for (size_t index : {gate_grad, up_grad, ds_index}) remove(index);
    for (ValueId input : inputs) ++uses_[static_cast<size_t>(input)];
    for (ValueId output : outputs) {
      producers_[static_cast<size_t>(output)] = static_cast<int32_t>(first);
    }
    Node& fused = nodes_[first];
    fused.op = ops_.fused_grad;
    fused.inputs = std::move(inputs);
    fused.outputs = std::move(outputs);
    fused.attrs = NoAttrs{};
    fused.backward = fused.backward || nodes_[last].backward;
    drop_[first] = false;
  }

  const GatedOps& ops_;
  std::vector<Node>& nodes_;
  std::vector<int32_t> producers_;
  std::vector<int32_t> uses_;
  std::vector<bool> drop_;
};

}  // namespace

void FuseGatedMul::run(Graph& graph) const {
  for (const GatedOps& ops : kGatedOps) {
    Fuser fuser(graph, ops);
    fuser.fuse_backward();  // first: it frees the activation that the forward fusion wants for
                            // itself
    fuser.fuse_forward();
    drop_nodes(graph, fuser.drop());
  }
}

}  // namespace mainspring
