#include "mainspring/env/rewards/reward_sum.h"

#include <algorithm>

#include "mainspring/base/nearest.h"
#include "mainspring/env/rewards/answer_text.h"
#include "mainspring/env/rewards/text_rewards.h"

namespace mainspring {

Result<std::vector<RewardWeight>> parse_reward_weights(std::string_view text,
                                                       const std::vector<std::string>& known) {
  std::vector<RewardWeight> weights;
  while (true) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view part = trimmed(text.substr(0, end));
    const size_t sign = part.find('=');
    RewardWeight each;
    each.name = trimmed(part.substr(0, sign));
    if (std::find(known.begin(), known.end(), each.name) == known.end()) {
      std::string names;
      for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
      return invalid_argument("unknown reward \"" + each.name + "\"; the nearest is \"" +
                              nearest_name(each.name, known) + "\"; known: " + names);
    }
    if (sign != std::string_view::npos) {
      const auto weight = read_number(part.substr(sign + 1));
      if (!weight.has_value() || *weight == 0) {
        return invalid_argument("the weight of \"" + each.name +
                                "\": expected a number that is not 0, got \"" +
                                std::string(part.substr(sign + 1)) + "\"");
      }
      each.weight = *weight;
    }
    if (std::any_of(weights.begin(), weights.end(),
                    [&](const RewardWeight& other) { return other.name == each.name; })) {
      return invalid_argument("the reward \"" + each.name + "\" stands there twice");
    }
    weights.push_back(each);
    if (end == text.size()) return weights;
    text.remove_prefix(end + 1);
  }
}

Result<std::map<std::string, double>> weighted_rewards(
    const std::vector<RewardWeight>& weights,
    const std::function<Result<double>(const std::string&)>& score) {
  std::map<std::string, double> rewards;
  for (const RewardWeight& each : weights) {
    MS_ASSIGN_OR_RETURN(const double value, score(each.name));
    rewards[each.name] = each.weight * value;
  }
  return rewards;
}

}  // namespace mainspring
