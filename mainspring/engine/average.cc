#include "mainspring/engine/average.h"

#include <algorithm>

#include "mainspring/base/bf16.h"
#include "mainspring/engine/trainable.h"

namespace mainspring {
namespace {

std::shared_ptr<Buffer> copy_f32(Executor& executor, const Buffer& from) {
  std::shared_ptr<Buffer> copy = executor.allocate(DType::kF32, from.shape());
  auto* to = static_cast<float*>(copy->data());
  const int64_t n = copy->size_bytes() / 4;
  if (from.dtype() == DType::kF32) {
    std::copy_n(static_cast<const float*>(from.data()), n, to);
  } else {
    const auto* values = static_cast<const bf16*>(from.data());
    std::transform(values, values + n, to, [](bf16 x) { return to_f32(x); });
  }
  copy->mark_changed();
  return copy;
}

Buffer* find_source(const Trainable& t, const std::string& source) {
  if (source == kEmaRateInput) return t.average.rate.get();
  if (source.starts_with(kEmaPrefix)) {
    return t.average.values->masters.at(source.substr(std::string_view(kEmaPrefix).size())).get();
  }
  return t.masters.at(source).get();
}

}  // namespace

Result<std::unique_ptr<Trainable>> make_average(Executor& executor, Trainable& t,
                                                const EmaSettings& settings) {
  if (!(settings.decay > 0.0 && settings.decay < 1.0)) {
    return invalid_argument("decay of an average: expected a number between 0 and 1, got " +
                            std::to_string(settings.decay));
  }
  if (t.average.values != nullptr) {
    return failed_precondition("the model has a moving average already");
  }
  auto values = std::make_unique<Trainable>();
  values->is_full = t.is_full;
  values->is_average = true;
  values->adapter = t.adapter;
  for (const auto& [name, master] : t.masters) {
    values->masters[name] = copy_f32(executor, std::as_const(*master));
  }
  t.average.values = values.get();
  t.average.settings = settings;
  t.average.rate = executor.allocate(DType::kF32, {1});
  return values;
}

Status prepare_average(Executor& executor, Trainable& t) {
  if (t.average.values == nullptr || t.average.program != nullptr) return {};
  std::vector<OptimizedParam> params;
  for (const auto& [name, master] : t.masters) {
    OptimizedParam& param = params.emplace_back();
    param.name = name;
    param.shape = {master->shape()};
    param.dtype = master->dtype();
  }
  Tracer tracer(DType::kF32);
  trace_ema(tracer, params);
  Graph graph = tracer.release();
  const std::vector<std::string> sources = source_names(graph);
  MS_ASSIGN_OR_RETURN(t.average.program, executor.compile(std::move(graph), {}));
  for (const std::string& source : sources) {
    MS_RETURN_IF_ERROR(t.average.program->bind(source, find_source(t, source)));
  }
  return {};
}

void run_average(Trainable& t) {
  *static_cast<float*>(t.average.rate->data()) = ema_rate(t.average.settings, t.step);
  t.average.program->run({});
}

}  // namespace mainspring
