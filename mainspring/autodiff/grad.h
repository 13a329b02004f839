// Reverse-mode differentiation of a traced graph: gradients are ops again.
//
// The one idea: value_and_grad walks the forward nodes backwards, one rule per op
// (autodiff/rules.cc), and every use of a trainable parameter folds into an f32 accumulator of its
// own that lives outside the graph, so gradients of many runs add up in a fixed order
// (docs/exactness.md, rules 9, 11, 12).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mainspring/tensor/tensor.h"

namespace mainspring {

/// One accumulator: the state source to bind, and what it belongs to.
struct GradAccumulator {
  std::string
      state_name;  // "grad/<param>" for the first use in forward order, "grad/<param>#1", ...
  std::string param_name;
  int32_t use = 0;
  Shape shape;
};

/// Appends the gradient nodes of `loss` with respect to every param for which is_trainable(name) is
/// true, each accumulating into a state source. Returns the accumulators in forward order of use.
/// Precondition: `loss` is the result of reduce_sum. Contributions that meet at one value are added
/// in f32 in reverse forward order and rounded once. Errors: throws ShapeError naming an op on the
/// path that has no rule.
std::vector<GradAccumulator> value_and_grad(
    const Tensor& loss, const std::function<bool(const std::string& param)>& is_trainable);

/// A value, and the gradient by it, computed elsewhere: of its type, or for an f32 value rounded to
/// the compute dtype (docs/exactness.md, rule 13).
struct Cotangent {
  Tensor value;
  Tensor grad;
};

/// value_and_grad of a loss that is not in the graph: all that is known of it is its gradient by
/// some of the graph's values. Errors: throws ShapeError also for a gradient of another type.
std::vector<GradAccumulator> pull_back(
    const std::vector<Cotangent>& cotangents,
    const std::function<bool(const std::string& param)>& is_trainable);

/// Marks what `body` traces as one region whose inner values a pass may recompute in the backward
/// pass.
template <typename Body>
auto checkpoint(Tracer& tracer, std::string_view name, int32_t region, Body&& body) {
  Tracer::Scope scope(tracer, name, region);
  return body();
}

/// True if the op has a rule in autodiff/rules.cc (the coverage test asks).
bool has_grad_rule(OpKind op);

}  // namespace mainspring
