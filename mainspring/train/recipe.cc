#include "mainspring/train/recipe.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/io/toml.h"
#include "mainspring/losses/advantage.h"
#include "mainspring/optim/optimizer.h"
#include "mainspring/train/preference.h"
#include "mainspring/train/recipe_checks.h"
#include "mainspring/train/recipe_groups.h"
#include "mainspring/train/recipe_text.h"

namespace mainspring {
namespace {

using StringList = std::vector<std::string>;
using NumberList = std::vector<double>;

// One key: how to read it from a ConfigValue and how to print it.
struct Key {
  std::string key;
  std::string type;
  std::string meaning;
  std::function<std::string(const ConfigValue&)> read;  // "" or what was expected
  std::function<Json()> print;
  StringList choices = {};     // of a string that has few values
  bool is_whole_text = false;  // read gives the message, not what was expected
  /// Of a table with any names: reads one entry instead, as read does.
  std::function<std::string(const std::string& name, const ConfigValue&)> read_entry = {};
};

// The key table, bound to one Recipe.
class Schema {
 public:
  explicit Schema(Recipe& recipe);
  const std::vector<Key>& keys() const { return keys_; }
  const Key* find(const std::string& name) const {
    for (const Key& key : keys_) {
      if (key.key == name) return &key;
      if (key.read_entry && name.starts_with(key.key + ".")) return &key;
    }
    return nullptr;
  }
  StringList names() const {
    StringList names;
    for (const Key& key : keys_) names.push_back(key.key);
    return names;
  }

 private:
  void add_model(ModelRecipe& model);
  void add_data(DataRecipe& data);
  void add_training(Recipe& r);
  void add_optim(OptimRecipe& optim);
  void add_rl(RlRecipe& rl);
  void add_critic(RlRecipe& rl);
  void add_rl_step(RlRecipe& rl);
  void add_env(EnvRecipe& env);
  void add_preference(PreferenceRecipe& preference);

  void integer(std::string key, int64_t& target, int64_t low, std::string meaning);
  void number(std::string key, double& target, double low, double high, std::string meaning);
  void text(std::string key, std::string& target, std::string meaning);
  void choice(std::string key, std::string& target, StringList choices, std::string meaning);
  void boolean(std::string key, bool& target, std::string meaning);
  void texts(std::string key, StringList& target, std::string meaning);
  void numbers(std::string key, NumberList& target, std::string meaning);
  void preference_setting(PreferenceRecipe& target, const std::string& name, std::string meaning);

  std::vector<Key> keys_;
};

bool read_number(const ConfigValue& value, double& out) {
  if (const auto* f = std::get_if<double>(&value.value))
    out = *f;
  else if (const auto* i = std::get_if<int64_t>(&value.value))
    out = static_cast<double>(*i);
  else
    return false;
  return true;
}

std::string plain(double number) {
  char text[32];  // the shortest that reads back as the same number
  return {text, std::to_chars(text, text + sizeof(text), number).ptr};
}

void Schema::integer(std::string key, int64_t& target, int64_t low, std::string meaning) {
  const auto read = [&target, low](const ConfigValue& value) -> std::string {
    const auto* i = std::get_if<int64_t>(&value.value);
    if (i == nullptr || *i < low) return "an integer >= " + std::to_string(low);
    target = *i;
    return "";
  };
  keys_.push_back(
      {std::move(key), "integer", std::move(meaning), read, [&target] { return Json(target); }});
}

void Schema::number(std::string key, double& target, double low, double high, std::string meaning) {
  const auto read = [&target, low, high](const ConfigValue& value) -> std::string {
    double number = 0;
    if (!read_number(value, number) || !(number >= low && number <= high)) {
      return high > 1e200 ? "a number >= " + plain(low)
                          : "a number from " + plain(low) + " to " + plain(high);
    }
    target = number;
    return "";
  };
  keys_.push_back(
      {std::move(key), "number", std::move(meaning), read, [&target] { return Json(target); }});
}

void Schema::text(std::string key, std::string& target, std::string meaning) {
  const auto read = [&target](const ConfigValue& value) -> std::string {
    const auto* s = std::get_if<std::string>(&value.value);
    if (s == nullptr) return "a string";
    target = *s;
    return "";
  };
  keys_.push_back(
      {std::move(key), "string", std::move(meaning), read, [&target] { return Json(target); }});
}

void Schema::choice(std::string key, std::string& target, StringList choices, std::string meaning) {
  std::string list;
  for (const std::string& c : choices) list += (list.empty() ? "\"" : " | \"") + c + "\"";
  const auto read = [&target, choices, list](const ConfigValue& value) -> std::string {
    const auto* s = std::get_if<std::string>(&value.value);
    if (s == nullptr || std::find(choices.begin(), choices.end(), *s) == choices.end()) return list;
    target = *s;
    return "";
  };
  keys_.push_back({std::move(key), list, std::move(meaning), read,
                   [&target] { return Json(target); }, choices});
}

void Schema::boolean(std::string key, bool& target, std::string meaning) {
  const auto read = [&target](const ConfigValue& value) -> std::string {
    const auto* b = std::get_if<bool>(&value.value);
    if (b == nullptr) return "true or false";
    target = *b;
    return "";
  };
  keys_.push_back(
      {std::move(key), "boolean", std::move(meaning), read, [&target] { return Json(target); }});
}

// A single string counts as a list of one.
void Schema::texts(std::string key, StringList& target, std::string meaning) {
  const auto read = [&target](const ConfigValue& value) -> std::string {
    StringList items;
    if (const auto* s = std::get_if<std::string>(&value.value)) {
      items.push_back(*s);
    } else if (const auto* list = std::get_if<ConfigList>(&value.value)) {
      for (const ConfigValue& item : *list) {
        const auto* s = std::get_if<std::string>(&item.value);
        if (s == nullptr) return "a list of strings";
        items.push_back(*s);
      }
    } else {
      return "a list of strings";
    }
    target = std::move(items);
    return "";
  };
  keys_.push_back({std::move(key), "list of strings", std::move(meaning), read,
                   [&target] { return Json(target); }});
}

void Schema::numbers(std::string key, NumberList& target, std::string meaning) {
  const auto read = [&target](const ConfigValue& value) -> std::string {
    NumberList items;
    const auto* list = std::get_if<ConfigList>(&value.value);
    if (list == nullptr) return "a list of numbers >= 0";
    for (const ConfigValue& item : *list) {
      double number = 0;
      if (!read_number(item, number) || !(number >= 0)) return "a list of numbers >= 0";
      items.push_back(number);
    }
    target = std::move(items);
    return "";
  };
  keys_.push_back({std::move(key), "list of numbers", std::move(meaning), read,
                   [&target] { return Json(target); }});
}

constexpr double kAny = 1e300;

StringList names_of(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

Schema::Schema(Recipe& r) {
  const auto seed = [&r](const ConfigValue& value) -> std::string {
    const auto* i = std::get_if<int64_t>(&value.value);
    if (i == nullptr || *i < 0) return "an integer >= 0";
    r.seed = static_cast<uint64_t>(*i);
    return "";
  };
  keys_.push_back({"seed", "integer",
                   "of the data order, adapter initialisation, dropout and samples", seed,
                   [&r] { return Json(r.seed); }});
  choice(
      "kind", r.kind, recipe_kinds(),
      "rows with a loss on their tokens; pairs of a chosen and a rejected answer ([preference]); "
      "or a policy in an environment ([rl], [env])");
  text("title", r.title, "of the report; the recipe file's name if empty");
  add_model(r.model);
  add_data(r.data);
  add_training(r);
  add_optim(r.optim);
  add_rl(r.rl);
  add_critic(r.rl);
  add_rl_step(r.rl);
  add_env(r.env);
  add_preference(r.preference);
}

void Schema::add_model(ModelRecipe& model) {
  text("model.path", model.path, "Hugging Face folder or .gguf file");
  choice("model.family", model.family, {"", "llama", "qwen3", "gpt2"},
         "a new model of this family and the shape below, instead of model.path");
  integer("model.layers", model.layers, 1, "decoder layers");
  integer("model.hidden", model.hidden, 1, "width of the residual stream");
  integer("model.heads", model.heads, 1, "query heads");
  integer("model.kv_heads", model.kv_heads, 0, "key and value heads; 0: as many as heads");
  integer("model.head_dim", model.head_dim, 0, "width of a head; 0: hidden / heads");
  integer("model.intermediate", model.intermediate, 0,
          "width of the MLP; 0: 8/3 hidden, up to a multiple of 32; of gpt2: 4 hidden");
  integer("model.vocab", model.vocab, 0, "rows of the embedding; 0: the tokenizer's tokens");
  integer("model.context", model.context, 2, "longest sequence");
  boolean("model.tie_embeddings", model.tie_embeddings,
          "the head is the embedding; gpt2's always is");
  boolean("model.qk_norm", model.qk_norm, "norms on q and k; qwen3 always has them");
  number("model.rope_theta", model.rope_theta, 1, kAny, "base of the rotary frequencies");
  number("model.rms_eps", model.rms_eps, 1e-12, 1, "of the norms");
  number("model.logit_soft_cap", model.logit_soft_cap, 0, 1e6,
         "logits become cap tanh(logit / cap); 0: none");
  choice("model.init", model.init, {"scaled", "normal", "fan_in"},
         "new weights: normal(0, init_std), with the ends of residual branches divided by "
         "sqrt(2 layers); normal everywhere; linears by 1 / sqrt(in)");
  number("model.init_std", model.init_std, 0, 10, "standard deviation of new weights");
  integer("model.mup_base_hidden", model.mup_base_hidden, 0,
          "muP: init_std and optim.lr are those of a model of this width, and each parameter's "
          "follow from them, so that the best rate is the same for every width; 0: off");
  integer("model.mup_base_head_dim", model.mup_base_head_dim, 0,
          "muP: head width of that model, from which scores go by 1 / width; 0: head_dim");
  text("model.tokenizer", model.tokenizer,
       "of a new model: tokenizer.json, its folder or a .gguf file; empty: one token per byte; "
       "\"none\": tokens are the numbers of a token environment");
  choice("model.dtype", model.dtype, {"bf16", "f32"},
         "compute dtype; optim.state says that of masters");
  choice("model.quantise", model.quantise,
         {"", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "nf4", "int8"},
         "store the frozen base's linears quantised (QLoRA); empty: as in the file");
}

void Schema::add_data(DataRecipe& data) {
  texts("data.files", data.files,
        "JSONL or Parquet files of training rows, or their s3://, gs:// or http(s):// URLs");
  numbers("data.weights", data.weights,
          "share of samples per file, 0: none; empty: by number of rows");
  choice("data.format", data.format, {"auto", "chat", "completion", "tokens", "text", "shards"},
         "what a row is; shards: data.files are folders that mainspring data build made");
  boolean("data.across_documents", data.across_documents,
          "shards: a window is one sequence, whatever documents it holds; else one per document");
  choice("data.loss_on", data.loss_on, {"assistant", "all"}, "which tokens are learned");
  integer("data.max_tokens", data.max_tokens, 2, "longer rows are left out and counted");
  boolean("data.shuffle", data.shuffle, "draw rows in a keyed order, else in file order");
  number("data.held_out", data.held_out, 0, 0.9, "fraction of rows kept for evaluation");
  texts("data.eval_files", data.eval_files, "evaluation rows of their own");
  number("data.stall_timeout_s", data.stall_timeout_s, 0.01, kAny,
         "seconds after which a silent file is named");
}

void Schema::add_training(Recipe& r) {
  choice("tune.mode", r.tune.mode, {"lora", "full"}, "what learns: an adapter or all weights");
  integer("tune.rank", r.tune.rank, 1, "LoRA rank");
  number("tune.alpha", r.tune.alpha, 0, kAny, "LoRA alpha; the branch is scaled by alpha / rank");
  number("tune.dropout", r.tune.dropout, 0, 0.99, "LoRA dropout");
  texts("tune.targets", r.tune.targets, "linears with an adapter; empty: all seven");
  integer("train.steps", r.train.steps, 1, "optimizer steps");
  integer("train.batch_size", r.train.batch_size, 1, "sequences per optimizer step");
  integer("train.batch_tokens", r.train.batch_tokens, 0,
          "at least so many tokens per step instead; 0: off");
  integer("train.batch_ramp_from", r.train.batch_ramp_from, 0,
          "batch of the first step (sequences, or tokens with train.batch_tokens); it rises evenly "
          "to the full batch");
  integer("train.batch_ramp_steps", r.train.batch_ramp_steps, 0,
          "steps until the batch is full; 0: from the first on");
  integer("train.gradient_leaf", r.train.gradient_leaf, 0,
          "sequences whose gradients fold into one sum before these add up in a tree; 0: all");
  integer("train.micro_batch_rows", r.train.micro_batch_rows, 0,
          "rows that pass the model at once; 0: from memory");
  choice("train.recompute", r.train.recompute, {"none", "selective", "keep_attention", "full"},
         "activations computed again in the backward pass: none, cheap ones, all but attention's, "
         "all");
  number("train.max_grad_norm", r.train.max_grad_norm, 0, kAny,
         "global norm that gradients are clipped to; 0: off");
  number("train.z_loss", r.train.z_loss, 0, 1,
         "times the square of each token's log-normaliser, added to the loss; 0: off");
  choice("train.spikes", r.train.spikes, {"ignore", "skip", "rollback"},
         "a step whose loss is out of line: is taken as any other; is not applied; is not applied, "
         "and if the step before spoiled the weights, the run goes back to a checkpoint before it "
         "and leaves that batch out");
  number("train.spike_factor", r.train.spike_factor, 0.1, kAny,
         "a spike is so many median distances above the median of the last losses");
  integer("train.spike_window", r.train.spike_window, 4, "losses that say what is usual");
  integer("train.max_spikes", r.train.max_spikes, 1, "spikes before the run stops");
  number("train.ema", r.train.ema, 0, 0.9999999,
         "decay of a moving average of the weights, kept beside them in f32; 0: none");
  boolean("train.ema_warmup", r.train.ema_warmup,
          "the decay of step t is at most (1 + t) / (10 + t)");
  boolean("train.ema_eval", r.train.ema_eval, "evaluations and samples take the averaged weights");
  integer("train.max_bad_steps", r.train.max_bad_steps, 1,
          "non-finite steps in a row before the run stops");
  integer("train.eval_every", r.train.eval_every, 0,
          "steps between evaluations; 0: first and last only");
  integer("train.eval_rows", r.train.eval_rows, 1, "held-out rows evaluated at most");
  texts("train.sample_prompts", r.train.sample_prompts, "user turns answered at each evaluation");
  integer("train.sample_tokens", r.train.sample_tokens, 1, "longest answer");
  texts("train.disabled_passes", r.train.disabled_passes,
        "graph passes switched off; changes no bit");
  integer("checkpoint.every", r.checkpoint.every, 0,
          "steps between checkpoints; 0: the last step only");
  integer("checkpoint.keep_last", r.checkpoint.keep_last, 1, "newest checkpoints kept");
  integer("checkpoint.keep_best", r.checkpoint.keep_best, 0,
          "checkpoints with the best evaluation kept besides");
}

void Schema::add_optim(OptimRecipe& optim) {
  choice("optim.optimizer", optim.optimizer, optimizer_names(),
         "what moves the weights; muon: hidden matrices, with adamw for the rest; adamw8bit: adamw "
         "with moments in 8 bits, in f32 for parameters of fewer than 4096 elements");
  choice("optim.state", optim.state, {"f32", "bf16"},
         "what weights and moments are kept in; bf16: no f32 masters, rounded by chance (tune.mode "
         "= \"full\"; adamw, adamw8bit, lion)");
  const auto groups = [&optim](const ConfigValue& value) {
    return read_groups(value, optim.groups);
  };
  keys_.push_back({"optim.groups",
                   "list of tables",
                   "parameters moved differently: {params, optimizer, lr_scale, weight_decay}; "
                   "names may hold *, the first group that names a parameter takes it",
                   groups,
                   [&optim] { return groups_json(optim.groups); },
                   {},
                   true});
  number("optim.lr", optim.lr, 0, kAny, "peak learning rate");
  number("optim.beta1", optim.beta1, 0, 0.9999999, "AdamW");
  number("optim.beta2", optim.beta2, 0, 0.9999999, "AdamW");
  number("optim.eps", optim.eps, 0, kAny, "AdamW");
  number("optim.weight_decay", optim.weight_decay, 0, kAny, "decoupled, every optimizer");
  number("optim.momentum", optim.momentum, 0, 0.9999999, "Muon");
  boolean("optim.nesterov", optim.nesterov, "Muon");
  choice(
      "optim.muon_scale", optim.muon_scale, {"match_adamw", "original", "spectral"},
      "Muon's rate by a matrix's (rows, columns): times 0.2 sqrt(max(rows, columns)), as AdamW's "
      "rates want; sqrt(max(1, rows / columns)); sqrt(rows / columns)");
  choice("optim.muon_products", optim.muon_products, {"bf16", "f32"},
         "dtype of Muon's Newton-Schulz products");
  number("optim.lion_beta1", optim.lion_beta1, 0, 0.9999999, "Lion");
  number("optim.lion_beta2", optim.lion_beta2, 0, 0.9999999, "Lion");
  number("optim.adafactor_decay", optim.adafactor_decay, -10, 0,
         "Adafactor: exponent of the second moment's rate");
  number("optim.adafactor_eps", optim.adafactor_eps, 0, kAny, "Adafactor: least parameter scale");
  number("optim.adafactor_clip", optim.adafactor_clip, 1, kAny,
         "Adafactor: largest root mean square of an update's direction");
  choice("optim.schedule", optim.schedule, {"constant", "linear", "cosine", "wsd"},
         "of the learning rate");
  integer("optim.warmup_steps", optim.warmup_steps, 0, "linear rise from zero");
  integer("optim.decay_steps", optim.decay_steps, 0, "wsd: length of the final fall");
  number("optim.final_ratio", optim.final_ratio, 0, 1, "last rate as a fraction of the peak");
}

void Schema::add_rl(RlRecipe& rl) {
  choice("rl.algorithm", rl.algorithm, rl_algorithm_names(),
         "a published algorithm: it sets the keys from rl.advantage to rl.overlong_buffer, and "
         "each of these may be given besides");
  StringList advantages = names_of(advantage_names());
  advantages.push_back("gae");
  choice("rl.advantage", rl.advantage, advantages,
         "a sample's reward; less its group's mean, over the group's deviation; without the "
         "division; less the mean of the others; less the batch's mean, over the batch's "
         "deviation; less the group's mean, over the batch's deviation; of each token, from a "
         "critic's values");
  choice(
      "rl.loss", rl.loss,
      {"policy_gradient", "importance_sampling", "ppo", "cispo", "gspo", "sapo", "dro"},
      "of a token: log-probability x advantage, in one pass (a synchronous step's ratio is 1, so "
      "its gradient is that of the next two); ratio x advantage; the same clipped; log-probability "
      "by a clipped ratio; the "
      "sequence's ratio clipped; a smooth gate for a clip; a quadratic pull for it");
  number("rl.clip_low", rl.clip_low, 0, 1, "the ratio's lower bound is 1 - clip_low");
  number("rl.clip_high", rl.clip_high, 0, 1e6, "its upper bound is 1 + clip_high");
  choice(
      "rl.normaliser", rl.normaliser, names_of(normaliser_names()),
      "what the summed loss is divided by, counted over the whole step: sampled tokens; samples, "
      "each by its own length first; samples, each by rl.max_new_tokens first");
  choice("rl.kl", rl.kl, {"none", "k1", "k2", "k3"},
         "estimator of the KL from the model before training (the base under an adapter)");
  choice("rl.kl_place", rl.kl_place, {"loss", "reward"}, "where the KL term goes");
  number("rl.kl_weight", rl.kl_weight, 0, 1e3, "times the KL term");
  choice("rl.no_variance", rl.no_variance, {"keep", "drop", "resample"},
         "groups whose samples got one reward: are computed with advantage 0; are left out of the "
         "pass (they still count in the normaliser); are replaced by new prompts");
  integer("rl.overlong_buffer", rl.overlong_buffer, 0,
          "tokens before rl.max_new_tokens over which the reward falls by up to 1; 0: off");
}

void Schema::add_critic(RlRecipe& rl) {
  number("rl.discount", rl.discount, 0, 1, "rl.advantage = \"gae\": of the next token's value");
  number("rl.gae_lambda", rl.gae_lambda, 0, 1, "likewise: how far errors are handed back");
  number("rl.value_weight", rl.value_weight, 0, 1e3,
         "likewise: of the critic's loss beside the policy's");
  number("rl.value_clip", rl.value_clip, 0, 1e6,
         "likewise: largest step of a value from that before the first update; 0: none");
}

void Schema::add_rl_step(RlRecipe& rl) {
  integer("rl.prompts_per_step", rl.prompts_per_step, 1, "tasks of an optimizer step");
  integer("rl.group_size", rl.group_size, 1, "samples of each task");
  integer("rl.updates", rl.updates, 1,
          "optimizer updates on each step's samples; from the second on ratios leave 1");
  integer("rl.max_new_tokens", rl.max_new_tokens, 1, "longest reply of a turn");
  integer("rl.max_turns", rl.max_turns, 1, "replies of an episode at most");
  integer("rl.max_tokens", rl.max_tokens, 2, "longest sequence, all turns together");
  number("rl.temperature", rl.temperature, 1e-3, 100, "of the samples that are learned from");
  integer("rl.top_k", rl.top_k, 0, "0: off");
  number("rl.top_p", rl.top_p, 1e-6, 1, "1: off");
  number("rl.min_p", rl.min_p, 0, 1, "0: off");
  integer("rl.resample_rounds", rl.resample_rounds, 1,
          "rl.no_variance = \"resample\": further rounds of prompts at most");
  boolean("rl.curriculum", rl.curriculum,
          "tasks are drawn by how uncertain their success is, from statistics that are kept");
  boolean("rl.merge_equal", rl.merge_equal,
          "equal samples of a group pass the model once, with their weights added");
  integer("rl.eval_every", rl.eval_every, 0,
          "steps between evaluations with greedy replies; 0: first and last only");
  integer("rl.eval_prompts", rl.eval_prompts, 1,
          "tasks of an evaluation; an environment with no more tasks gives each once");
  number("rl.success_reward", rl.success_reward, -1e6, 1e6,
         "reward from which on a task counts as solved");
  integer("rl.sampler_batch", rl.sampler_batch, 0,
          "samples that run at once; 0: all of a step, at most 512");
  integer("rl.keep_rollouts", rl.keep_rollouts, 0,
          "newest steps whose rollouts stay in the run folder; 0: all");
}

// A setting is kept as it is written, since only the environment knows its type.
std::string read_setting(EnvRecipe& env, const std::string& name, const ConfigValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) {
    env.settings[name] = *text;
  } else if (const auto* i = std::get_if<int64_t>(&value.value)) {
    env.settings[name] = std::to_string(*i);
  } else if (const auto* f = std::get_if<double>(&value.value)) {
    env.settings[name] = Json(*f).dump();
  } else if (const auto* b = std::get_if<bool>(&value.value)) {
    env.settings[name] = *b ? "true" : "false";
  } else {
    return "a string, number or boolean";
  }
  return "";
}

void Schema::add_env(EnvRecipe& env) {
  text("env.name", env.name, "environment that gives tasks and judges replies");
  const auto whole = [](const ConfigValue&) -> std::string { return "a table [env.settings]"; };
  const auto entry = [&env](const std::string& name, const ConfigValue& value) {
    return read_setting(env, name, value);
  };
  keys_.push_back({"env.settings",
                   "table",
                   "the environment's own settings, by name",
                   whole,
                   [&env] { return Json(env.settings); },
                   {},
                   false,
                   entry});
}

// Unset, it is the loss's own; its bounds are the loss's too (check_recipe).
void Schema::preference_setting(PreferenceRecipe& target, const std::string& name,
                                std::string meaning) {
  const auto read = [&target, name](const ConfigValue& value) -> std::string {
    double number = 0;
    const auto* text = std::get_if<std::string>(&value.value);
    if (text != nullptr && text->empty()) return "";  // as print says of one that is not set
    if (!read_number(value, number)) return "a number";
    target.settings[name] = number;
    return "";
  };
  const auto print = [&target, name] {
    const auto given = target.settings.find(name);
    return given == target.settings.end() ? Json("") : Json(given->second);
  };
  keys_.push_back({"preference." + name, "number", std::move(meaning), read, print});
}

void Schema::add_preference(PreferenceRecipe& preference) {
  choice("preference.loss", preference.loss, preference_loss_names(),
         "what a pair's log-probabilities are worth (losses/preference_losses.h)");
  preference_setting(preference, "beta",
                     "of the implicit reward; unset: 0.1, of simpo 2; of orpo the odds' weight");
  preference_setting(preference, "length_normalised",
                     "dpo losses: 1: log-ratios are divided by the answer's length; unset: 0, of "
                     "dpo_ipo 1");
  preference_setting(preference, "sft_coef",
                     "weight of the chosen answer's own loss, added; unset: 0, of cpo 1");
  preference_setting(preference, "label_smoothing",
                     "dpo_robust, dpo_conservative: share of pairs that are the wrong way round; "
                     "unset: 0.1");
  preference_setting(preference, "gamma", "simpo: target margin of the rewards; unset: 1");
  preference_setting(preference, "desirable_weight", "kto: of chosen answers; unset: 1");
  preference_setting(preference, "undesirable_weight", "kto: of rejected answers; unset: 1");
}

using Origins = std::map<std::string, std::string>;

// A value of --set has the key in its place already.
std::string place_of(const ConfigValue& value, const std::string& name) {
  return value.line == 0 ? value.where() : value.where() + ": " + name;
}

std::string choice_hint(const Key& key, const ConfigValue& value) {
  const auto* text = std::get_if<std::string>(&value.value);
  const std::string nearest = text == nullptr ? "" : near_name(*text, key.choices);
  return nearest.empty() ? "" : "; nearest is \"" + nearest + "\"";
}

Status apply(const Schema& schema, const std::string& name, const ConfigValue& value,
             Origins& origins) {
  const Key* key = schema.find(name);
  if (key == nullptr) {
    return invalid_argument(value.where() + ": unknown key \"" + name + "\"" +
                            unknown_key_hint(name, schema.names()));
  }
  const std::string expected = key->read_entry && name != key->key
                                   ? key->read_entry(name.substr(key->key.size() + 1), value)
                                   : key->read(value);
  if (!expected.empty()) {
    if (key->is_whole_text) return invalid_argument(expected);
    return invalid_argument(place_of(value, name) + ": expected " + expected + ", got " +
                            value_text(value) + choice_hint(*key, value));
  }
  origins[key->key] = value.where();
  return {};
}

Status apply_table(const Schema& schema, const ConfigTable& table, const std::string& prefix,
                   Origins& origins) {
  for (const auto& [name, value] : table) {
    if (value.is_table()) {
      MS_RETURN_IF_ERROR(
          apply_table(schema, std::get<ConfigTable>(value.value), prefix + name + ".", origins));
    } else {
      MS_RETURN_IF_ERROR(apply(schema, prefix + name, value, origins));
    }
  }
  return {};
}

Status apply_set(const Schema& schema, const std::string& set, Origins& origins) {
  const size_t equals = set.find('=');
  if (equals == std::string::npos || equals == 0) {
    return invalid_argument("--set " + set + ": expected key=value");
  }
  const std::string name = set.substr(0, equals);
  return apply(schema, name, parse_toml_value_or_string(set.substr(equals + 1), "--set " + name),
               origins);
}

// What an algorithm decides comes before what the recipe gives, wherever it stands there: so all is
// read twice, with the algorithm known the second time.
template <typename Apply>
Status apply_with_algorithm(Recipe& recipe, Origins& origins, const Apply& apply_all) {
  MS_RETURN_IF_ERROR(apply_all());
  const auto origin = origins.find("rl.algorithm");
  if (origin == origins.end()) return {};
  const std::string from = origin->second;
  apply_rl_algorithm(recipe.rl);
  MS_RETURN_IF_ERROR(apply_all());
  for (const std::string& key : rl_preset_keys()) {
    origins.try_emplace(key, from + " (rl.algorithm)");
  }
  return {};
}

ConfigValue config_value_of(const Json& json, const std::string& source) {
  ConfigValue value{.value = false, .source = source};
  if (json.is_boolean()) value.value = json.get<bool>();
  if (json.is_number_integer()) value.value = json.get<int64_t>();
  if (json.is_number_float()) value.value = json.get<double>();
  if (json.is_string()) value.value = json.get<std::string>();
  if (json.is_array()) {
    ConfigList list;
    for (const Json& item : json) list.push_back(config_value_of(item, source));
    value.value = std::move(list);
  }
  if (json.is_object()) {
    ConfigTable table;
    for (const auto& [key, item] : json.items()) {
      table.push_back({key, config_value_of(item, source)});
    }
    value.value = std::move(table);
  }
  return value;
}

}  // namespace

const std::vector<std::string>& recipe_kinds() {
  static const std::vector<std::string> kinds{
      "supervised",
      "rl",
      "preference",
  };
  return kinds;
}

std::vector<RecipeKey> recipe_keys() {
  Recipe defaults;
  const Schema schema(defaults);
  std::vector<RecipeKey> rows;
  for (const Key& key : schema.keys())
    rows.push_back({key.key, key.type, key.print().dump(), key.meaning});
  return rows;
}

Result<Recipe> recipe_from_record(const std::vector<RecipeValue>& values,
                                  const std::string& source) {
  Recipe recipe;
  const Schema schema(recipe);
  Origins origins;
  for (const RecipeValue& value : values) {
    MS_ASSIGN_OR_RETURN(const Json json, parse_json(value.json, source + ": " + value.key));
    const ConfigTable entry{{value.key, config_value_of(json, source)}};
    MS_RETURN_IF_ERROR(apply_table(schema, entry, "", origins));
  }
  MS_RETURN_IF_ERROR(check_recipe(recipe).with_context(source));
  recipe.values = values;
  return recipe;
}

Result<Recipe> load_recipe(const std::string& path, const std::vector<std::string>& sets) {
  return load_recipe(path, ConfigTable(), sets);
}

Result<Recipe> load_recipe(const std::string& path, const ConfigTable& values,
                           const std::vector<std::string>& sets) {
  Recipe recipe;
  const Schema schema(recipe);
  Origins origins;
  MS_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  MS_ASSIGN_OR_RETURN(const ConfigTable table, parse_toml(file->text(), path));
  MS_RETURN_IF_ERROR(apply_with_algorithm(recipe, origins, [&]() -> Status {
    MS_RETURN_IF_ERROR(apply_table(schema, table, "", origins));
    for (const auto& [name, value] : values) {
      MS_RETURN_IF_ERROR(apply(schema, name, value, origins));
    }
    for (const std::string& set : sets) MS_RETURN_IF_ERROR(apply_set(schema, set, origins));
    return {};
  }));
  for (const auto& [key, origin] : origins) {
    if (key.starts_with("rl.") && recipe.kind != "rl") {
      return invalid_argument(origin + ": " + key + " belongs to kind = \"rl\", got kind = \"" +
                              recipe.kind + "\"");
    }
  }
  MS_RETURN_IF_ERROR(check_recipe(recipe).with_context(path));
  if (recipe.title.empty()) recipe.title = std::filesystem::path(path).stem().string();
  for (const Key& key : schema.keys()) {
    const auto origin = origins.find(key.key);
    recipe.values.push_back(
        {key.key, key.print().dump(), origin == origins.end() ? "default" : origin->second});
  }
  return recipe;
}

}  // namespace mainspring
