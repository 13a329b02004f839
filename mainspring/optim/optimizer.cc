#include "mainspring/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "mainspring/base/elementary.h"
#include "mainspring/base/nearest.h"

namespace mainspring {
namespace {

constexpr std::string_view kNames[] = {"adamw", "muon", "lion", "adafactor", "adamw8bit"};
constexpr float kAdafactorEps1 = 0x1p-23f;  // of f32, as torch's default

// The accumulators of all uses, added in order of use.
Tensor total_gradient(Tracer& tracer, const OptimizedParam& p) {
  std::vector<Tensor> uses;
  for (int64_t use = 0; use < p.num_uses; ++use) {
    std::string name = "grad/" + p.name;
    if (use > 0) name += "#" + std::to_string(use);
    uses.push_back(tracer.state(name, {DType::kF32, p.shape}));
  }
  return uses.size() == 1 ? uses[0] : add(uses);
}

OpKind op_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kAdamw:
      return OpKind::kAdamw;
    case OptimizerKind::kMuon:
      return OpKind::kMuon;
    case OptimizerKind::kLion:
      return OpKind::kLion;
    case OptimizerKind::kAdafactor:
      return OpKind::kAdafactor;
    case OptimizerKind::kAdamw8bit:
      return OpKind::kAdamw8bit;
  }
  return OpKind::kAdamw;
}

Attrs attrs_of(const OptimizedParam& p) {
  if (p.dtype == DType::kBF16) return RoundingAttrs{p.rounding_key};
  if (p.kind != OptimizerKind::kMuon || p.shape.rank() != 2) return NoAttrs{};
  const double rows = static_cast<double>(p.shape.dims[0]);
  const double columns = static_cast<double>(p.shape.dims[1]);
  double scale = 0.2 * std::sqrt(std::max(rows, columns));
  if (p.muon.scale == MuonScale::kOriginal) scale = std::sqrt(std::max(1.0, rows / columns));
  if (p.muon.scale == MuonScale::kSpectral) scale = std::sqrt(rows / columns);
  return MuonAttrs{p.muon.products, p.muon.nesterov, static_cast<float>(scale)};
}

StepScalars adamw_scalars(const AdamwSettings& s, const StepSettings& step) {
  const double t = static_cast<double>(step.step);
  const double correction1 = 1.0 - exact_pow(static_cast<double>(s.beta1), t);
  const double correction2 = 1.0 - exact_pow(static_cast<double>(s.beta2), t);
  return {step.lr,
          s.beta1,
          s.beta2,
          s.eps,
          step.weight_decay,
          static_cast<float>(correction1),
          static_cast<float>(std::sqrt(correction2)),
          step.grad_scale};
}

StepScalars adafactor_scalars(const AdafactorSettings& s, const StepSettings& step) {
  const double t = static_cast<double>(step.step);
  const double rho = std::min(static_cast<double>(step.lr), 1.0 / std::sqrt(t));
  const double rate = exact_pow(t, s.beta2_decay);
  return {step.lr,
          step.weight_decay,
          static_cast<float>(rho),
          static_cast<float>(rate),
          kAdafactorEps1,
          s.eps2,
          s.clip,
          step.grad_scale};
}

}  // namespace

std::string_view optimizer_name(OptimizerKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::vector<std::string> optimizer_names() { return {std::begin(kNames), std::end(kNames)}; }

Result<OptimizerKind> parse_optimizer(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return static_cast<OptimizerKind>(i);
  }
  return invalid_argument("no optimizer named \"" + std::string(name) + "\", nearest is \"" +
                          nearest_name(std::string(name), optimizer_names()) + "\"");
}

bool takes_bf16(OptimizerKind kind) {
  return kind == OptimizerKind::kAdamw || kind == OptimizerKind::kAdamw8bit ||
         kind == OptimizerKind::kLion;
}

std::vector<OptimizerState> optimizer_states(OptimizerKind kind, const Shape& shape, DType dtype) {
  const Shape blocks{{(shape.num_elements({}) + kMomentBlock - 1) / kMomentBlock}};
  switch (kind) {
    case OptimizerKind::kAdamw:
      return {{"adam_m", shape, dtype}, {"adam_v", shape, dtype}};
    case OptimizerKind::kAdamw8bit:
      return {{"adam_m_codes", shape, DType::kU8},
              {"adam_m_largest", blocks},
              {"adam_v_codes", shape, DType::kU8},
              {"adam_v_largest", blocks}};
    case OptimizerKind::kMuon:
      return {{"muon_momentum", shape}};
    case OptimizerKind::kLion:
      return {{"lion_m", shape, dtype}};
    case OptimizerKind::kAdafactor:
      if (shape.rank() != 2) return {{"adafactor_v", shape}};
      return {{"adafactor_row", {{shape.dims[0]}}}, {"adafactor_column", {{shape.dims[1]}}}};
  }
  return {};
}

void trace_updates(Tracer& tracer, const std::vector<OptimizedParam>& params) {
  for (const OptimizedParam& p : params) {
    std::vector<Tensor> inputs{tracer.state(p.name, {p.dtype, p.shape})};
    for (const OptimizerState& state : optimizer_states(p.kind, p.shape, p.dtype)) {
      inputs.push_back(tracer.state(state.prefix + "/" + p.name, {state.dtype, state.shape}));
    }
    inputs.push_back(total_gradient(tracer, p));
    inputs.push_back(tracer.input(p.scalars, {DType::kF32, {{8}}}));
    if (p.dtype == DType::kBF16) inputs.push_back(tracer.input(kStepInput, {DType::kI32, {{1}}}));
    tracer.node(op_of(p.kind), inputs, attrs_of(p));
  }
}

float ema_rate(const EmaSettings& settings, int64_t step) {
  const double t = static_cast<double>(step);
  const double decay =
      settings.warmup ? std::min(settings.decay, (1.0 + t) / (10.0 + t)) : settings.decay;
  return static_cast<float>(1.0 - decay);
}

void trace_ema(Tracer& tracer, const std::vector<OptimizedParam>& params) {
  const Tensor rate = tracer.input(kEmaRateInput, {DType::kF32, {{1}}});
  for (const OptimizedParam& p : params) {
    const Tensor average = tracer.state(kEmaPrefix + p.name, {DType::kF32, p.shape});
    tracer.node(OpKind::kEma, {average, tracer.state(p.name, {p.dtype, p.shape}), rate}, NoAttrs{});
  }
}

StepScalars step_scalars(OptimizerKind kind, const OptimizerSettings& settings,
                         const StepSettings& step) {
  switch (kind) {
    case OptimizerKind::kAdamw:
    case OptimizerKind::kAdamw8bit:
      return adamw_scalars(settings.adamw, step);
    case OptimizerKind::kMuon:
      return {step.lr, step.weight_decay, settings.muon.momentum, step.grad_scale};
    case OptimizerKind::kLion:
      return {step.lr, settings.lion.beta1, settings.lion.beta2, step.weight_decay,
              step.grad_scale};
    case OptimizerKind::kAdafactor:
      return adafactor_scalars(settings.adafactor, step);
  }
  return {};
}

void trace_sum_of_squares(Tracer& tracer, const std::vector<OptimizedParam>& params) {
  std::vector<Tensor> grads;
  grads.reserve(params.size());
  for (const OptimizedParam& p : params) {
    grads.push_back(total_gradient(tracer, p));
  }
  tracer.output("sum_of_squares", tracer.node(OpKind::kSumOfSquares, grads, NoAttrs{})[0]);
}

}  // namespace mainspring
