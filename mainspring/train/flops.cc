#include "mainspring/train/flops.h"

#include "mainspring/models/decoder.h"

namespace mainspring {

FlopsModel FlopsModel::of(const ModelConfig& config, bool full, Executor& executor) {
  double weights = static_cast<double>(config.vocabulary * config.d);
  const auto modules = lora_modules(config, {});
  for (const std::string& module : modules.value()) {
    const auto [out, in] = linear_shape(config, module);
    weights += static_cast<double>(out * in);
  }
  FlopsModel model;
  model.per_token = (full ? 6.0 : 4.0) * weights;
  model.peak = executor.peak_flops();
  model.formula = full ? "6 N tokens / s / peak (N: linears and head)"
                       : "4 N tokens / s / peak (N: linears and head; LoRA)";
  return model;
}

}  // namespace mainspring
