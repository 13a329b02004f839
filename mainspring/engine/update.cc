#include "mainspring/engine/update.h"

#include <cstring>

#include "mainspring/base/check.h"
#include "mainspring/engine/trainable.h"
#include "mainspring/nn/layers.h"

namespace mainspring {
namespace {

constexpr std::string_view kGradPrefix = "grad/";

// Parameters with equal parts share their scalars; parts that differ in scale alone are numbered.
std::string scalars_name(const Update& update, const ParamPlan& part) {
  const std::string name =
      "optim.scalars/" + std::to_string(part.group) + "." + std::string(optimizer_name(part.kind));
  std::string numbered = name;
  for (int number = 1;; ++number) {
    const auto found = update.scalars.find(numbered);
    if (found == update.scalars.end() || found->second.part == part) return numbered;
    numbered = name + "#" + std::to_string(number);
  }
}

Buffer* find_source(const Trainable& t, const std::string& source) {
  const Update& update = t.update;
  if (const auto scalars = update.scalars.find(source); scalars != update.scalars.end()) {
    return scalars->second.buffer.get();
  }
  if (source == kStepInput) return update.step.get();
  if (const auto state = update.states.find(source); state != update.states.end()) {
    return state->second.get();
  }
  const bool is_grad = source.starts_with(kGradPrefix);
  const ParameterSet& set = is_grad ? t.grads : t.masters;
  const auto found = set.find(is_grad ? source.substr(kGradPrefix.size()) : source);
  MS_CHECK(found != set.end(), "optimizer source " + source);
  return found->second.get();
}

Result<std::unique_ptr<Executable>> compile(Executor& executor, const Trainable& t,
                                            void (*trace)(Tracer&,
                                                          const std::vector<OptimizedParam>&)) {
  Tracer tracer(DType::kF32);
  trace(tracer, t.update.params);
  Graph graph = tracer.release();
  const std::vector<std::string> sources = source_names(graph);
  MS_ASSIGN_OR_RETURN(auto program, executor.compile(std::move(graph), {}));
  for (const std::string& source : sources) {
    MS_RETURN_IF_ERROR(program->bind(source, find_source(t, source)));
  }
  return program;
}

}  // namespace

Status plan_update(Executor& executor, Trainable& t, const OptimizerPlan& plan) {
  std::vector<std::pair<std::string, Shape>> params;
  for (const auto& [name, master] : t.masters) params.push_back({name, {master->shape()}});
  MS_ASSIGN_OR_RETURN(const std::vector<ParamPlan> parts, assign_params(plan, params, t.dtype));
  t.update = {};  // old states go before new ones come
  t.step = 0;
  t.update.plan = plan;
  if (t.dtype == DType::kBF16) t.update.step = executor.allocate(DType::kI32, {1});
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [name, shape] = params[i];
    const std::string scalars = scalars_name(t.update, parts[i]);
    t.update.params.push_back({.name = name,
                               .shape = shape,
                               .num_uses = t.num_uses(name),
                               .kind = parts[i].kind,
                               .scalars = scalars,
                               .muon = plan.settings.muon,
                               .dtype = t.dtype,
                               .rounding_key = nn::random_key(t.rounding_seed, "round/" + name)});
    Update::Scalars& buffer = t.update.scalars[scalars];
    buffer.part = parts[i];
    if (buffer.buffer == nullptr) buffer.buffer = executor.allocate(DType::kF32, {8});
    for (const OptimizerState& state : optimizer_states(parts[i].kind, shape, t.dtype)) {
      t.update.states[state.prefix + "/" + name] = executor.allocate(state.dtype, state.shape.dims);
    }
  }
  return {};
}

Status prepare_update(Executor& executor, Trainable& t) {
  if (t.update.params.empty()) MS_RETURN_IF_ERROR(plan_update(executor, t, {}));
  if (t.update.update_program != nullptr) return {};
  MS_ASSIGN_OR_RETURN(t.update.norm_program, compile(executor, t, trace_sum_of_squares));
  MS_ASSIGN_OR_RETURN(t.update.update_program, compile(executor, t, trace_updates));
  return {};
}

void run_update(Trainable& t, const AdamwOptions& options, float grad_scale) {
  OptimizerSettings settings = t.update.plan.settings;
  settings.adamw = {options.beta1, options.beta2, options.eps};
  for (const auto& [name, scalars] : t.update.scalars) {
    const ParamGroup& group = group_of(t.update.plan, scalars.part);
    const ParamScale& scale = scalars.part.scale;
    const double lr = static_cast<double>(options.lr) * group.lr_scale * scale.lr;
    const double decay = static_cast<double>(group.weight_decay.value_or(options.weight_decay));
    const StepScalars values =
        step_scalars(scalars.part.kind, settings,
                     {.lr = static_cast<float>(lr),
                      .weight_decay = static_cast<float>(decay * scale.weight_decay),
                      .step = t.step,
                      .grad_scale = grad_scale});
    std::memcpy(scalars.buffer->data(), values.data(), sizeof(values));
  }
  if (t.update.step != nullptr) {
    *static_cast<int32_t*>(t.update.step->data()) = static_cast<int32_t>(t.step);
  }
  t.update.update_program->run({});
}

}  // namespace mainspring
