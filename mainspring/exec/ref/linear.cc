// Linear maps with biases and low-rank adapters, and their gradients.
#include "mainspring/exec/ref/dropout.h"
#include "mainspring/exec/ref/op.h"

namespace mainspring::ref {
namespace {

// sum_k x[k] * w[k]
double dot(const double* x, const double* w, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += x[k] * w[k];
  return sum;
}

// y[j] += factor * x[j]
void add_scaled(double factor, const double* x, int64_t n, double* y) {
  for (int64_t j = 0; j < n; ++j) y[j] += factor * x[j];
}

// f(segment, row) for every row of x that lies in a segment.
template <typename F>
void for_rows(const OpCall& call, const Value& x, F f) {
  for (const Segment& segment : call.segments(x)) {
    for (int64_t r = segment.row_begin; r < segment.row_begin + segment.num_rows; ++r)
      f(segment, r);
  }
}

// Adapters apply to rows only: picks are plain rows of the head.
bool has_slot(const Value& x, const Segment& segment, int32_t slot) {
  return !x.by_picks && segment.adapter_slot == slot;
}

// u = round(scale * (dropout(x) A^T)) on the rows of the adapter's slot.
void lora_down(const OpCall& call, const LoraAttrs& lora, const Value& x, const Value& a,
               Value& u) {
  for_rows(call, x, [&](const Segment& segment, int64_t r) {
    if (!has_slot(x, segment, lora.slot)) return;
    std::vector<double> dropped(x.row(r), x.row(r) + x.width());
    apply_dropout({lora.dropout, lora.dropout_key}, segment, r, dropped);
    for (int64_t j = 0; j < lora.rank; ++j) {
      u.row(r)[j] = call.rounded(lora.scale * dot(dropped.data(), a.row(j), x.width()));
    }
  });
}

}  // namespace

// Inputs x, weights, biases if any, then A, B per adapter; outputs y per weight, u per adapter.
void linear(const OpCall& call) {
  const auto& attrs = call.attrs<LinearAttrs>();
  const auto n = static_cast<size_t>(attrs.num_weights);
  const size_t fixed = 1 + n * (attrs.has_bias ? 2 : 1);
  const Value& x = call.in(0);
  for (size_t i = 0; i < n; ++i) {
    const Value w = call.parameter(1 + i);
    const Value bias = attrs.has_bias ? call.parameter(1 + n + i) : Value({w.rows()});
    for_rows(call, x, [&](const Segment&, int64_t r) {
      for (int64_t o = 0; o < w.rows(); ++o) {
        call.out(i).row(r)[o] =
            dot(x.row(r), w.row(o), x.width()) + bias.data[static_cast<size_t>(o)];
      }
    });
  }
  for (size_t j = 0; j < attrs.adapters.size(); ++j) {
    const LoraAttrs& lora = attrs.adapters[j];
    Value& u = call.out(n + j);
    lora_down(call, lora, x, call.parameter(fixed + 2 * j), u);
    const Value b = call.parameter(fixed + 2 * j + 1);
    Value& y = call.out(static_cast<size_t>(lora.output));
    for_rows(call, x, [&](const Segment& segment, int64_t r) {
      if (!has_slot(x, segment, lora.slot)) return;
      for (int64_t o = 0; o < y.width(); ++o) y.row(r)[o] += dot(u.row(r), b.row(o), lora.rank);
    });
  }
}

// Inputs dy per weight, weights, then du, A per adapter; output dx.
void linear_input_grad(const OpCall& call) {
  const auto& attrs = call.attrs<LinearAttrs>();
  const auto n = static_cast<size_t>(attrs.num_weights);
  Value& dx = call.out(0);
  for (size_t i = 0; i < n; ++i) {
    const Value& dy = call.in(i);
    const Value w = call.parameter(n + i);
    for_rows(call, dy, [&](const Segment&, int64_t r) {
      for (int64_t o = 0; o < dy.width(); ++o)
        add_scaled(dy.row(r)[o], w.row(o), dx.width(), dx.row(r));
    });
  }
  for (size_t j = 0; j < attrs.adapters.size(); ++j) {
    const LoraAttrs& lora = attrs.adapters[j];
    const Value& du = call.in(2 * n + 2 * j);
    const Value a = call.parameter(2 * n + 2 * j + 1);
    for_rows(call, du, [&](const Segment& segment, int64_t r) {
      if (!has_slot(du, segment, lora.slot)) return;
      std::vector<double> part(static_cast<size_t>(dx.width()), 0.0);
      for (int64_t k = 0; k < lora.rank; ++k)
        add_scaled(du.row(r)[k], a.row(k), dx.width(), part.data());
      apply_dropout({lora.dropout, lora.dropout_key}, segment, r, part);
      add_scaled(1.0, part.data(), dx.width(), dx.row(r));
    });
  }
}

// Inputs dy (rows, out), x (rows, in), acc (out, in); output acc.
void linear_weight_grad(const OpCall& call) {
  const auto& attrs = call.attrs<WeightGradAttrs>();
  const Value& dy = call.in(0);
  const Value& x = call.in(1);
  Value& acc = call.out(0);
  constexpr int32_t kAllSlots = -2;
  for_rows(call, dy, [&](const Segment& segment, int64_t r) {
    if (attrs.slot != kAllSlots && !has_slot(dy, segment, attrs.slot)) return;
    std::vector<double> dropped(x.row(r), x.row(r) + x.width());
    apply_dropout({attrs.x_dropout, attrs.dropout_key}, segment, r, dropped);
    for (int64_t o = 0; o < dy.width(); ++o) {
      add_scaled(dy.row(r)[o], dropped.data(), x.width(), acc.row(o));
    }
  });
}

// Inputs dy (rows, out), B (out, rank); output du = round(scale * (dy B)) on the rows of the slot.
void lora_up_grad(const OpCall& call) {
  const auto& lora = call.attrs<LoraAttrs>();
  const Value& dy = call.in(0);
  const Value b = call.parameter(1);
  Value& du = call.out(0);
  for_rows(call, dy, [&](const Segment& segment, int64_t r) {
    if (!has_slot(dy, segment, lora.slot)) return;
    for (int64_t o = 0; o < dy.width(); ++o) {
      add_scaled(lora.scale * dy.row(r)[o], b.row(o), lora.rank, du.row(r));
    }
  });
}

// Inputs dy (rows, out), acc (out); output acc.
void bias_grad(const OpCall& call) {
  const Value& dy = call.in(0);
  Value& acc = call.out(0);
  for_rows(call, dy, [&](const Segment&, int64_t r) {
    for (int64_t o = 0; o < dy.width(); ++o) acc.data[static_cast<size_t>(o)] += dy.row(r)[o];
  });
}

}  // namespace mainspring::ref
