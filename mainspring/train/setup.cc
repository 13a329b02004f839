#include "mainspring/train/setup.h"

#include <algorithm>

#include "mainspring/io/checksum.h"
#include "mainspring/ir/passes/pass.h"
#include "mainspring/models/decoder.h"
#include "mainspring/models/names.h"
#include "mainspring/run/byte_progress.h"
#include "mainspring/train/new_model.h"
#include "mainspring/train/recipe_text.h"
#include "mainspring/weights/quantise.h"

namespace mainspring {
namespace {

DType quantised_dtype(const std::string& name) {
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                      DType::kNF4, DType::kInt8}) {
    if (dtype_name(dtype) == name) return dtype;
  }
  return DType::kF32;
}

bool is_linear_weight(const std::string& name) {
  for (const std::string& linear : linear_names()) {
    if (name.ends_with(linear + ".weight")) return true;
  }
  return false;
}

// The engine refuses an unknown pass too, but only when it first compiles.
Status check_passes(const Recipe& recipe) {
  std::vector<std::string> known;
  for (const auto& pass : make_passes(RecomputePolicy::kNone)) known.emplace_back(pass->name());
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  for (const std::string& name : recipe.train.disabled_passes) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = near_name(name, known);
    return invalid_argument(
        "train.disabled_passes: no pass is named \"" + name + "\"" +
        (nearest.empty() ? "; there are " + list : ", nearest is \"" + nearest + "\""));
  }
  return {};
}

// B A has at most the rank of the matrix it is added to: more only takes memory.
Status check_rank(const Recipe& recipe, const ModelConfig& config) {
  if (recipe.tune.mode != "lora") return {};
  MS_ASSIGN_OR_RETURN(const auto modules, lora_modules(config, recipe.tune.targets));
  return check_lora_rank(config, modules, recipe.tune.rank, "tune.rank");
}

Result<ModelId> add_trainable(const Recipe& recipe, Engine& engine) {
  const bool value_head = recipe.kind == "rl" && has_critic(recipe.rl);
  if (recipe.tune.mode == "full") {
    return engine.add_full(
        {.weights = weights_dtype(recipe), .seed = recipe.seed, .value_head = value_head});
  }
  return engine.add_lora({.rank = recipe.tune.rank,
                          .alpha = static_cast<float>(recipe.tune.alpha),
                          .dropout = static_cast<float>(recipe.tune.dropout),
                          .targets = recipe.tune.targets,
                          .seed = recipe.seed,
                          .value_head = value_head});
}

// A download shows how far it is; the reading thread holds what shows it.
OnFetch show_fetch() {
  return [progress = std::make_shared<ByteProgress>()](const std::string& url, int64_t done,
                                                       int64_t total) {
    progress->update("fetch " + url, done, total);
  };
}

// muP's factors of every rate and decay, none where they are 1.
void add_mup(const Recipe& recipe, const ModelConfig& config, OptimizerPlan& plan) {
  for (const ParameterSpec& spec : model_parameters(config)) {
    const MupPart part = mup_part(config, mup_options(recipe.model), spec.name);
    if (part != MupPart()) plan.scales[spec.name] = {part.rate(), part.decay()};
  }
}

Result<std::vector<Datum>> load_eval_rows(const Recipe& recipe, const TrainSetup& setup) {
  DataLoader::HeldOut held_out;
  if (!recipe.data.eval_files.empty()) {
    MS_ASSIGN_OR_RETURN(held_out,
                        read_rows(recipe.data.eval_files, setup.encoder, recipe.train.eval_rows,
                                  recipe.data.stall_timeout_s, show_fetch()));
  } else if (recipe.data.held_out > 0 || recipe.data.format == "shards") {
    MS_ASSIGN_OR_RETURN(held_out, setup.data->held_out(recipe.train.eval_rows));
  }
  return std::move(held_out.datums);
}

}  // namespace

Result<std::shared_ptr<const LoadedModel>> load_recipe_model(const Recipe& recipe,
                                                             int num_threads) {
  if (makes_model(recipe)) return make_new_model(recipe, num_threads);
  MS_ASSIGN_OR_RETURN(auto model, load_model(recipe.model.path));
  if (recipe.model.quantise.empty()) return model;
  auto quantised = std::make_shared<LoadedModel>(*model);
  const DType dtype = quantised_dtype(recipe.model.quantise);
  for (auto& [name, tensor] : quantised->weights) {
    if (!is_linear_weight(name)) continue;
    MS_ASSIGN_OR_RETURN(tensor, quantise(tensor, dtype));
  }
  return std::shared_ptr<const LoadedModel>(std::move(quantised));
}

DataOptions data_options(const Recipe& recipe) {
  DataOptions options;
  for (size_t i = 0; i < recipe.data.files.size(); ++i) {
    options.sources.push_back(
        {.name = "",
         .files = {recipe.data.files[i]},
         .weight = recipe.data.weights.empty() ? 0.0 : recipe.data.weights[i]});
  }
  // Without weights the files are one list: cutting it into files changes nothing.
  if (recipe.data.weights.empty())
    options.sources = {{.name = "", .files = recipe.data.files, .weight = 0.0}};
  options.seed = recipe.seed;
  options.shuffle = recipe.data.shuffle;
  options.held_out_fraction = recipe.data.held_out;
  options.stall_timeout_s = recipe.data.stall_timeout_s;
  options.on_fetch = show_fetch();
  return options;
}

Result<std::shared_ptr<const RowEncoder>> make_encoder(const Recipe& recipe,
                                                       const ModelText& text) {
  RowEncoderOptions options;
  MS_ASSIGN_OR_RETURN(options.format, row_format_from_name(recipe.data.format));
  if (recipe.kind == "preference") options.format = RowFormat::kPreference;
  MS_ASSIGN_OR_RETURN(options.loss_on, loss_on_from_name(recipe.data.loss_on));
  options.max_tokens = recipe.data.max_tokens;
  if (text.tokenizer == nullptr && recipe.data.format != "tokens") {
    return invalid_argument(recipe.model.path +
                            ": no tokenizer, so only data.format = \"tokens\" can be read");
  }
  return std::make_shared<const RowEncoder>(text.tokenizer, text.chat_template, options);
}

DType weights_dtype(const Recipe& recipe) {
  return recipe.optim.state == "bf16" ? DType::kBF16 : DType::kF32;
}

OptimizerPlan optimizer_plan(const Recipe& recipe) {
  const OptimRecipe& o = recipe.optim;
  const auto kind_of = [](const std::string& name) { return parse_optimizer(name).value(); };
  OptimizerPlan plan;
  plan.rest.optimizer = kind_of(o.optimizer);
  for (const GroupRecipe& group : o.groups) {
    ParamGroup& made = plan.groups.emplace_back();
    made.params = group.params;
    if (!group.optimizer.empty()) made.optimizer = kind_of(group.optimizer);
    made.lr_scale = group.lr_scale;
    if (group.weight_decay.has_value()) made.weight_decay = static_cast<float>(*group.weight_decay);
  }
  MuonSettings& muon = plan.settings.muon;
  muon.momentum = static_cast<float>(o.momentum);
  muon.nesterov = o.nesterov;
  if (o.muon_scale == "original") muon.scale = MuonScale::kOriginal;
  if (o.muon_scale == "spectral") muon.scale = MuonScale::kSpectral;
  muon.products = o.muon_products == "f32" ? DType::kF32 : DType::kBF16;
  plan.settings.lion = {static_cast<float>(o.lion_beta1), static_cast<float>(o.lion_beta2)};
  plan.settings.adafactor = {o.adafactor_decay, static_cast<float>(o.adafactor_eps),
                             static_cast<float>(o.adafactor_clip)};
  return plan;
}

Result<std::unique_ptr<ShardLoader>> open_shards(const Recipe& recipe, const ModelText& text,
                                                 const ModelConfig& config) {
  MS_ASSIGN_OR_RETURN(auto loader,
                      ShardLoader::open({.folders = recipe.data.files,
                                         .weights = recipe.data.weights,
                                         .seed = recipe.seed,
                                         .shuffle = recipe.data.shuffle,
                                         .window_tokens = recipe.data.max_tokens,
                                         .across_documents = recipe.data.across_documents}));
  std::string id;
  if (text.tokenizer != nullptr) {
    MS_ASSIGN_OR_RETURN(const std::string json, text.tokenizer->to_json());
    id = checksum128(json.data(), json.size()).hex();
  }
  for (const auto& set : loader->sets()) {
    const ShardIndex& index = set->index();
    if (!id.empty() && index.tokenizer_id != id) {
      return invalid_argument(set->folder() + ": was made with another tokenizer (" +
                              index.tokenizer + ") than the model has");
    }
    if (index.vocabulary > config.vocabulary) {
      return invalid_argument(set->folder() + ": has " + std::to_string(index.vocabulary) +
                              " tokens, the model only " + std::to_string(config.vocabulary));
    }
  }
  return loader;
}

Status set_up_model(const Recipe& recipe, Executor& executor, TrainSetup& setup) {
  MS_RETURN_IF_ERROR(check_passes(recipe));
  MS_ASSIGN_OR_RETURN(setup.model, load_recipe_model(recipe, executor.num_threads()));
  MS_RETURN_IF_ERROR(check_rank(recipe, setup.model->config));
  MS_ASSIGN_OR_RETURN(setup.text, make_model_text(*setup.model));
  return {};
}

Status set_up_engine(const Recipe& recipe, Executor& executor, int64_t max_tokens,
                     const std::string& key, TrainSetup& setup) {
  EngineOptions options{.compute = recipe.model.dtype == "f32" ? DType::kF32 : DType::kBF16,
                        .gradient_leaf = recipe.train.gradient_leaf,
                        .max_micro_batch_rows = recipe.train.micro_batch_rows,
                        .max_sequence_tokens = max_tokens,
                        .passes = {.disabled = recipe.train.disabled_passes},
                        .transient_packs = !recipe.model.quantise.empty()};
  if (max_tokens > setup.model->config.context_length) {
    return invalid_argument(key + ": expected at most the model's context of " +
                            std::to_string(setup.model->config.context_length) + ", got " +
                            std::to_string(max_tokens));
  }
  MS_ASSIGN_OR_RETURN(options.passes.recompute, parse_recompute(recipe.train.recompute));
  MS_ASSIGN_OR_RETURN(setup.engine, Engine::create(setup.model, executor, options));
  MS_ASSIGN_OR_RETURN(setup.id, add_trainable(recipe, *setup.engine));
  setup.eval_id = setup.id;
  if (recipe.train.ema > 0) {
    MS_ASSIGN_OR_RETURN(const ModelId average,
                        setup.engine->add_average(setup.id, {.decay = recipe.train.ema,
                                                             .warmup = recipe.train.ema_warmup}));
    if (recipe.train.ema_eval) setup.eval_id = average;
  }
  OptimizerPlan plan = optimizer_plan(recipe);
  add_mup(recipe, setup.model->config, plan);
  MS_RETURN_IF_ERROR(setup.engine->set_optimizer(setup.id, plan).with_context("optim.groups"));
  MS_ASSIGN_OR_RETURN(setup.schedule.kind, parse_schedule(recipe.optim.schedule));
  setup.schedule.warmup_steps = recipe.optim.warmup_steps;
  setup.schedule.total_steps = recipe.train.steps;
  setup.schedule.decay_steps = recipe.optim.decay_steps;
  setup.schedule.final_ratio = recipe.optim.final_ratio;
  return {};
}

Result<TrainSetup> set_up(const Recipe& recipe, Executor& executor) {
  TrainSetup setup;
  if (recipe.kind == "rl") {
    return invalid_argument(
        "kind: expected \"supervised\" or \"preference\", got \"rl\": that kind is run by "
        "`mainspring train` alone");
  }
  MS_RETURN_IF_ERROR(set_up_model(recipe, executor, setup));
  if (recipe.data.format == "shards") {
    MS_ASSIGN_OR_RETURN(setup.data, open_shards(recipe, setup.text, setup.model->config));
  } else {
    MS_ASSIGN_OR_RETURN(setup.encoder, make_encoder(recipe, setup.text));
    MS_ASSIGN_OR_RETURN(setup.data, DataLoader::open(data_options(recipe), setup.encoder));
  }
  MS_ASSIGN_OR_RETURN(setup.eval_rows, load_eval_rows(recipe, setup));
  MS_RETURN_IF_ERROR(
      set_up_engine(recipe, executor, recipe.data.max_tokens, "data.max_tokens", setup));
  return setup;
}

float learning_rate(const Recipe& recipe, const Schedule& schedule, int64_t step) {
  return static_cast<float>(recipe.optim.lr * schedule_factor(schedule, step));
}

}  // namespace mainspring
