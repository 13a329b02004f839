#include "mainspring/train/flops.h"

#include <algorithm>

#include "mainspring/models/decoder.h"

namespace mainspring {
namespace {

double triangle(int64_t n) { return 0.5 * static_cast<double>(n) * static_cast<double>(n + 1); }

// Pairs of a query and a key that it sees among n tokens.
double causal_pairs(int64_t n, int64_t window) {
  return window > 0 && window < n ? triangle(n) - triangle(n - window) : triangle(n);
}

Result<double> adapter_weights(const ModelConfig& config, const TrainedPart& part) {
  if (part.full || part.rank == 0) return 0.0;
  MS_ASSIGN_OR_RETURN(const auto modules, lora_modules(config, part.targets));
  double weights = 0;
  for (const std::string& module : modules) {
    const auto [out, in] = linear_shape(config, module);
    weights += static_cast<double>(part.rank * (out + in));
  }
  return weights;
}

}  // namespace

Result<FlopsModel> FlopsModel::of(const ModelConfig& config, const TrainedPart& part,
                                  Executor& executor) {
  MS_ASSIGN_OR_RETURN(const auto modules, lora_modules(config, {}));
  MS_ASSIGN_OR_RETURN(const double adapter, adapter_weights(config, part));
  double weights = 0;
  for (const std::string& module : modules) {
    const auto [out, in] = linear_shape(config, module);
    weights += static_cast<double>(out * in);
  }
  const double passes = part.full ? 6.0 : 4.0;
  FlopsModel model;
  model.linear_per_token = passes * weights + 6.0 * adapter;
  model.head_per_token = passes * static_cast<double>(config.vocabulary * config.d);
  model.attention_per_pair = 12.0 * static_cast<double>(config.query_heads * config.head_width);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    model.windows.push_back(layer_window(config, layer));
  }
  model.peak = executor.peak_flops();
  const std::string terms = part.full ? "6 N tokens + 6 v d learned + 12 h c pairs"
                                      : "4 N tokens + 4 v d learned + 12 h c pairs + 6 N_adapter "
                                        "tokens";
  model.formula = "(" + terms + ") / s / peak; N: linears; pairs: causal, over layers";
  return model;
}

double FlopsModel::of_step(std::span<const Datum> datums) const {
  double flops = 0;
  for (const Datum& datum : datums) {
    const auto tokens = static_cast<int64_t>(datum.tokens.size());
    const auto learned = std::count_if(datum.weights.begin(), datum.weights.end(),
                                       [](float weight) { return weight != 0.0f; });
    double pairs = 0;
    for (const int64_t window : windows) pairs += causal_pairs(tokens, window);
    flops += linear_per_token * static_cast<double>(tokens) +
             head_per_token * static_cast<double>(learned) + attention_per_pair * pairs;
  }
  return flops;
}

double mfu(double flops, double seconds, double peak) { return flops / seconds / peak; }

}  // namespace mainspring
