// Engine: the four primitives over one base model.
//
// The one idea: recipes, servers and reinforcement learning are clients of forward_backward,
// optim_step, sample (through sample/) and save/load; the engine packs datums, runs graphs and owns
// the gradients, and never knows the algorithm. A loss is a name with per-token inputs; it sums,
// and the normaliser divides once in optim_step (docs/exactness.md, rules 9, 10, 13).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/batch/datum.h"
#include "mainspring/exec/executor.h"
#include "mainspring/ir/dtype.h"
#include "mainspring/losses/losses.h"
#include "mainspring/models/adapter.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/nn/layers.h"
#include "mainspring/optim/param_groups.h"
#include "mainspring/weights/parameter_set.h"
#include "mainspring/weights/stored_tensor.h"

namespace mainspring {

/// How the engine computes; nothing here changes a bit except `compute` and `gradient_leaf`.
struct EngineOptions {
  DType compute = DType::kBF16;      // kBF16 or kF32
  int64_t gradient_leaf = 0;         // datums to a leaf (rule 10); 0: one leaf
  int64_t max_micro_batch_rows = 0;  // 0: from memory
  int64_t max_sequence_tokens = 0;   // longest datum; 0: the model's context length
  PassOptions passes;                // recomputation policy, passes switched off
  bool transient_packs = false;      // quantised weights are unpacked at every use (QLoRA)
};

/// A trainable part of the model.
struct LoraOptions {
  int64_t rank = 16;
  float alpha = 32.0f;
  float dropout = 0.0f;
  /// Suffixes such as "q_proj"; empty: all seven linears.
  std::vector<std::string> targets;
  uint64_t seed = 0;  // of A's initialisation (kaiming uniform, as PEFT); B starts at zero
};

/// Full weights.
struct FullOptions {
  /// kF32 masters, or kBF16: weights, and moments that are not coded, are kept in bf16 only and
  /// rounded by chance (docs/exactness.md, rule 18).
  DType weights = DType::kF32;
  uint64_t seed = 0;  // of that rounding
};

struct AdamwOptions {
  float lr = 1e-4f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float weight_decay = 0.01f;
  float max_grad_norm = 0.0f;  // 0: no clipping
  double normaliser = 1.0;     // the summed gradient is divided by it, once
};

struct ForwardBackwardResult {
  double loss_sum = 0.0;    // sum of the loss over tokens, or over the datums of an objective
  double weight_sum = 0.0;  // sum of the datums' weights: the usual normaliser
  int64_t num_tokens = 0;   // tokens that went through the model
  int64_t num_micro_batches = 0;
  bool finite = true;                        // loss, and derivatives of an objective
  std::vector<std::vector<float>> logprobs;  // per datum, per token; 0 where nothing is learned
  LossMetrics metrics;                       // of an objective
};

struct OptimStepResult {
  double grad_norm = 0.0;  // of the normalised gradient, before clipping
  bool applied = true;     // false: non-finite gradient, nothing changed
};

/// What a model key names: 0 is the base; adapters and full weights follow.
using ModelId = int32_t;
inline constexpr ModelId kBaseModel = 0;

class Engine {
 public:
  /// Loads nothing itself: `model` comes from models/, `executor` (which outlives the engine and
  /// decides threads and instruction set) from the caller. Errors: resource exhausted if the plan
  /// does not fit.
  static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const LoadedModel> model,
                                                Executor& executor, const EngineOptions& options);
  virtual ~Engine() = default;

  virtual const LoadedModel& model() const = 0;
  virtual const EngineOptions& options() const = 0;  // with the 0s resolved
  virtual Executor& executor() = 0;
  /// The base's buffers, and an adapter's or full model's, for a sampler to share.
  virtual const ParameterSet& base_parameters() const = 0;
  virtual Result<const ParameterSet*> parameters(ModelId id) const = 0;
  /// The adapter's modules as the graph sees them (slot 0). Errors: invalid argument if `id` is no
  /// adapter.
  virtual Result<nn::AdapterSpec> adapter_spec(ModelId id) const = 0;
  /// The adapter's current values, shared with the engine until the next optim_step or load_state.
  /// Errors: invalid argument if `id` is no adapter.
  virtual Result<Adapter> adapter(ModelId id) const = 0;
  /// f32(positions, c/2, 2), shared.
  virtual std::shared_ptr<Buffer> rope_table() const = 0;

  /// Adds a LoRA adapter, or the full set of weights as masters. Both start with empty gradients.
  virtual Result<ModelId> add_lora(const LoraOptions& options) = 0;
  /// An adapter with given values and scales; `dropout_seed` keys its dropout.
  virtual Result<ModelId> add_adapter(const Adapter& adapter, uint64_t dropout_seed) = 0;
  virtual Result<ModelId> add_full(const FullOptions& options) = 0;
  Result<ModelId> add_full() { return add_full(FullOptions{}); }

  /// A moving average of `id`'s weights in f32, as a model of its own that is computed with,
  /// sampled and read as any other but does not learn: it starts as the weights are now and follows
  /// every optim_step of `id` that is applied. state(id) has it, as "ema/<name>". Errors: failed
  /// precondition if `id` has one already; invalid argument for a decay outside (0, 1).
  virtual Result<ModelId> add_average(ModelId id, const EmaSettings& settings) = 0;

  /// Adds the datums' gradients of the summed loss to `id`'s accumulators; `loss` is a name such as
  /// "cross_entropy", or a name with settings. An objective (losses/objective.h) is evaluated
  /// between the forward pass and the gradient. Errors: before any work, invalid argument names the
  /// datum and the field (token out of range, too long, sizes differ, non-finite value, an input
  /// that the loss lacks or that no loss knows), the unknown loss or setting with the nearest name,
  /// or the group that the objective refuses.
  virtual Result<ForwardBackwardResult> forward_backward(ModelId id, std::span<const Datum> datums,
                                                         const LossCall& loss) = 0;
  /// Several models' datums in one pass over the base (adapters only).
  struct Work {
    ModelId id;
    std::span<const Datum> datums;
  };
  virtual Result<std::vector<ForwardBackwardResult>> forward_backward_many(
      std::span<const Work> work, const LossCall& loss) = 0;
  /// The same without gradients; `logprobs` has every position, learned or not.
  virtual Result<ForwardBackwardResult> forward(ModelId id, std::span<const Datum> datums,
                                                const LossCall& loss) = 0;
  /// Chooses the optimizer of each parameter of `id` and forgets the states of the one before;
  /// without it AdamW moves all. Errors: invalid argument as of assign_params (optim/).
  virtual Status set_optimizer(ModelId id, const OptimizerPlan& plan) = 0;
  /// Applies the accumulated gradient and clears it; a non-finite one is cleared and not applied.
  /// The rate, its group's lr_scale apart, and the weight decay are for every optimizer, the betas
  /// and eps for AdamW.
  virtual Result<OptimStepResult> optim_step(ModelId id, const AdamwOptions& options) = 0;
  /// Forgets the accumulated gradient.
  virtual void zero_grad(ModelId id) = 0;

  /// Every tensor of the training state of `id`: "model/<name>" masters, each optimizer's states by
  /// their own names ("adam_m/<name>", "muon_momentum/<name>"; optim/optimizer.h), "ema/<name>" of
  /// its average, and the step counter in `step`. Pointers stay valid and unchanged until the next
  /// optim_step, set_optimizer or load_state of `id`.
  struct State {
    TensorSet tensors;
    int64_t step = 0;
  };
  virtual Result<State> state(ModelId id) const = 0;
  virtual Status load_state(ModelId id, const State& state) = 0;

  /// f32 gradients accumulated so far, by parameter name (tests and custom optimizers). Tied uses
  /// added.
  virtual Result<TensorSet> gradients(ModelId id) const = 0;

  /// The plan of a full micro-batch of `id` with gradients, made if it is not there yet.
  virtual Result<PlanReport> plan(ModelId id, const LossCall& loss) = 0;

  /// Bytes held now and the peak since creation (weights, optimizer state, gradients, arena).
  virtual int64_t current_bytes() const = 0;
  virtual int64_t peak_bytes() const = 0;
};

}  // namespace mainspring
