#include "mainspring/engine/trainable.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mainspring/base/check.h"
#include "mainspring/base/philox.h"
#include "mainspring/models/decoder.h"

namespace mainspring {
namespace {

std::shared_ptr<Buffer> zeros(Executor& executor, const std::vector<int64_t>& shape) {
  return executor.allocate(DType::kF32, shape);
}

// An accumulator beside every master.
void add_gradients(Executor& executor, Trainable& trainable) {
  for (const auto& [name, master] : trainable.masters) {
    trainable.grads[name] = zeros(executor, master->shape());
  }
}

void fill_kaiming(Buffer& buffer, uint64_t key, int64_t in) {
  const float bound = 1.0f / std::sqrt(static_cast<float>(in));
  auto* values = static_cast<float*>(buffer.data());
  const int64_t n = buffer.size_bytes() / 4;
  for (int64_t i = 0; i < n; i += 4) {
    const PhiloxCounter block = philox4x32(
        {static_cast<uint32_t>(i / 4), static_cast<uint32_t>(i >> 34), 0, 0}, philox_key(key));
    for (int64_t j = i; j < std::min(i + 4, n); ++j) {
      values[j] = (2.0f * philox_uniform(block[static_cast<size_t>(j - i)]) - 1.0f) * bound;
    }
  }
  buffer.mark_changed();
}

}  // namespace

int64_t Trainable::num_uses(const std::string& name) const {
  int64_t uses = 1;
  while (grads.count(name + "#" + std::to_string(uses)) > 0) ++uses;
  return uses;
}

Result<std::unique_ptr<Trainable>> make_lora(Executor& executor, const ModelConfig& config,
                                             const LoraOptions& options) {
  if (options.rank < 1)
    return invalid_argument("lora rank: expected 1 or more, got " + std::to_string(options.rank));
  if (!(options.dropout >= 0.0f && options.dropout < 1.0f)) {
    return invalid_argument("lora dropout: expected [0, 1), got " +
                            std::to_string(options.dropout));
  }
  if (!std::isfinite(options.alpha))
    return invalid_argument("lora alpha: expected a finite number");
  MS_ASSIGN_OR_RETURN(const auto modules, lora_modules(config, options.targets));
  MS_RETURN_IF_ERROR(check_lora_rank(config, modules, options.rank, "lora rank"));
  auto trainable = std::make_unique<Trainable>();
  nn::AdapterSpec& adapter = trainable->adapter;
  adapter.rank = options.rank;
  adapter.scale = options.alpha / static_cast<float>(options.rank);
  adapter.dropout = options.dropout;
  adapter.dropout_seed = options.seed;
  for (const std::string& module : modules) {
    const auto [out, in] = linear_shape(config, module);
    adapter.modules.push_back({module, {options.rank, adapter.scale}});
    auto a = zeros(executor, {options.rank, in});
    fill_kaiming(*a, nn::random_key(options.seed, module + ".lora_A"), in);
    trainable->masters[module + ".lora_A.weight"] = std::move(a);
    trainable->masters[module + ".lora_B.weight"] = zeros(executor, {out, options.rank});
  }
  if (options.value_head) trainable->masters[kValueHead] = zeros(executor, {1, config.d});
  add_gradients(executor, *trainable);
  return trainable;
}

Result<std::unique_ptr<Trainable>> make_adapter_trainable(Executor& executor,
                                                          const ModelConfig& config,
                                                          const Adapter& adapter,
                                                          uint64_t dropout_seed) {
  // The checks of names, pairs and shapes are make_adapter's; its uniform scale is not used.
  MS_RETURN_IF_ERROR(make_adapter(config, adapter.tensors, 1.0f, adapter.dropout).status());
  auto trainable = std::make_unique<Trainable>();
  trainable->adapter.dropout = adapter.dropout;
  trainable->adapter.dropout_seed = dropout_seed;
  for (const auto& [module, sizes] : adapter.modules) {
    trainable->adapter.modules.push_back({module, {sizes.rank, sizes.scale}});
  }
  trainable->masters = copy_parameters_f32(executor, adapter.tensors);
  add_gradients(executor, *trainable);
  return trainable;
}

Result<std::unique_ptr<Trainable>> make_full(Executor& executor, const LoadedModel& model,
                                             const FullOptions& options) {
  if (options.weights != DType::kF32 && options.weights != DType::kBF16) {
    return invalid_argument("full weights: expected f32 or bf16, got " +
                            std::string(dtype_name(options.weights)));
  }
  auto trainable = std::make_unique<Trainable>();
  trainable->is_full = true;
  trainable->dtype = options.weights;
  trainable->rounding_seed = options.seed;
  trainable->masters = options.weights == DType::kBF16
                           ? copy_parameters_bf16(executor, model.weights)
                           : copy_parameters_f32(executor, model.weights);
  if (options.value_head) {
    trainable->masters[kValueHead] = executor.allocate(options.weights, {1, model.config.d});
  }
  add_gradients(executor, *trainable);
  if (model.config.tied_embeddings) {
    const std::string name = "model.embed_tokens.weight";
    trainable->grads[name + "#1"] = zeros(executor, trainable->masters[name]->shape());
  }
  return trainable;
}

Status keep_version(Trainable& trainable) {
  if (const auto held = trainable.snapshot.lock()) MS_RETURN_IF_ERROR(held->keep());
  trainable.snapshot.reset();
  return trainable.average.values != nullptr ? keep_version(*trainable.average.values) : Status();
}

void begin_version(Trainable& trainable) {
  ++trainable.version;
  trainable.digest.reset();
  if (trainable.average.values != nullptr) begin_version(*trainable.average.values);
}

void clear_gradients(Trainable& trainable) {
  if (!trainable.has_gradient) return;
  for (auto& [name, grad] : trainable.grads) {
    std::memset(grad->data(), 0, static_cast<size_t>(grad->size_bytes()));
  }
  trainable.leaves->clear();
  trainable.has_gradient = false;
}

}  // namespace mainspring
