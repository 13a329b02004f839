// Setup: from a recipe to an engine, data and a model to train, all checked before any work.
#pragma once

#include <memory>

#include "mainspring/data/data_loader.h"
#include "mainspring/data/shard_loader.h"
#include "mainspring/engine/engine.h"
#include "mainspring/models/model_text.h"
#include "mainspring/optim/schedule.h"
#include "mainspring/train/recipe.h"

namespace mainspring {

struct TrainSetup {
  std::shared_ptr<const LoadedModel> model;
  ModelText text;
  std::shared_ptr<const RowEncoder> encoder;
  std::unique_ptr<SampleSource> data;
  std::vector<Datum> eval_rows;
  std::unique_ptr<Engine> engine;
  ModelId id = kBaseModel;
  ModelId eval_id = kBaseModel;  // what evaluations and samples take: `id` or its average
  Schedule schedule;
};

/// The base model of a recipe: loaded, and its linears quantised if model.quantise says so; or made
/// (new_model.h). The number of threads changes no bit.
Result<std::shared_ptr<const LoadedModel>> load_recipe_model(const Recipe& recipe,
                                                             int num_threads = 1);

/// The loader's options as the recipe states them.
DataOptions data_options(const Recipe& recipe);

Result<std::shared_ptr<const RowEncoder>> make_encoder(const Recipe& recipe, const ModelText& text);

/// What trained weights are kept in.
DType weights_dtype(const Recipe& recipe);

/// The optimizers and groups as the recipe states them.
OptimizerPlan optimizer_plan(const Recipe& recipe);

/// The loader of a recipe whose data.files are folders of token shards. Errors: the shards';
/// invalid argument if they were made with another tokenizer than `text` has, or have more tokens
/// than `config`.
Result<std::unique_ptr<ShardLoader>> open_shards(const Recipe& recipe, const ModelText& text,
                                                 const ModelConfig& config);

/// The parts of set_up, for runs that make their own data: model and text; engine, trained part,
/// optimizer and schedule, for sequences of at most `max_tokens` (which `key` says).
Status set_up_model(const Recipe& recipe, Executor& executor, TrainSetup& setup);
Status set_up_engine(const Recipe& recipe, Executor& executor, int64_t max_tokens,
                     const std::string& key, TrainSetup& setup);

/// Errors: those of every part, each with the recipe's key where one is to blame.
Result<TrainSetup> set_up(const Recipe& recipe, Executor& executor);

/// Rate of `step` (from 0).
float learning_rate(const Recipe& recipe, const Schedule& schedule, int64_t step);

}  // namespace mainspring
