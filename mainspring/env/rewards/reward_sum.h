// RewardSum: a weighted sum of rewards, each part kept by its name.
//
// The one idea: a part is a score of 0 to 1 and a weight; what is logged by name is their product,
// so the parts add up to the reward. Parts are named in one string, "exact=1, regex=0.2".
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

struct RewardWeight {
  std::string name;
  double weight = 1.0;
};

/// "exact" or "exact=1, regex=-0.5": each of `known` at most once, weights finite and not 0.
/// Errors: invalid argument with the nearest name.
Result<std::vector<RewardWeight>> parse_reward_weights(std::string_view text,
                                                       const std::vector<std::string>& known);

/// Scores by name, times the weights. `score` is called once per part.
Result<std::map<std::string, double>> weighted_rewards(
    const std::vector<RewardWeight>& weights,
    const std::function<Result<double>(const std::string&)>& score);

}  // namespace mainspring
