#include "mainspring/engine/programs.h"

#include <algorithm>
#include <cstring>

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

// "grad/adapter1/model...lora_A.weight#1" -> slot and "model...lora_A.weight#1".
std::pair<size_t, std::string> split_slot(std::string_view name) {
  if (name.rfind("adapter", 0) != 0) return {0, std::string(name)};
  const size_t slash = name.find('/');
  return {std::stoul(std::string(name.substr(7, slash - 7))), std::string(name.substr(slash + 1))};
}

Tensor trace_loss(Tracer& tracer, const nn::Params& params, const ModelConfig& config,
                  const LossInfo& loss, int64_t rope_positions) {
  const Tensor hidden = decoder_hidden(params, config, rope_positions);
  const ValueType per_pick{DType::kF32, {{kPicked}}};
  const Tensor targets = tracer.input(kTargetsInput, {DType::kI32, {{kPicked}}});
  const auto [logprob, lse] = decoder_head_outputs(params, config, hidden, targets);
  LossInputs inputs{logprob, lse, {}};
  for (std::string_view name : loss.inputs) {
    inputs.inputs.push_back(tracer.input("loss." + std::string(name), per_pick));
  }
  const Tensor token_loss = loss.trace(inputs);
  tracer.output("logprob", logprob);
  tracer.output("token_loss", token_loss);
  return token_loss;
}

constexpr std::string_view kByLogprob = "by_logprob";

}  // namespace

const LossInfo& logprob_loss() {
  static constexpr LossInfo kLoss{
      .name = "logprob", .inputs = {}, .trace = [](const LossInputs& in) { return in.logprob; }};
  return kLoss;
}

const LossInfo& objective_loss() {
  static constexpr LossInfo kLoss{
      .name = "objective", .inputs = {&kByLogprob, 1}, .trace = [](const LossInputs& in) {
        return mul(in.logprob, in.inputs[0]);
      }};
  return kLoss;
}

void Program::run(const Batch& batch, std::span<const PackItem> items,
                  std::span<const float> by_logprob) {
  copy_in(*inputs_.at(kTokensInput), batch.tokens.data(), batch.tokens.size() * sizeof(int32_t));
  copy_in(*inputs_.at(kTargetsInput), batch.targets.data(), batch.targets.size() * sizeof(int32_t));
  for (std::string_view name : loss_->inputs) {
    const std::string key(name);
    if (name == kByLogprob) {
      MS_CHECK(by_logprob.size() == batch.picked.size(), "one derivative per pick");
      copy_in(*inputs_.at("loss." + key), by_logprob.data(), by_logprob.size_bytes());
      continue;
    }
    const std::vector<float> values =
        key == "weights" ? batch.weights : pack_input(batch, items, key);
    copy_in(*inputs_.at("loss." + key), values.data(), values.size() * sizeof(float));
  }
  const RowTable table = batch.row_table();
  const RowTable picks = batch.pick_table();
  executable_->run({.table = &table, .pick_table = &picks, .kv = nullptr});
}

const float* Program::logprob() const {
  return static_cast<const float*>(executable_->output("logprob"));
}

const float* Program::token_loss() const {
  return static_cast<const float*>(executable_->output("token_loss"));
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
  const Tensor loss = trace_loss(tracer, params, model_.config, *key.loss, options_.rope_positions);
  if (key.with_gradient) {
    const auto is_trainable = [&](const std::string& name) {
      if (name == kRopeTableParam) return false;
      return full != nullptr || name.rfind("adapter", 0) == 0;
    };
    value_and_grad(reduce_sum(loss), is_trainable);
  }
  Graph graph = tracer.release();
  const std::vector<std::string> sources = source_names(graph);
  auto program = std::make_unique<Program>();
  program->loss_ = key.loss;
  program->capacity_rows_ = rows;
  CompileOptions compile{.capacity = {rows, rows},
                         .passes = options_.passes,
                         .repack = repack_for(full != nullptr, rows)};
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
    } else if (source == kTokensInput || source == kTargetsInput || source.rfind("loss.", 0) == 0) {
      const DType dtype = source.rfind("loss.", 0) == 0 ? DType::kF32 : DType::kI32;
      auto& input = program.inputs_[source];
      input = executor_.allocate(dtype, {rows});
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
