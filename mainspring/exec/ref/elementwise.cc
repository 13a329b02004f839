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

// sqrt(2 / pi) (x + 0.044715 x^3)
double gelu_argument(double x) { return 0.79788456080286535588 * (x + 0.044715 * x * x * x); }

double gelu_of(double x) { return 0.5 * x * (1.0 + std::tanh(gelu_argument(x))); }

double gelu_derivative(double x) {
  const double t = std::tanh(gelu_argument(x));
  const double slope = 0.79788456080286535588 * (1.0 + 3.0 * 0.044715 * x * x);
  // Beyond 20 the cap of tanh is flat in f64 too; x * slope would overflow first.
  if (std::fabs(x) > 20.0) return x > 0.0 ? 1.0 : 0.0;
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope;
}

// y[i] = f(i)
template <typename F>
void map(Value& y, F f) {
  for (size_t i = 0; i < y.data.size(); ++i) y.data[i] = f(i);
}

using Function = double (*)(double);

void apply(const OpCall& call, Function f) {
  map(call.out(0), [&](size_t i) { return f(call.in(0).data[i]); });
}

// Inputs x, dy.
void apply_grad(const OpCall& call, Function derivative) {
  map(call.out(0), [&](size_t i) { return call.in(1).data[i] * derivative(call.in(0).data[i]); });
}

// Inputs gate, up.
void gate_by(const OpCall& call, Function f) {
  map(call.out(0),
      [&](size_t i) { return call.rounded(f(call.in(0).data[i])) * call.in(1).data[i]; });
}

// Inputs gate, up, dy; outputs dgate, dup.
void gate_grad(const OpCall& call, Function f, Function derivative) {
  const Value& gate = call.in(0);
  const Value& up = call.in(1);
  const Value& dy = call.in(2);
  map(call.out(0),
      [&](size_t i) { return call.rounded(dy.data[i] * up.data[i]) * derivative(gate.data[i]); });
  map(call.out(1), [&](size_t i) { return dy.data[i] * call.rounded(f(gate.data[i])); });
}

}  // namespace

void silu(const OpCall& call) { apply(call, silu_of); }
void silu_grad(const OpCall& call) { apply_grad(call, silu_derivative); }
void silu_mul(const OpCall& call) { gate_by(call, silu_of); }
void silu_mul_grad(const OpCall& call) { gate_grad(call, silu_of, silu_derivative); }

void gelu(const OpCall& call) { apply(call, gelu_of); }
void gelu_grad(const OpCall& call) { apply_grad(call, gelu_derivative); }
void gelu_mul(const OpCall& call) { gate_by(call, gelu_of); }
void gelu_mul_grad(const OpCall& call) { gate_grad(call, gelu_of, gelu_derivative); }

void soft_cap(const OpCall& call) {
  const double cap = call.attrs<ScalarAttrs>().value;
  map(call.out(0), [&](size_t i) { return cap * std::tanh(call.in(0).data[i] / cap); });
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
