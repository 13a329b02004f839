// Elementwise ops, their gradients, and the loss arithmetic.
#include <cmath>

#include "mainspring/exec/ref/op.h"

namespace mainspring::ref {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double silu_of(double x) { return x * sigmoid(x); }

double silu_derivative(double x) {
  const double s = sigmoid(x);
  return s * (1.0 + x * (1.0 - s));
}

// y[i] = f(i)
template <typename F>
void map(Value& y, F f) {
  for (size_t i = 0; i < y.data.size(); ++i) y.data[i] = f(i);
}

}  // namespace

void silu(const OpCall& call) {
  map(call.out(0), [&](size_t i) { return silu_of(call.in(0).data[i]); });
}

// Inputs x, dy.
void silu_grad(const OpCall& call) {
  map(call.out(0),
      [&](size_t i) { return call.in(1).data[i] * silu_derivative(call.in(0).data[i]); });
}

// Inputs gate, up.
void silu_mul(const OpCall& call) {
  map(call.out(0),
      [&](size_t i) { return call.rounded(silu_of(call.in(0).data[i])) * call.in(1).data[i]; });
}

// Inputs gate, up, dy; outputs dgate, dup.
void silu_mul_grad(const OpCall& call) {
  const Value& gate = call.in(0);
  const Value& up = call.in(1);
  const Value& dy = call.in(2);
  map(call.out(0), [&](size_t i) {
    return call.rounded(dy.data[i] * up.data[i]) * silu_derivative(gate.data[i]);
  });
  map(call.out(1), [&](size_t i) { return dy.data[i] * call.rounded(silu_of(gate.data[i])); });
}

void mul(const OpCall& call) {
  map(call.out(0), [&](size_t i) { return call.in(0).data[i] * call.in(1).data[i]; });
}

void add(const OpCall& call) {
  map(call.out(0), [&](size_t i) {
    double sum = 0;
    for (const Value* term : call.inputs) sum += term->data[i];
    return sum;
  });
}

void scale(const OpCall& call) {
  const double factor = call.attrs<ScalarAttrs>().value;
  map(call.out(0), [&](size_t i) { return factor * call.in(0).data[i]; });
}

void fill(const OpCall& call) {
  map(call.out(0), [&](size_t) { return call.attrs<ScalarAttrs>().value; });
}

void reduce_sum(const OpCall& call) {
  for (double x : call.in(0).data) call.out(0).data[0] += x;
}

}  // namespace mainspring::ref
