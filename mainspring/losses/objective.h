// Objectives: losses that are functions of the log-probabilities a model gave to tokens.
//
// The one idea: a policy, preference or distillation loss reads, for each datum, the
// log-probabilities of its targets (and what a scalar head says), and returns its sum and its
// derivative by each of them, in f64. The engine runs the model's backward pass with these
// derivatives as signed weights. So such a loss is plain arithmetic without a graph, one formula
// serves tokens, sequences and groups, and a group may be larger than a micro-batch: then the
// log-probabilities of a first pass meet the gradient of a second one, with the same bits. Not for
// terms over the whole distribution, which are traced (losses.h).
#pragma once

#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/batch/datum.h"

namespace mainspring {

/// What an objective must see together.
enum class LossScope {
  kToken,     // each token alone
  kSequence,  // the tokens of one datum
  kGroup,     // all datums of one Datum::group
};

/// One datum as an objective sees it. Only positions with a non-zero weight are learned; at others
/// the log-probability is 0 and the derivative is ignored.
struct ObjectiveItem {
  const Datum* datum = nullptr;
  std::span<const float> logprobs;  // (tokens)
  std::span<const float> values;    // (tokens) of the scalar head; empty without one
  /// (tokens, k) of Datum::candidates, 0 where there is none; empty if the loss does not read them.
  std::span<const float> candidate_logprobs;
};

/// The loss of one datum and its derivatives.
struct ObjectiveGradient {
  double loss = 0.0;
  std::vector<double> by_logprob;    // (tokens)
  std::vector<double> by_value;      // (tokens), or empty
  std::vector<double> by_candidate;  // (tokens, k), or empty
};

/// A figure to report, gathered over datums, calls and ranks.
struct LossMetric {
  double sum = 0.0;
  double count = 0.0;
  double largest = -std::numeric_limits<double>::infinity();

  void add(double value) {
    sum += value;
    count += 1.0;
    if (value > largest) largest = value;
  }
  void merge(const LossMetric& other) {
    sum += other.sum;
    count += other.count;
    if (other.largest > largest) largest = other.largest;
  }
  double mean() const { return count > 0.0 ? sum / count : 0.0; }
};
using LossMetrics = std::map<std::string, LossMetric, std::less<>>;

/// Settings of a loss by name; those not given have the table's defaults.
using LossSettings = std::map<std::string, double, std::less<>>;

/// One setting, for checks, --help and documentation.
struct LossSetting {
  std::string_view name;
  double fallback = 0.0;
  double low = 0.0;
  double high = 0.0;
  std::string_view meaning;
};

/// A function of what one scope holds: one datum, or the datums of one group in order. `gradients`
/// has an entry per item, zeros of the items' sizes. Adds to `metrics`. Errors: invalid argument
/// for a group that is not what the loss needs (such as a pair without a rejected answer).
using Objective = Status (*)(std::span<const ObjectiveItem> items, const LossSettings& settings,
                             std::span<ObjectiveGradient> gradients, LossMetrics& metrics);

}  // namespace mainspring
