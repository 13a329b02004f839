#include "mainspring/train/rl/rl_setup.h"

#include <algorithm>
#include <cstdio>

#include "mainspring/io/json.h"
#include "mainspring/losses/losses.h"
#include "mainspring/train/live_model.h"
#include "mainspring/train/rl/rl_batch.h"

namespace mainspring {
namespace {

constexpr int64_t kMostSamplesAtOnce = 512;

Status check_vocabulary(const Environment& environment, const TrainSetup& train) {
  const int64_t vocabulary = train.model->config.vocabulary;
  if (environment.vocabulary() > vocabulary) {
    return invalid_argument("env.name = \"" + environment.name() + "\": has " +
                            std::to_string(environment.vocabulary()) + " tokens, the model only " +
                            std::to_string(vocabulary));
  }
  if (environment.vocabulary() > 0) return {};
  if (train.text.tokenizer == nullptr || train.text.chat_template == nullptr) {
    return invalid_argument("env.name = \"" + environment.name() +
                            "\" speaks in chat messages, and " + train.model->path + " has no " +
                            (train.text.tokenizer == nullptr ? "tokenizer" : "chat template") +
                            ": set model.path to a chat model, such as the file that "
                            "scripts/get_smollm2 prints, or env.name to \"max\"");
  }
  return {};
}

// What is sampled from a checkpoint then stops where the environment's replies do.
Status take_end_token(const Environment& environment, TrainSetup& train) {
  if (environment.vocabulary() == 0 || !train.model->config.eos_tokens.empty()) return {};
  auto model = std::make_shared<LoadedModel>(*train.model);
  model->config.eos_tokens = {environment.end_token()};
  if (!model->config_json.empty()) {  // a checkpoint's is this text
    MS_ASSIGN_OR_RETURN(Json config, parse_json(model->config_json, model->path));
    config["eos_token_id"] = environment.end_token();
    model->config_json = json_text(config, 2) + "\n";
  }
  train.model = std::move(model);
  return {};
}

Status check_loss(const RlRecipe& rl) {
  const LossCall call = rl_loss_call(rl);
  auto loss = find_loss(call.name);
  if (!loss.ok()) return loss.status().with_context("rl.loss");
  auto settings = complete_settings(**loss, call.settings);
  return settings.ok() ? Status() : settings.status().with_context("rl.loss");
}

RolloutLaw law_of(const Recipe& recipe, const RlSetup& setup) {
  const RlRecipe& rl = recipe.rl;
  RolloutLaw law{.temperature = static_cast<float>(rl.temperature),
                 .top_k = static_cast<int32_t>(rl.top_k),
                 .top_p = static_cast<float>(rl.top_p),
                 .min_p = static_cast<float>(rl.min_p),
                 .max_new_tokens = static_cast<int32_t>(rl.max_new_tokens),
                 .max_turns = rl.max_turns,
                 .stop_tokens = setup.train.model->config.eos_tokens,
                 .adapter = recipe.tune.mode == "lora" ? 0 : SampleRequest::kBaseOnly};
  if (setup.environment->vocabulary() > 0) law.stop_tokens = {setup.environment->end_token()};
  return law;
}

int64_t bytes_of(const TensorSet& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.size_bytes;
  return bytes;
}

std::string mib(int64_t bytes) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

Status set_up_rl_learner(const Recipe& recipe, Executor& executor, RlSetup& setup) {
  MS_ASSIGN_OR_RETURN(setup.environment, make_environment(recipe.env.name, recipe.env.settings));
  MS_RETURN_IF_ERROR(check_loss(recipe.rl));
  MS_RETURN_IF_ERROR(set_up_model(recipe, executor, setup.train));
  MS_RETURN_IF_ERROR(check_vocabulary(*setup.environment, setup.train));
  MS_RETURN_IF_ERROR(take_end_token(*setup.environment, setup.train));
  MS_RETURN_IF_ERROR(
      set_up_engine(recipe, executor, recipe.rl.max_tokens, "rl.max_tokens", setup.train));
  setup.law = law_of(recipe, setup);
  return {};
}

// The trainer's plan, the sampler and its cache are made before the first step, so what a run needs
// is known, and refused if it is not there, at once.
Status set_up_rl(const Recipe& recipe, Executor& executor, RlSetup& setup) {
  MS_RETURN_IF_ERROR(set_up_rl_learner(recipe, executor, setup));
  Engine& engine = *setup.train.engine;
  MS_ASSIGN_OR_RETURN(const Engine::State state, engine.state(setup.train.id));
  MS_ASSIGN_OR_RETURN(const PlanReport trainer,
                      engine.plan(setup.train.id, rl_loss_call(recipe.rl)));
  const int64_t with_trainer = executor.current_bytes();
  MS_ASSIGN_OR_RETURN(ForwardModel model, live_model(engine, setup.train.id, setup.sampler_base));
  const RlRecipe& rl = recipe.rl;
  SamplerOptions options;
  options.run_seed = recipe.seed;
  options.max_sequence_tokens = rl.max_tokens;
  options.max_batch = static_cast<int32_t>(
      rl.sampler_batch > 0 ? rl.sampler_batch
                           : std::min(rl.prompts_per_step * rl.group_size, kMostSamplesAtOnce));
  options.max_rows = std::max<int32_t>(options.max_batch, 512);
  MS_ASSIGN_OR_RETURN(setup.sampler, Sampler::create(executor, std::move(model), options));
  const int64_t all = executor.current_bytes();
  const SamplerStats& stats = setup.sampler->stats();
  const int64_t cache = stats.num_pages * stats.page_bytes;
  setup.memory_plan = "memory: weights " + mib(setup.train.model->size_bytes) +
                      " (shared by trainer and sampler), " + "trained part with optimizer " +
                      mib(bytes_of(state.tensors)) + ", trainer's arena " +
                      mib(trainer.arena_bytes + trainer.scratch_bytes) + ", sampler's cache " +
                      mib(cache) + " (" + std::to_string(stats.num_pages) +
                      " pages), sampler besides " +
                      mib(std::max<int64_t>(0, all - with_trainer - cache)) + "; held now " +
                      mib(all) + ", still free " + mib(executor.available_bytes());
  return {};
}

Status publish_weights(RlSetup& setup, int64_t step) {
  return setup.sampler->set_weight_version(setup.law.adapter, static_cast<uint64_t>(step));
}

}  // namespace mainspring
