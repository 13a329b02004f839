#include "mainspring/train/mup_check.h"

#include <cmath>
#include <cstring>
#include <map>

#include "mainspring/base/bf16.h"
#include "mainspring/batch/packer.h"
#include "mainspring/models/decoder.h"
#include "mainspring/models/rope_table.h"
#include "mainspring/train/new_model.h"
#include "mainspring/train/setup.h"

namespace mainspring {
namespace {

constexpr int64_t kMostProbeRows = 1024;

/// Which kind a tapped value is of: "layers.3.mlp" is of "mlp", "layers.3" of "residual".
std::string kind_of(const std::string& name) {
  if (!name.starts_with("layers.")) return name;
  const size_t dot = name.find('.', 7);
  return dot == std::string::npos ? "residual" : name.substr(dot + 1);
}

/// One batch through the model, with the values that taps see as outputs.
class Probe {
 public:
  /// `datums` outlive it.
  static Result<std::unique_ptr<Probe>> create(Engine& engine, ModelId id,
                                               const std::vector<Datum>& datums) {
    std::unique_ptr<Probe> probe(new Probe);
    for (const Datum& datum : datums) probe->items_.push_back({&datum, -1});
    const auto counts = split_into_micro_batches(probe->items_, kMostProbeRows);
    probe->items_.resize(counts[0]);
    probe->batch_ = pack(probe->items_, /*pick_all=*/true);
    MS_ASSIGN_OR_RETURN(const ParameterSet* parameters, engine.parameters(id));
    MS_RETURN_IF_ERROR(probe->compile(engine, *parameters));
    return probe;
  }

  /// Every tapped value of the model as it is now, by name.
  const std::map<std::string, std::vector<float>>& run() {
    const RowTable table = batch_.row_table();
    const RowTable picks = batch_.pick_table();
    executable_->run({.table = &table, .pick_table = &picks, .kv = nullptr});
    for (auto& [name, values] : values_) read(name, values);
    return values_;
  }

 private:
  struct Tapped {
    DType dtype = DType::kF32;
    int64_t width = 0;
    bool is_picked = false;
  };

  Status compile(Engine& engine, const ParameterSet& parameters) {
    const ModelConfig& config = engine.model().config;
    Tracer tracer(engine.options().compute);
    const nn::Params params(
        tracer, [&](const std::string& name) { return parameters.at(name)->dtype(); }, {});
    const auto tap = [&](const std::string& name, const Tensor& value) {
      tracer.output(name, value);
      tapped_[name] = {value.type().dtype, value.shape().dims.back(), name == "logits"};
      values_[name] = {};
    };
    const int64_t positions = engine.rope_table()->shape()[0] / num_rope_tables(config);
    tap("logits", decoder_logits(params, config, decoder_hidden(params, config, positions, tap)));
    Graph graph = tracer.release();
    const std::vector<std::string> sources = source_names(graph);
    const auto rows = static_cast<int64_t>(batch_.tokens.size());
    const auto picked = static_cast<int64_t>(batch_.picked.size());
    MS_ASSIGN_OR_RETURN(executable_,
                        engine.executor().compile(std::move(graph), {.capacity = {rows, picked}}));
    tokens_ = engine.executor().allocate(DType::kI32, {rows});
    std::memcpy(tokens_->data(), batch_.tokens.data(), batch_.tokens.size() * sizeof(int32_t));
    rope_ = engine.rope_table();
    for (const std::string& source : sources) {
      Buffer* buffer = source == kTokensInput      ? tokens_.get()
                       : source == kRopeTableParam ? rope_.get()
                                                   : parameters.at(source).get();
      MS_RETURN_IF_ERROR(executable_->bind(source, buffer));
    }
    return {};
  }

  // The rows of sequences; the row that completes an odd one holds nothing.
  void read(const std::string& name, std::vector<float>& values) const {
    const Tapped& tapped = tapped_.at(name);
    const void* data = executable_->output(name);
    values.clear();
    const auto add_rows = [&](int64_t first, int64_t count) {
      for (int64_t i = first * tapped.width; i < (first + count) * tapped.width; ++i) {
        values.push_back(tapped.dtype == DType::kF32 ? static_cast<const float*>(data)[i]
                                                     : to_f32(static_cast<const bf16*>(data)[i]));
      }
    };
    if (tapped.is_picked) {
      for (size_t i = 0; i < batch_.picked.size(); ++i) {
        if (batch_.picked[i] >= 0) add_rows(static_cast<int64_t>(i), 1);
      }
      return;
    }
    for (const Segment& segment : batch_.segments) add_rows(segment.row_begin, segment.num_rows);
  }

  std::vector<PackItem> items_;
  Batch batch_;
  std::map<std::string, Tapped> tapped_;
  std::map<std::string, std::vector<float>> values_;
  std::unique_ptr<Buffer> tokens_;
  std::shared_ptr<Buffer> rope_;
  std::unique_ptr<Executable> executable_;
};

double mean_size(const std::vector<float>& values, const std::vector<float>* from) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double before = from == nullptr ? 0.0 : static_cast<double>((*from)[i]);
    sum += std::abs(static_cast<double>(values[i]) - before);
  }
  return sum / static_cast<double>(values.size());
}

/// Adds the sizes and changes of one step, each kind's averaged over its layers.
void add_step(const std::map<std::string, std::vector<float>>& now,
              const std::map<std::string, std::vector<float>>& before, CoordinateRun& run) {
  for (CoordinateSeries& series : run.series) {
    double size = 0;
    double change = 0;
    double layers = 0;
    for (const auto& [name, values] : now) {
      if (kind_of(name) != series.name) continue;
      size += mean_size(values, nullptr);
      change += mean_size(values, &before.at(name));
      layers += 1;
    }
    series.size.push_back(size / layers);
    series.change.push_back(change / layers);
  }
}

Status take_step(const Recipe& recipe, TrainSetup& setup, const std::vector<Datum>& datums,
                 CoordinateRun& run) {
  MS_ASSIGN_OR_RETURN(const ForwardBackwardResult result,
                      setup.engine->forward_backward(setup.id, datums, "cross_entropy"));
  MS_ASSIGN_OR_RETURN(
      const OptimStepResult update,
      setup.engine->optim_step(setup.id,
                               {.lr = static_cast<float>(recipe.optim.lr),
                                .beta1 = static_cast<float>(recipe.optim.beta1),
                                .beta2 = static_cast<float>(recipe.optim.beta2),
                                .eps = static_cast<float>(recipe.optim.eps),
                                .weight_decay = static_cast<float>(recipe.optim.weight_decay),
                                .max_grad_norm = static_cast<float>(recipe.train.max_grad_norm),
                                .normaliser = result.weight_sum}));
  run.losses.push_back(result.loss_sum / result.weight_sum);
  if (update.applied) return {};
  return failed_precondition("width " + std::to_string(run.width) + ", step " +
                             std::to_string(run.losses.size()) +
                             ": the gradient is not finite; lower optim.lr");
}

Result<CoordinateRun> measure(const Recipe& recipe, Executor& executor,
                              const MupCheckOptions& options) {
  CoordinateRun run{.width = recipe.model.hidden, .series = {}, .losses = {}};
  for (const char* name : {"embedding", "attention", "mlp", "residual", "logits"})
    run.series.push_back({name, {}, {}});
  MS_ASSIGN_OR_RETURN(TrainSetup setup, set_up(recipe, executor));
  MS_ASSIGN_OR_RETURN(std::vector<Datum> datums, setup.data->next(recipe.train.batch_size));
  const std::vector<Datum> probed = datums;
  MS_ASSIGN_OR_RETURN(const auto probe, Probe::create(*setup.engine, setup.id, probed));
  const auto before = probe->run();
  add_step(before, before, run);
  for (int64_t step = 1; step <= options.steps; ++step) {
    if (options.progress) options.progress(run.width, step);
    MS_RETURN_IF_ERROR(take_step(recipe, setup, datums, run));
    add_step(probe->run(), before, run);
    MS_ASSIGN_OR_RETURN(datums, setup.data->next(recipe.train.batch_size));
  }
  return run;
}

/// value * width / hidden, which must be whole.
Result<int64_t> in_proportion(const Recipe& recipe, int64_t width, const std::string& key,
                              int64_t value) {
  if (value * width % recipe.model.hidden == 0) return value * width / recipe.model.hidden;
  return invalid_argument("width " + std::to_string(width) + ": " + key + " would be " +
                          std::to_string(value) + " * " + std::to_string(width) + " / " +
                          std::to_string(recipe.model.hidden) + ", which is no whole number");
}

}  // namespace

Result<Recipe> recipe_at_width(const Recipe& recipe, int64_t width, GrownHeads grown) {
  if (!makes_model(recipe)) {
    return invalid_argument("model.family is missing: only a new model has a width to choose");
  }
  Recipe out = recipe;
  ModelRecipe& m = out.model;
  const int64_t head_dim = m.head_dim > 0 ? m.head_dim : m.hidden / m.heads;
  if (grown == GrownHeads::kMore) {
    m.head_dim = m.family == "gpt2" ? 0 : head_dim;
    MS_ASSIGN_OR_RETURN(m.heads, in_proportion(recipe, width, "model.heads", m.heads));
    MS_ASSIGN_OR_RETURN(m.kv_heads, in_proportion(recipe, width, "model.kv_heads", m.kv_heads));
  } else {
    MS_ASSIGN_OR_RETURN(const int64_t wider,
                        in_proportion(recipe, width, "model.head_dim", head_dim));
    m.head_dim = m.family == "gpt2" ? 0 : wider;
    if (m.mup_base_hidden > 0 && m.mup_base_head_dim == 0) {
      return invalid_argument(
          "heads that widen need model.mup_base_head_dim, the width at which scores are as usual");
    }
  }
  MS_ASSIGN_OR_RETURN(m.intermediate,
                      in_proportion(recipe, width, "model.intermediate", m.intermediate));
  m.hidden = width;
  if (m.heads < 1 || (m.kv_heads < 1 && recipe.model.kv_heads > 0)) {
    return invalid_argument("width " + std::to_string(width) + ": no head is left");
  }
  return out;
}

Result<CoordinateTable> check_coordinates(const Recipe& recipe, Executor& executor,
                                          const MupCheckOptions& options) {
  Recipe base = recipe;
  if (options.standard) base.model.mup_base_hidden = base.model.mup_base_head_dim = 0;
  std::vector<Recipe> recipes;
  for (const int64_t width : options.widths) {
    MS_ASSIGN_OR_RETURN(Recipe at_width, recipe_at_width(base, width, options.grown));
    recipes.push_back(std::move(at_width));
  }
  CoordinateTable table{base.model.mup_base_hidden > 0 ? "muP" : "standard", {}};
  for (const Recipe& one : recipes) {
    MS_ASSIGN_OR_RETURN(CoordinateRun run, measure(one, executor, options));
    table.runs.push_back(std::move(run));
  }
  return table;
}

}  // namespace mainspring
