#include "mainspring/engine/programs.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "mainspring/base/bf16.h"
#include "mainspring/base/check.h"
#include "mainspring/engine/trainable.h"
#include "mainspring/models/decoder.h"

namespace mainspring {
namespace {

std::string slot_prefix(size_t slot) { return "adapter" + std::to_string(slot) + "/"; }

void copy_in(Buffer& buffer, const void* data, size_t bytes) {
  std::memcpy(buffer.data(), data, bytes);
}

// Adapters of the key with their slots and prefixes; a full model replaces the base instead.
std::vector<nn::AdapterSpec> adapters_of(const Program::Key& key) {
  std::vector<nn::AdapterSpec> adapters;
  for (size_t slot = 0; slot < key.models.size(); ++slot) {
    if (key.models[slot] == nullptr || key.models[slot]->is_full) continue;
    adapters.push_back(key.models[slot]->adapter);
    adapters.back().slot = static_cast<int32_t>(slot);
    adapters.back().prefix = slot_prefix(slot);
  }
  return adapters;
}

const Trainable* full_model_of(const Program::Key& key) {
  for (const Trainable* model : key.models) {
    if (model != nullptr && model->is_full) return model;
  }
  return nullptr;
}

// A target of each pick, and its candidates if there are any.
Shape targets_shape(int64_t picks, int64_t num_candidates) {
  if (num_candidates == 0) return {{picks}};
  return {{picks, 1 + num_candidates}};
}

// Of what changes every run, for `rows`; nothing for other sources. Gradients by values are a
// matrix of one column, rounded.
std::optional<ValueType> input_type(const std::string& source, DType compute, int64_t rows,
                                    int64_t num_candidates) {
  if (source == kTokensInput) return ValueType{DType::kI32, {{rows}}};
  if (source == kTargetsInput) return ValueType{DType::kI32, targets_shape(rows, num_candidates)};
  if (source == "late/by_logprob") {
    return ValueType{DType::kF32, targets_shape(rows, num_candidates)};
  }
  if (source.starts_with("late/by_value")) return ValueType{compute, {{rows, 1}}};
  if (source.starts_with("loss.")) return ValueType{DType::kF32, {{rows}}};
  return std::nullopt;
}

/// A scalar head of the key, and its source.
struct ValueHead {
  size_t slot = 0;
  std::string source;
  DType dtype = DType::kF32;
};

std::vector<ValueHead> value_heads_of(const Program::Key& key) {
  std::vector<ValueHead> heads;
  for (size_t slot = 0; slot < key.models.size(); ++slot) {
    const Trainable* model = key.models[slot];
    if (model == nullptr || !model->has_value_head()) continue;
    heads.push_back({slot, (model->is_full ? "" : slot_prefix(slot)) + kValueHead,
                     model->masters.at(kValueHead)->dtype()});
  }
  return heads;
}

// "grad/adapter1/model...lora_A.weight#1" -> slot and "model...lora_A.weight#1".
std::pair<size_t, std::string> split_slot(std::string_view name) {
  if (name.rfind("adapter", 0) != 0) return {0, std::string(name)};
  const size_t slash = name.find('/');
  return {std::stoul(std::string(name.substr(7, slash - 7))), std::string(name.substr(slash + 1))};
}

constexpr const char* kLogprobOutput = "logprob";
constexpr const char* kTokenLossOutput = "token_loss";
constexpr const char* kByLogprobInput = "late/by_logprob";
std::string values_output(size_t slot) { return "values/" + std::to_string(slot); }
std::string by_value_input(size_t slot) { return "late/by_value/" + std::to_string(slot); }
ValueType per_pick() { return {DType::kF32, {{kPicked}}}; }

/// What a graph of the engine is traced from.
struct Traced {
  Tracer& tracer;
  const nn::Params& params;
  const ModelConfig& config;
  int64_t rope_positions;
  int64_t num_candidates;
  std::vector<ValueHead> value_heads;
  std::function<bool(const std::string&)> is_trainable;
};

struct TracedHeads {
  HeadOutputs language;
  std::vector<Tensor> values;  // f32(picked, 1), as value_heads
};

TracedHeads trace_heads(const Traced& t) {
  const Tensor hidden = decoder_hidden(t.params, t.config, t.rope_positions);
  const Tensor targets =
      t.tracer.input(kTargetsInput, {DType::kI32, targets_shape(kPicked, t.num_candidates)});
  TracedHeads heads{decoder_head_outputs(t.params, t.config, hidden, targets), {}};
  t.tracer.output(kLogprobOutput, heads.language.logprob);
  for (const ValueHead& head : t.value_heads) {
    const Tensor w = t.tracer.param(head.source, {head.dtype, {{1, t.config.d}}});
    heads.values.push_back(linear(hidden, {w}, {.f32_output = true})[0]);
    t.tracer.output(values_output(head.slot), heads.values.back());
  }
  return heads;
}

void trace_loss(const Traced& t, const LossInfo& loss, bool with_gradient) {
  const auto [logprob, lse] = trace_heads(t).language;
  LossInputs inputs{logprob, lse, {}};
  for (std::string_view name : loss.inputs) {
    inputs.inputs.push_back(t.tracer.input("loss." + std::string(name), per_pick()));
  }
  const Tensor token_loss = loss.trace(inputs);
  t.tracer.output(kTokenLossOutput, token_loss);
  if (with_gradient) value_and_grad(reduce_sum(token_loss), t.is_trainable);
}

// Returns the late inputs.
std::vector<std::string> trace_objective(const Traced& t, bool with_gradient) {
  const TracedHeads heads = trace_heads(t);
  if (!with_gradient) return {};
  std::vector<std::string> late_inputs{kByLogprobInput};
  std::vector<Cotangent> cotangents{
      {heads.language.logprob, t.tracer.input(kByLogprobInput, heads.language.logprob.type())}};
  for (size_t i = 0; i < heads.values.size(); ++i) {
    late_inputs.push_back(by_value_input(t.value_heads[i].slot));
    const ValueType type{t.tracer.graph().compute(), {{kPicked, 1}}};
    cotangents.push_back({heads.values[i], t.tracer.input(late_inputs.back(), type)});
  }
  pull_back(cotangents, t.is_trainable);
  return late_inputs;
}

}  // namespace

void Program::run(const Batch& batch, std::span<const PackItem> items,
                  const std::function<void()>* fill_late_inputs) {
  copy_in(*inputs_.at(kTokensInput), batch.tokens.data(), batch.tokens.size() * sizeof(int32_t));
  const std::vector<int32_t> targets =
      num_candidates_ == 0 ? batch.targets : pack_candidates(batch, items, num_candidates_);
  copy_in(*inputs_.at(kTargetsInput), targets.data(), targets.size() * sizeof(int32_t));
  if (loss_ != nullptr) {
    for (std::string_view name : loss_->inputs) {
      const std::string key(name);
      const std::vector<float> values =
          key == "weights" ? batch.weights : pack_input(batch, items, key);
      copy_in(*inputs_.at("loss." + key), values.data(), values.size() * sizeof(float));
    }
  }
  const RowTable table = batch.row_table();
  const RowTable picks = batch.pick_table();
  executable_->run(
      {.table = &table, .pick_table = &picks, .kv = nullptr, .fill_late_inputs = fill_late_inputs});
}

const float* Program::logprob() const {
  return static_cast<const float*>(executable_->output(kLogprobOutput));
}

const float* Program::token_loss() const {
  return static_cast<const float*>(executable_->output(kTokenLossOutput));
}

const float* Program::values(size_t slot) const {
  return static_cast<const float*>(executable_->output(values_output(slot)));
}

void Program::write_by_logprob(std::span<const float> derivatives) {
  copy_in(*inputs_.at(kByLogprobInput), derivatives.data(), derivatives.size_bytes());
}

void Program::write_by_value(size_t slot, std::span<const float> derivatives) {
  Buffer& buffer = *inputs_.at(by_value_input(slot));
  if (buffer.dtype() == DType::kF32) {
    copy_in(buffer, derivatives.data(), derivatives.size_bytes());
    return;
  }
  std::transform(derivatives.begin(), derivatives.end(), static_cast<bf16*>(buffer.data()),
                 [](float x) { return to_bf16(x); });
}

Result<Program*> Programs::get(const Program::Key& key, int64_t rows) {
  auto& program = programs_[key];
  if (program == nullptr || program->capacity_rows() < rows) {
    program.reset();
    MS_ASSIGN_OR_RETURN(program, make(key, rows));
  }
  return program.get();
}

Result<std::unique_ptr<Program>> Programs::make(const Program::Key& key, int64_t rows) {
  Tracer tracer(options_.compute);
  const Trainable* full = full_model_of(key);
  const nn::Params params(
      tracer,
      [&](const std::string& name) {
        return (full != nullptr ? full->masters : base_).at(name)->dtype();
      },
      adapters_of(key));
  const auto is_trainable = [&](const std::string& name) {
    if (name == kRopeTableParam) return false;
    return full != nullptr || name.rfind("adapter", 0) == 0;
  };
  const Traced traced{tracer,
                      params,
                      model_.config,
                      options_.rope_positions,
                      key.num_candidates,
                      value_heads_of(key),
                      is_trainable};
  std::vector<std::string> late_inputs;
  if (key.loss != nullptr) {
    trace_loss(traced, *key.loss, key.with_gradient);
  } else {
    late_inputs = trace_objective(traced, key.with_gradient);
  }
  Graph graph = tracer.release();
  const std::vector<std::string> sources = source_names(graph);
  auto program = std::make_unique<Program>();
  program->loss_ = key.loss;
  program->num_candidates_ = key.num_candidates;
  program->capacity_rows_ = rows;
  CompileOptions compile{.capacity = {rows, rows},
                         .passes = options_.passes,
                         .repack = repack_for(full != nullptr, rows),
                         .late_inputs = std::move(late_inputs)};
  if (!key.with_gradient) compile.passes.recompute = RecomputePolicy::kNone;
  MS_ASSIGN_OR_RETURN(program->executable_, executor_.compile(std::move(graph), compile));
  MS_RETURN_IF_ERROR(bind_sources(*program, key, sources));
  return program;
}

// Full weights change every step, so their layouts are made anew anyway: beside a few hundred rows
// of work, making each at its use costs one more reading of the masters (1-2 % of a step of
// SmolLM2-135M at 1,024 rows) and saves two copies of the weights.
Repack Programs::repack_for(bool is_full, int64_t rows) const {
  constexpr int64_t kFewestRows = 256;
  if (is_full && rows >= kFewestRows) return Repack::kAll;
  return options_.transient_packs ? Repack::kQuantised : Repack::kNone;
}

Status Programs::bind_sources(Program& program, const Program::Key& key,
                              const std::vector<std::string>& sources) {
  const Trainable* full = full_model_of(key);
  const int64_t rows = program.capacity_rows_;
  for (const std::string& source : sources) {
    Buffer* buffer = nullptr;
    if (source == kRopeTableParam) {
      buffer = rope_table_.get();
    } else if (const auto type = input_type(source, options_.compute, rows, key.num_candidates)) {
      auto& input = program.inputs_[source];
      input = executor_.allocate(type->dtype, type->shape.dims);
      buffer = input.get();
    } else if (source.rfind("grad/", 0) == 0) {
      const auto [slot, name] = split_slot(std::string_view(source).substr(5));
      const Trainable& owner = full != nullptr ? *full : *key.models[slot];
      buffer = owner.grads.at(name).get();
    } else if (source.rfind("adapter", 0) == 0) {
      const auto [slot, name] = split_slot(source);
      buffer = key.models[slot]->masters.at(name).get();
    } else {
      buffer = (full != nullptr ? full->masters : base_).at(source).get();
    }
    MS_RETURN_IF_ERROR(program.executable_->bind(source, buffer));
  }
  return {};
}

}  // namespace mainspring
