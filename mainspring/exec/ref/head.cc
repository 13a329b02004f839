// Log-probabilities of targets under a linear head, and their gradient.
#include <algorithm>
#include <cmath>

#include "mainspring/exec/ref/op.h"

namespace mainspring::ref {
namespace {

std::vector<double> logits_of(const double* x, const Value& head, double cap) {
  std::vector<double> logits(static_cast<size_t>(head.rows()), 0.0);
  for (int64_t v = 0; v < head.rows(); ++v) {
    for (int64_t k = 0; k < head.width(); ++k)
      logits[static_cast<size_t>(v)] += x[k] * head.row(v)[k];
  }
  if (cap > 0) {
    for (double& logit : logits) logit = cap * std::tanh(logit / cap);
  }
  return logits;
}

double log_sum_exp(const std::vector<double>& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - max);
  return max + std::log(sum);
}

bool is_zero_row(const OpCall& call, size_t pick) {
  return pick < call.table.picked.size() && call.table.picked[pick] < 0;
}

size_t targets_of_pick(const OpCall& call) {
  const auto picks = static_cast<size_t>(call.in(0).rows());
  return picks == 0 ? 1 : call.in(2).data.size() / picks;
}

}  // namespace

// Inputs x (picked, d), head (v, d), targets (picked) or (picked, k); outputs logprob like targets,
// lse (picked); zeros for a zero row.
void head_logprob(const OpCall& call) {
  const Value& x = call.in(0);
  const Value head = call.parameter(1);
  const double cap = call.attrs<HeadAttrs>().softcap;
  const size_t k = targets_of_pick(call);
  for (size_t i = 0; i < static_cast<size_t>(x.rows()); ++i) {
    if (is_zero_row(call, i)) continue;
    const std::vector<double> logits = logits_of(x.row(static_cast<int64_t>(i)), head, cap);
    const double lse = log_sum_exp(logits);
    for (size_t j = i * k; j < (i + 1) * k; ++j) {
      call.out(0).data[j] = logits[static_cast<size_t>(call.in(2).data[j])] - lse;
    }
    call.out(1).data[i] = lse;
  }
}

// dlogits = round((sum over a pick's targets of d_logprob * (onehot - p) + d_lse * p) [* the cap's
// slope]), p = exp(logit - lse); dx = dlogits W; dw += dlogits^T x. Inputs x, head, targets, lse,
// d_logprob [, d_lse] [, acc (v, d)]; outputs dx [, acc].
void head_logprob_grad(const OpCall& call) {
  const Value& x = call.in(0);
  const Value head = call.parameter(1);
  const double cap = call.attrs<HeadAttrs>().softcap;
  Value* acc = call.outputs.size() > 1 ? &call.out(1) : nullptr;
  const bool has_d_lse = call.attrs<HeadAttrs>().has_d_lse;
  const size_t k = targets_of_pick(call);
  for (size_t i = 0; i < static_cast<size_t>(x.rows()); ++i) {
    if (is_zero_row(call, i)) continue;
    const auto r = static_cast<int64_t>(i);
    const std::vector<double> logits = logits_of(x.row(r), head, cap);
    for (int64_t v = 0; v < head.rows(); ++v) {
      const double probability = std::exp(logits[static_cast<size_t>(v)] - call.in(3).data[i]);
      double through_targets = 0;
      for (size_t j = i * k; j < (i + 1) * k; ++j) {
        const double onehot = static_cast<double>(v) == call.in(2).data[j] ? 1.0 : 0.0;
        through_targets += call.in(4).data[j] * (onehot - probability);
      }
      const double t = cap > 0 ? logits[static_cast<size_t>(v)] / cap : 0;
      const double through_lse = has_d_lse ? call.in(5).data[i] * probability : 0.0;
      const double dlogit = call.rounded((through_targets + through_lse) * (1 - t * t));
      for (int64_t k = 0; k < x.width(); ++k) {
        call.out(0).row(r)[k] += dlogit * head.row(v)[k];
        if (acc != nullptr) acc->row(v)[k] += dlogit * x.row(r)[k];
      }
    }
  }
}

}  // namespace mainspring::ref
