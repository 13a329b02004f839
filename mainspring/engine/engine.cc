#include "mainspring/engine/engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mainspring/base/check.h"
#include "mainspring/engine/call.h"
#include "mainspring/engine/programs.h"
#include "mainspring/engine/trainable.h"
#include "mainspring/engine/validate.h"
#include "mainspring/models/decoder.h"
#include "mainspring/models/rope_table.h"

namespace mainspring {
namespace {

// Larger micro-batches are no faster: every linear is compute-bound from a few hundred rows on.
constexpr int64_t kMostMicroBatchRows = 2048;
constexpr int64_t kFewestMicroBatchRows = 256;

// Rows whose activations fit into a third of the memory that is left. What a row keeps per layer
// for the backward pass: about 10 vectors of d, 3 of the attention widths and 4 of f (exec/cpu
// reports the truth).
int64_t rows_from_memory(const ModelConfig& c, DType compute, int64_t available_bytes) {
  const int64_t attention = (c.query_heads + 2 * c.kv_heads) * c.head_width;
  const int64_t per_layer = 10 * c.d + 3 * attention + 4 * c.ffn;
  const int64_t per_row = c.layers * dtype_bytes(compute, per_layer);
  const int64_t rows = available_bytes / 3 / per_row / 256 * 256;
  return std::clamp(rows, kFewestMicroBatchRows, kMostMicroBatchRows);
}

// A state tensor that keeps its buffer alive.
StoredTensor view_of(const std::string& name, const std::shared_ptr<Buffer>& buffer) {
  return {.name = name,
          .dtype = buffer->dtype(),
          .shape = buffer->shape(),
          .data = std::as_const(*buffer).data(),
          .size_bytes = buffer->size_bytes(),
          .owner = buffer,
          .aux = {}};
}

class EngineImpl final : public Engine {
 public:
  EngineImpl(std::shared_ptr<const LoadedModel> model, Executor& executor, EngineOptions options)
      : model_(std::move(model)),
        executor_(executor),
        options_(std::move(options)),
        base_(borrow_parameters(executor, model_->weights)) {
    const ModelConfig& config = model_->config;
    if (options_.max_sequence_tokens <= 0) options_.max_sequence_tokens = config.context_length;
    if (options_.max_micro_batch_rows <= 0) {
      options_.max_micro_batch_rows =
          rows_from_memory(config, options_.compute, executor.available_bytes());
    }
    rope_table_ =
        executor.allocate(DType::kF32, rope_table_shape(config, options_.max_sequence_tokens));
    const std::vector<float> table = make_rope_table(config, options_.max_sequence_tokens);
    std::memcpy(rope_table_->data(), table.data(), table.size() * sizeof(float));
    programs_ = std::make_unique<Programs>(
        *model_, executor_, base_, rope_table_,
        Programs::Options{.compute = options_.compute,
                          .passes = options_.passes,
                          .transient_packs = options_.transient_packs,
                          .rope_positions = options_.max_sequence_tokens});
  }

  const LoadedModel& model() const override { return *model_; }
  const EngineOptions& options() const override { return options_; }
  Executor& executor() override { return executor_; }
  const ParameterSet& base_parameters() const override { return base_; }
  std::shared_ptr<Buffer> rope_table() const override { return rope_table_; }

  Result<const ParameterSet*> parameters(ModelId id) const override {
    if (id == kBaseModel) return &base_;
    MS_ASSIGN_OR_RETURN(Trainable * trainable, find(id));
    return static_cast<const ParameterSet*>(&trainable->masters);
  }

  Result<nn::AdapterSpec> adapter_spec(ModelId id) const override {
    MS_ASSIGN_OR_RETURN(Trainable * trainable, find(id));
    if (trainable->is_full)
      return invalid_argument("model " + std::to_string(id) + " is no adapter");
    return trainable->adapter;
  }

  Result<Adapter> adapter(ModelId id) const override;

  Result<ModelId> add_lora(const LoraOptions& options) override {
    MS_ASSIGN_OR_RETURN(auto trainable, make_lora(executor_, model_->config, options));
    return add(std::move(trainable));
  }

  Result<ModelId> add_adapter(const Adapter& adapter, uint64_t dropout_seed) override {
    MS_ASSIGN_OR_RETURN(auto checked,
                        make_adapter_trainable(executor_, model_->config, adapter, dropout_seed));
    return add(std::move(checked));
  }

  using Engine::add_full;
  Result<ModelId> add_full(const FullOptions& options) override {
    MS_ASSIGN_OR_RETURN(auto trainable, make_full(executor_, *model_, options));
    return add(std::move(trainable));
  }

  Result<ModelId> add_average(ModelId id, const EmaSettings& settings) override {
    MS_ASSIGN_OR_RETURN(Trainable * trainable, find_learner(id));
    MS_ASSIGN_OR_RETURN(auto values, make_average(executor_, *trainable, settings));
    return add(std::move(values));
  }

  Result<ForwardBackwardResult> forward_backward(ModelId id, std::span<const Datum> datums,
                                                 const LossCall& loss) override {
    const Work work{id, datums};
    MS_ASSIGN_OR_RETURN(auto results, execute({&work, 1}, loss, true));
    return std::move(results[0]);
  }

  Result<std::vector<ForwardBackwardResult>> forward_backward_many(std::span<const Work> work,
                                                                   const LossCall& loss) override {
    return execute(work, loss, true);
  }

  Result<ForwardBackwardResult> forward(ModelId id, std::span<const Datum> datums,
                                        const LossCall& loss) override {
    const Work work{id, datums};
    MS_ASSIGN_OR_RETURN(auto results, execute({&work, 1}, loss, false));
    return std::move(results[0]);
  }

  Status set_optimizer(ModelId id, const OptimizerPlan& plan) override {
    MS_ASSIGN_OR_RETURN(Trainable * trainable, find_learner(id));
    return plan_update(executor_, *trainable, plan);
  }

  Result<OptimStepResult> optim_step(ModelId id, const AdamwOptions& options) override;

  void zero_grad(ModelId id) override {
    if (auto trainable = find(id); trainable.ok()) clear_gradients(**trainable);
  }

  Result<State> state(ModelId id) const override;
  Status load_state(ModelId id, const State& state) override;
  Result<TensorSet> gradients(ModelId id) const override;

  Result<PlanReport> plan(ModelId id, const LossCall& call) override {
    MS_ASSIGN_OR_RETURN(const LossInfo* loss, find_loss(call.name));
    const Work work{id, {}};
    MS_ASSIGN_OR_RETURN(Program::Key key, key_of({&work, 1}, true));
    key.loss = loss->objective != nullptr ? &objective_loss() : loss;
    MS_ASSIGN_OR_RETURN(Program * program, programs_->get(key, options_.max_micro_batch_rows));
    return program->report();
  }

  int64_t current_bytes() const override { return executor_.current_bytes(); }
  int64_t peak_bytes() const override { return executor_.peak_bytes(); }

 private:
  Result<Trainable*> find(ModelId id) const {
    const size_t index = static_cast<size_t>(id) - 1;
    if (id <= 0 || index >= trainables_.size()) {
      return not_found("no model " + std::to_string(id) + " to train");
    }
    return trainables_[index].get();
  }

  Result<Trainable*> find_learner(ModelId id) const {
    MS_ASSIGN_OR_RETURN(Trainable * trainable, find(id));
    if (!trainable->is_average) return trainable;
    return invalid_argument("model " + std::to_string(id) +
                            " is a moving average: it does not learn");
  }

  ModelId add(std::unique_ptr<Trainable> trainable) {
    trainable->leaves =
        std::make_unique<GradientLeaves>(executor_, trainable->grads, options_.gradient_leaf);
    trainables_.push_back(std::move(trainable));
    return static_cast<ModelId>(trainables_.size());
  }

  Result<Program::Key> key_of(std::span<const Work> work, bool with_gradient) const;
  Result<std::vector<ForwardBackwardResult>> execute(std::span<const Work> work,
                                                     const LossCall& call, bool with_gradient);

  std::shared_ptr<const LoadedModel> model_;
  Executor& executor_;
  EngineOptions options_;
  ParameterSet base_;
  std::shared_ptr<Buffer> rope_table_;
  std::vector<std::unique_ptr<Trainable>> trainables_;
  std::unique_ptr<Programs> programs_;
};

Result<Program::Key> EngineImpl::key_of(std::span<const Work> work, bool with_gradient) const {
  Program::Key key{.models = {}, .loss = nullptr, .with_gradient = with_gradient};
  for (const Work& item : work) {
    Trainable* trainable = nullptr;
    if (item.id != kBaseModel) {
      MS_ASSIGN_OR_RETURN(trainable, with_gradient ? find_learner(item.id) : find(item.id));
    } else if (with_gradient) {
      return invalid_argument("the base is frozen: add an adapter or full weights to train");
    }
    if (trainable != nullptr && trainable->is_full && work.size() > 1) {
      return invalid_argument("full weights do not share a pass: give them a call of their own");
    }
    if (std::find(key.models.begin(), key.models.end(), trainable) != key.models.end()) {
      return invalid_argument("model " + std::to_string(item.id) + " appears twice in one call");
    }
    key.models.push_back(trainable);
  }
  return key;
}

Result<std::vector<ForwardBackwardResult>> EngineImpl::execute(std::span<const Work> work,
                                                               const LossCall& call,
                                                               bool with_gradient) {
  MS_ASSIGN_OR_RETURN(const LossInfo* loss, find_loss(call.name));
  MS_ASSIGN_OR_RETURN(LossSettings settings, complete_settings(*loss, call.settings));
  MS_ASSIGN_OR_RETURN(Program::Key key, key_of(work, with_gradient));
  EngineCall engine_call({executor_, *programs_, options_, model_->config.vocabulary},
                         std::move(key), *loss, std::move(settings));
  for (size_t w = 0; w < work.size(); ++w) {
    MS_RETURN_IF_ERROR(engine_call.add(w, work[w].datums));
  }
  return engine_call.run();
}

Result<OptimStepResult> EngineImpl::optim_step(ModelId id, const AdamwOptions& options) {
  MS_RETURN_IF_ERROR(validate_adamw(options));
  MS_ASSIGN_OR_RETURN(Trainable * t, find_learner(id));
  if (!t->has_gradient) {
    return failed_precondition("optim_step without a gradient: call forward_backward first");
  }
  MS_RETURN_IF_ERROR(prepare_update(executor_, *t));
  MS_RETURN_IF_ERROR(prepare_average(executor_, *t));
  MS_RETURN_IF_ERROR(t->leaves->collect());
  t->update.norm_program->run({});
  const float squares =
      *static_cast<const float*>(t->update.norm_program->output("sum_of_squares"));
  OptimStepResult result;
  result.grad_norm = std::sqrt(static_cast<double>(squares)) / options.normaliser;
  result.applied = std::isfinite(result.grad_norm);
  if (result.applied) {
    double scale = 1.0 / options.normaliser;
    if (options.max_grad_norm > 0.0f) {
      const double limit = static_cast<double>(options.max_grad_norm);
      scale *= std::min(1.0, limit / (result.grad_norm + 1e-6));
    }
    ++t->step;
    run_update(*t, options, static_cast<float>(scale));
    if (t->average.values != nullptr) run_average(*t);
  }
  const SpanScope clearing(executor_.timeline(), SpanKind::kHost, "clear gradients");
  clear_gradients(*t);
  return result;
}

Result<Adapter> EngineImpl::adapter(ModelId id) const {
  MS_ASSIGN_OR_RETURN(Trainable * t, find(id));
  if (t->is_full) return invalid_argument("model " + std::to_string(id) + " is no adapter");
  Adapter adapter;
  for (const auto& [module, sizes] : t->adapter.modules) {
    adapter.modules[module] = {sizes.rank, sizes.scale};
  }
  for (const auto& [name, buffer] : t->masters) adapter.tensors[name] = view_of(name, buffer);
  adapter.dropout = t->adapter.dropout;
  return adapter;
}

Result<Engine::State> EngineImpl::state(ModelId id) const {
  MS_ASSIGN_OR_RETURN(Trainable * t, find_learner(id));
  if (t->update.params.empty()) MS_RETURN_IF_ERROR(plan_update(executor_, *t, {}));
  State state;
  state.step = t->step;
  for (const auto& [name, buffer] : t->masters) {
    state.tensors["model/" + name] = view_of("model/" + name, buffer);
  }
  for (const auto& [name, buffer] : t->update.states) state.tensors[name] = view_of(name, buffer);
  if (t->average.values == nullptr) return state;
  for (const auto& [name, buffer] : t->average.values->masters) {
    state.tensors[kEmaPrefix + name] = view_of(kEmaPrefix + name, buffer);
  }
  return state;
}

Status EngineImpl::load_state(ModelId id, const State& state) {
  MS_ASSIGN_OR_RETURN(Trainable * t, find_learner(id));
  MS_ASSIGN_OR_RETURN(const State own, this->state(id));
  MS_RETURN_IF_ERROR(check_same_tensors(own.tensors, state.tensors));
  for (const auto& [name, target] : own.tensors) {
    auto* buffer = const_cast<Buffer*>(static_cast<const Buffer*>(target.owner.get()));
    std::memcpy(buffer->data(), state.tensors.at(name).data,
                static_cast<size_t>(target.size_bytes));
    buffer->mark_changed();
  }
  t->step = state.step;
  clear_gradients(*t);
  return {};
}

Result<TensorSet> EngineImpl::gradients(ModelId id) const {
  MS_ASSIGN_OR_RETURN(Trainable * t, find_learner(id));
  TensorSet result;
  for (const auto& [name, master] : t->masters) {
    const int64_t n = Shape{master->shape()}.num_elements({});
    auto sum = std::make_shared<std::vector<float>>(static_cast<size_t>(n), 0.0f);
    for (int64_t use = 0; use < t->num_uses(name); ++use) {
      const std::string key = use == 0 ? name : name + "#" + std::to_string(use);
      const auto* values = static_cast<const float*>(std::as_const(*t->grads.at(key)).data());
      for (int64_t i = 0; i < n; ++i) (*sum)[static_cast<size_t>(i)] += values[i];
    }
    t->leaves->add_closed_leaves(name, *sum);
    result[name] = {.name = name,
                    .dtype = DType::kF32,
                    .shape = master->shape(),
                    .data = sum->data(),
                    .size_bytes = n * 4,
                    .owner = sum,
                    .aux = {}};
  }
  return result;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const LoadedModel> model,
                                               Executor& executor, const EngineOptions& options) {
  if (options.compute != DType::kBF16 && options.compute != DType::kF32) {
    return invalid_argument("compute dtype: expected bf16 or f32, got " +
                            std::string(dtype_name(options.compute)));
  }
  const int64_t positions =
      options.max_sequence_tokens > 0 ? options.max_sequence_tokens : model->config.context_length;
  MS_RETURN_IF_ERROR(check_positions(model->config, positions));
  return std::unique_ptr<Engine>(std::make_unique<EngineImpl>(std::move(model), executor, options));
}

}  // namespace mainspring
