// The rule of one op: given the gradients of a node's outputs, the gradients of its inputs.
#pragma once

#include <optional>
#include <vector>

#include "mainspring/tensor/tensor.h"

namespace mainspring {

/// What a rule sees of the node it differentiates.
class RuleContext {
 public:
  virtual ~RuleContext() = default;
  virtual Tracer& tracer() = 0;
  virtual const Node& node() const = 0;
  virtual Tensor input(size_t index) = 0;
  virtual Tensor output(size_t index) = 0;
  /// The gradient of output `index`, summed and rounded once; empty if nothing depends on it.
  virtual std::optional<Tensor> output_grad(size_t index) = 0;
  /// True if input `index` leads to a trainable parameter. Throws ShapeError if it is one itself.
  virtual bool wants_grad(size_t index) const = 0;
  /// The accumulator of input `index`, a trainable parameter used by this node; empty if it is
  /// frozen.
  virtual std::optional<Tensor> accumulator(size_t index) = 0;
  /// Adds a contribution to the gradient of input `index`.
  virtual void add_grad(size_t index, const Tensor& grad) = 0;
};

using GradRule = void (*)(RuleContext& context);

/// Null if the op has none.
GradRule grad_rule(OpKind op);

}  // namespace mainspring
