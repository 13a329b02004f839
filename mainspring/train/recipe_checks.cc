#include "mainspring/train/recipe_checks.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mainspring/optim/optimizer.h"
#include "mainspring/train/preference.h"

namespace mainspring {
namespace {

/// Keys that say nothing of GPT-2's layer, which transformers' class could not follow either.
Status check_gpt2(const ModelRecipe& m) {
  const auto refuse = [](const std::string& key, const std::string& why) {
    return invalid_argument(key + ": model.family = \"gpt2\" " + why);
  };
  if (m.kv_heads != 0 && m.kv_heads != m.heads)
    return refuse("model.kv_heads", "has as many as heads (" + std::to_string(m.heads) + "), got " +
                                        std::to_string(m.kv_heads));
  if (m.hidden % m.heads == 0 && m.head_dim != 0 && m.head_dim * m.heads != m.hidden)
    return refuse("model.head_dim", "has hidden / heads (" + std::to_string(m.hidden / m.heads) +
                                        "), got " + std::to_string(m.head_dim));
  if (m.rope_theta != ModelRecipe().rope_theta)
    return refuse("model.rope_theta", "learns its positions and has no rotary frequencies");
  return {};
}

Status check_mup(const Recipe& r) {
  if (r.model.mup_base_hidden == 0) {
    if (r.model.mup_base_head_dim == 0) return {};
    return invalid_argument("model.mup_base_head_dim belongs to muP: set model.mup_base_hidden");
  }
  if (r.model.family.empty()) {
    return invalid_argument(
        "model.mup_base_hidden is of a new model (model.family): the weights of model.path are "
        "made already");
  }
  std::string other = r.optim.optimizer == "adamw" ? "" : r.optim.optimizer;
  for (const GroupRecipe& group : r.optim.groups) {
    if (!group.optimizer.empty() && group.optimizer != "adamw") other = group.optimizer;
  }
  if (other.empty()) return {};
  return invalid_argument("model.mup_base_hidden: muP's rules here are AdamW's, not " + other +
                          "'s: set optim.optimizer = \"adamw\", in optim.groups too");
}

Status check_new_model(const Recipe& r) {
  if (!r.model.path.empty()) {
    return invalid_argument("model.path and model.family exclude each other: keep one");
  }
  if (r.tune.mode != "full") {
    return invalid_argument(
        "model.family makes new weights, which all learn: set tune.mode = \"full\"");
  }
  if (!r.model.quantise.empty()) {
    return invalid_argument("model.quantise = \"" + r.model.quantise +
                            "\" needs a frozen base: a new model has none");
  }
  if (r.model.qk_norm && r.model.family != "qwen3") {
    return invalid_argument("model.qk_norm belongs to model.family = \"qwen3\", not \"" +
                            r.model.family + "\"");
  }
  const bool is_gpt2 = r.model.family == "gpt2";
  if (is_gpt2) MS_RETURN_IF_ERROR(check_gpt2(r.model));
  if ((r.model.head_dim == 0 || is_gpt2) && r.model.hidden % r.model.heads != 0) {
    return invalid_argument(
        "model.hidden: expected a multiple of model.heads (" + std::to_string(r.model.heads) +
        "), got " + std::to_string(r.model.hidden) + (is_gpt2 ? "" : "; or set model.head_dim"));
  }
  return {};
}

Status check_model(const Recipe& r) {
  MS_RETURN_IF_ERROR(check_mup(r));
  if (!r.model.family.empty()) return check_new_model(r);
  if (r.model.path.empty()) {
    return invalid_argument(
        "model.path is missing: a Hugging Face folder or a .gguf file; or model.family for a new "
        "model");
  }
  if (r.model.logit_soft_cap > 0) {
    return invalid_argument(
        "model.logit_soft_cap is of a new model (model.family): that of model.path is in its file");
  }
  if (!r.model.quantise.empty() && r.tune.mode == "full") {
    return invalid_argument("model.quantise = \"" + r.model.quantise +
                            "\" needs a frozen base: set tune.mode = \"lora\"");
  }
  return {};
}

Status check_shards(const Recipe& r) {
  if (r.data.format != "shards") {
    if (!r.data.across_documents) return {};
    return invalid_argument("data.across_documents belongs to data.format = \"shards\"");
  }
  if (r.data.held_out > 0 || !r.data.eval_files.empty()) {
    return invalid_argument(
        "token shards have held-out documents of their own (mainspring data build --held-out): "
        "data.held_out and data.eval_files must be unset");
  }
  return {};
}

Status check_spikes(const Recipe& r) {
  if (r.train.spikes != "rollback") return {};
  if (r.checkpoint.every == 0) {
    return invalid_argument(
        "train.spikes = \"rollback\" goes back to checkpoints: set checkpoint.every");
  }
  if (r.checkpoint.keep_last < 2) {
    return invalid_argument(
        "train.spikes = \"rollback\" needs checkpoint.keep_last of 2 or more: the newest may be "
        "spoiled");
  }
  return {};
}

Status check_batch(const Recipe& r) {
  const TrainRecipe& t = r.train;
  if ((t.batch_ramp_steps > 0) != (t.batch_ramp_from > 0)) {
    return invalid_argument(
        "train.batch_ramp_from and train.batch_ramp_steps belong together: set both above 0, or "
        "neither");
  }
  const bool in_tokens = t.batch_tokens > 0;
  const int64_t full = in_tokens ? t.batch_tokens : t.batch_size;
  if (t.batch_ramp_from > full) {
    return invalid_argument(std::string("train.batch_ramp_from: expected at most ") +
                            (in_tokens ? "train.batch_tokens (" : "train.batch_size (") +
                            std::to_string(full) + "), got " + std::to_string(t.batch_ramp_from));
  }
  if (t.batch_ramp_steps > t.steps) {
    return invalid_argument("train.batch_ramp_steps: expected at most train.steps (" +
                            std::to_string(t.steps) + "), got " +
                            std::to_string(t.batch_ramp_steps));
  }
  return {};
}

Status check_state(const Recipe& r) {
  if (r.optim.state == "f32") return {};
  if (r.tune.mode != "full") {
    return invalid_argument("optim.state = \"" + r.optim.state +
                            "\" belongs to tune.mode = \"full\": an adapter's f32 masters are "
                            "small");
  }
  std::vector<std::pair<std::string, std::string>> named{{"optim.optimizer", r.optim.optimizer}};
  for (size_t i = 0; i < r.optim.groups.size(); ++i) {
    const std::string& name = r.optim.groups[i].optimizer;
    if (!name.empty()) named.push_back({"optim.groups[" + std::to_string(i) + "].optimizer", name});
  }
  for (const auto& [key, name] : named) {
    const auto kind = parse_optimizer(name);
    if (!kind.ok() || takes_bf16(*kind)) continue;
    return invalid_argument(key + " = \"" + name + "\" needs f32 masters: with optim.state = \"" +
                            r.optim.state + "\" take adamw, adamw8bit or lion");
  }
  return {};
}

Status check_schedule(const Recipe& r) {
  if (r.optim.schedule == "wsd" && r.optim.decay_steps == 0) {
    return invalid_argument("optim.schedule = \"wsd\" needs optim.decay_steps > 0");
  }
  if (r.optim.schedule != "wsd" && r.optim.decay_steps > 0) {
    return invalid_argument("optim.decay_steps belongs to optim.schedule = \"wsd\": with \"" +
                            r.optim.schedule + "\" it must be 0, got " +
                            std::to_string(r.optim.decay_steps));
  }
  if (r.optim.schedule == "constant" && r.optim.final_ratio > 0) {
    return invalid_argument(
        "optim.final_ratio belongs to a schedule that falls: with optim.schedule = \"constant\" it "
        "must be 0");
  }
  if (r.optim.warmup_steps > r.train.steps ||
      r.optim.decay_steps > r.train.steps - r.optim.warmup_steps) {
    return invalid_argument(
        "optim.warmup_steps + optim.decay_steps: expected at most train.steps (" +
        std::to_string(r.train.steps) + ")");
  }
  return {};
}

Status check_tune(const Recipe& r) {
  const std::vector<std::string>& targets = r.tune.targets;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (std::find(targets.begin(), targets.begin() + static_cast<int64_t>(i), targets[i]) !=
        targets.begin() + static_cast<int64_t>(i)) {
      return invalid_argument("tune.targets: \"" + targets[i] + "\" stands there twice");
    }
  }
  if (r.tune.mode == "lora") return {};
  if (r.tune.dropout > 0) {
    return invalid_argument("tune.dropout belongs to LoRA: with tune.mode = \"full\" it must be 0");
  }
  if (!targets.empty()) {
    return invalid_argument(
        "tune.targets belongs to LoRA: with tune.mode = \"full\" it must be empty");
  }
  return {};
}

// Keys of another kind of recipe than this one.
Status check_kind(const Recipe& r) {
  if (r.kind == "rl") return {};
  if (r.env.name.empty() && r.env.settings.empty()) return {};
  return invalid_argument("[env] belongs to kind = \"rl\", got kind = \"" + r.kind + "\"");
}

Status check_preference(const Recipe& r) {
  if (r.kind != "preference") {
    if (r.preference.settings.empty()) return {};
    return invalid_argument("preference." + r.preference.settings.begin()->first +
                            " belongs to kind = \"preference\", got kind = \"" + r.kind + "\"");
  }
  MS_RETURN_IF_ERROR(preference_call(r.preference).status());
  if (r.data.format != "auto" && r.data.format != "tokens") {
    return invalid_argument("data.format = \"" + r.data.format +
                            "\": rows of kind = \"preference\" are prompt, chosen and rejected: "
                            "leave it \"auto\", or \"tokens\" for lists of token numbers");
  }
  if (r.data.loss_on != "assistant") {
    return invalid_argument("data.loss_on = \"" + r.data.loss_on +
                            "\": of a pair only the answers are compared: leave it \"assistant\"");
  }
  if (r.train.z_loss > 0) {
    return invalid_argument("train.z_loss belongs to kind = \"supervised\": it must be 0");
  }
  const int64_t least = r.train.batch_ramp_steps > 0 ? r.train.batch_ramp_from : r.train.batch_size;
  if (r.preference.loss == "kto" && (r.train.batch_tokens > 0 || least < 2)) {
    return invalid_argument(
        "preference.loss = \"kto\" compares with another prompt's answer: train.batch_size (and "
        "train.batch_ramp_from) of 2 or more, without train.batch_tokens");
  }
  return {};
}

Status check_data(const Recipe& r) {
  if (r.data.files.empty())
    return invalid_argument("data.files is missing: at least one JSONL or Parquet file");
  if (!r.data.weights.empty() && r.data.weights.size() != r.data.files.size()) {
    return invalid_argument("data.weights: expected one per file (" +
                            std::to_string(r.data.files.size()) + "), got " +
                            std::to_string(r.data.weights.size()));
  }
  if (!r.data.weights.empty() &&
      *std::max_element(r.data.weights.begin(), r.data.weights.end()) == 0) {
    return invalid_argument("data.weights: all are 0; expected at least one > 0");
  }
  MS_RETURN_IF_ERROR(check_shards(r));
  MS_RETURN_IF_ERROR(check_spikes(r));
  if (r.data.held_out > 0 && !r.data.eval_files.empty()) {
    return invalid_argument("data.held_out and data.eval_files exclude each other: keep one");
  }
  return {};
}

}  // namespace

Status check_recipe(const Recipe& r) {
  MS_RETURN_IF_ERROR(check_model(r));
  MS_RETURN_IF_ERROR(check_kind(r));
  MS_RETURN_IF_ERROR(check_preference(r));
  MS_RETURN_IF_ERROR(r.kind == "rl" ? check_rl(r) : check_data(r));
  MS_RETURN_IF_ERROR(check_tune(r));
  MS_RETURN_IF_ERROR(check_batch(r));
  MS_RETURN_IF_ERROR(check_state(r));
  return check_schedule(r);
}

}  // namespace mainspring
