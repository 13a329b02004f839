// A group as preference losses read it: which datum is which answer, and each answer's sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "mainspring/base/status.h"
#include "mainspring/losses/objective.h"

namespace mainspring {

/// Places of a pair's answers in its group.
struct AnswerPair {
  size_t chosen = 0;
  size_t rejected = 0;
};

/// Errors: invalid argument if `items` is not one chosen and one rejected answer.
Result<AnswerPair> pair_of(std::span<const ObjectiveItem> items);

/// What a datum's learned tokens sum to.
struct AnswerSums {
  double logprob = 0.0;  // sum of weight * log-probability
  double ref = 0.0;      // the same of the input "ref_logprobs"; 0 without it
  double length = 0.0;   // sum of weights

  double log_ratio() const { return logprob - ref; }
};

/// Errors: invalid argument if nothing is learned in the datum.
Result<AnswerSums> sums_of(const ObjectiveItem& item);

/// Adds `slope` times each learned token's weight: the derivative of slope * AnswerSums::logprob.
void add_slope(const ObjectiveItem& item, double slope, ObjectiveGradient& gradient);

/// rewards/chosen, rewards/rejected, rewards/margins, rewards/accuracies of a pair.
void add_reward_metrics(double chosen, double rejected, LossMetrics& metrics);

}  // namespace mainspring
