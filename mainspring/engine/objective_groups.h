// What an objective sees together: the items of each of its groups, and one evaluation.
//
// The one idea: an objective knows datums and log-probabilities only, so it can be asked before any
// work whether it takes the groups, and gives the same whichever pass made the log-probabilities.
#pragma once

#include <span>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/batch/packer.h"
#include "mainspring/losses/losses.h"

namespace mainspring {

/// The items of each group in order, groups in the order of their first items. Datums of different
/// models never share a group.
std::vector<std::vector<size_t>> objective_groups(LossScope scope, std::span<const PackItem> items);

/// Evaluates `loss` on one group. `logprobs` are per datum, (tokens); those where nothing is
/// learned do not reach it. Returns an entry per datum, derivatives 0 where nothing is learned.
/// Errors: those of the objective, with the group's number.
Result<std::vector<ObjectiveGradient>> evaluate_objective(
    const LossInfo& loss, const LossSettings& settings, std::span<const Datum* const> datums,
    std::span<const std::span<const float>> logprobs, LossMetrics& metrics);

}  // namespace mainspring
