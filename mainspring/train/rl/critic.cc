#include "mainspring/train/rl/critic.h"

#include <cmath>
#include <utility>

#include "mainspring/losses/returns.h"

namespace mainspring {
namespace {

constexpr double kDeviationFloor = 1e-8;

// A learned position of a datum of the batch.
struct Place {
  size_t datum = 0;
  size_t position = 0;
};

// The steps of the sample whose datums begin at `first`; moves `first` behind them.
std::vector<Place> places_of(const RlBatch& batch, size_t& first) {
  const RlBatch::Origin origin = batch.origins[first];
  std::vector<Place> places;
  for (; first < batch.datums.size(); ++first) {
    const RlBatch::Origin& other = batch.origins[first];
    if (other.group != origin.group || other.sample != origin.sample) break;
    const std::vector<float>& weights = batch.datums[first].weights;
    for (size_t t = 0; t < weights.size(); ++t) {
      if (weights[t] != 0.0f) places.push_back({first, t});
    }
  }
  return places;
}

void normalise(RlBatch& batch, const std::vector<std::pair<Place, double>>& advantages) {
  double sum = 0.0;
  for (const auto& [place, advantage] : advantages) sum += advantage;
  const double count = static_cast<double>(advantages.size());
  const double mean = count > 0.0 ? sum / count : 0.0;
  double squares = 0.0;
  for (const auto& [place, advantage] : advantages) {
    squares += (advantage - mean) * (advantage - mean);
  }
  const double deviation = count > 1.0 ? std::sqrt(squares / (count - 1.0)) : 0.0;
  for (const auto& [place, advantage] : advantages) {
    batch.datums[place.datum].inputs["advantages"][place.position] =
        static_cast<float>((advantage - mean) / (deviation + kDeviationFloor));
  }
}

}  // namespace

void fill_gae(RlBatch& batch, const std::vector<RolloutGroup>& groups, const RlRecipe& rl,
              const std::vector<std::vector<float>>& values) {
  for (size_t i = 0; i < batch.datums.size(); ++i) {
    Datum& datum = batch.datums[i];
    datum.inputs["returns"].assign(datum.tokens.size(), 0.0f);
    datum.inputs["old_values"] = values[i];
  }
  std::vector<std::pair<Place, double>> advantages;
  for (size_t first = 0; first < batch.datums.size();) {
    const RlBatch::Origin origin = batch.origins[first];
    const std::vector<Place> places = places_of(batch, first);
    const size_t steps = places.size();
    std::vector<double> rewards(steps, 0.0);
    std::vector<double> discounts(steps, rl.discount);
    std::vector<double> now(steps);
    std::vector<double> next(steps, 0.0);
    for (size_t k = 0; k < steps; ++k) {
      now[k] = static_cast<double>(values[places[k].datum][places[k].position]);
      if (k > 0) next[k - 1] = now[k];
    }
    rewards.back() = shaped_reward(groups[origin.group].samples[origin.sample], rl);
    discounts.back() = 0.0;
    const std::vector<double> gained =
        gae({.rewards = rewards, .discounts = discounts, .values = now, .next_values = next},
            rl.gae_lambda);
    for (size_t k = 0; k < steps; ++k) {
      batch.datums[places[k].datum].inputs["returns"][places[k].position] =
          static_cast<float>(gained[k] + now[k]);
      advantages.emplace_back(places[k], gained[k]);
    }
  }
  normalise(batch, advantages);
}

LossCall value_loss_call(const RlRecipe& rl) {
  return {"value", {{"coef", rl.value_weight}, {"clip", rl.value_clip}}};
}

}  // namespace mainspring
