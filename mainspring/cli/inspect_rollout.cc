#include "mainspring/cli/inspect_rollout.h"

#include <unistd.h>

#include <cstdio>
#include <memory>

#include "mainspring/cli/exit_code.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/models/model_text.h"
#include "mainspring/train/rl/rl_samples.h"
#include "mainspring/train/rl/rollout_records.h"
#include "mainspring/train/setup.h"

namespace mainspring::cli {
namespace {

struct RolloutFlags {
  std::string run;
  int64_t step = 0;
  int64_t group = -1;
  int64_t sample = -1;
  bool tokens = false;
  bool json = false;
};

constexpr const char* kPlain = "\033[0m";
constexpr const char* kRead = "\033[2m";
constexpr const char* kGood = "\033[30;42m";
constexpr const char* kBad = "\033[30;41m";
constexpr const char* kEven = "\033[30;47m";

const char* colour_of(double advantage) {
  return advantage > 0 ? kGood : advantage < 0 ? kBad : kEven;
}

// Control characters made visible, so that a token stays on its line.
std::string on_one_line(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += "\xE2\x86\xB5";
    else
      out += c;
  }
  return out;
}

void print_text(const Branch& branch, const std::vector<std::string>& texts, double advantage,
                bool colour) {
  for (size_t t = 0; t < texts.size(); ++t) {
    const bool sampled = branch.sampled[t] != 0;
    const std::string shown = on_one_line(texts[t]);
    if (colour)
      std::printf("%s%s%s", sampled ? colour_of(advantage) : kRead, shown.c_str(), kPlain);
    else
      std::printf("%s%s%s", sampled ? "[" : "", shown.c_str(), sampled ? "]" : "");
  }
  std::printf("\n");
}

void print_tokens(const Branch& branch, const std::vector<std::string>& texts, double advantage,
                  bool colour) {
  std::printf("  %8s %-5s %-14s %-8s %s\n", "id", "mask", "log-prob", "version", "text");
  for (size_t t = 0; t < branch.tokens.size(); ++t) {
    const bool sampled = branch.sampled[t] != 0;
    char logprob[24] = "-";
    char version[24] = "-";
    if (sampled) {
      std::snprintf(logprob, sizeof(logprob), "%.8g", static_cast<double>(branch.logprobs[t]));
      std::snprintf(version, sizeof(version), "%lld", static_cast<long long>(branch.versions[t]));
    }
    std::printf("  %8d %-5s %-14s %-8s %s%s%s\n", branch.tokens[t], sampled ? "1" : "0", logprob,
                version, colour ? (sampled ? colour_of(advantage) : kRead) : "",
                on_one_line(texts[t]).c_str(), colour ? kPlain : "");
  }
}

void print_sample(const RolloutGroup& group, size_t index, double advantage, const ModelText& text,
                  const RolloutFlags& flags) {
  const bool colour = isatty(STDOUT_FILENO) != 0;
  const Trajectory& sample = group.samples[index];
  std::printf("sample %zu  ", index);
  if (sample.is_ok()) {
    std::printf("reward %.4g", sample.reward);
    for (const auto& [part, value] : sample.rewards) std::printf("  %s %.4g", part.c_str(), value);
    std::printf("  advantage %+.4f", advantage);
  } else {
    std::printf("%s: %s", std::string(outcome_name(sample.outcome)).c_str(),
                sample.message.c_str());
  }
  std::printf("  %lld tokens%s\n", static_cast<long long>(sample.num_sampled()),
              sample.is_truncated ? ", truncated" : "");
  for (const Branch& branch : sample.branches) {
    const std::vector<std::string> texts = token_texts(text, branch.tokens);
    print_text(branch, texts, advantage, colour);
    if (flags.tokens) print_tokens(branch, texts, advantage, colour);
  }
}

Result<Recipe> recipe_of(const std::string& run) {
  MS_ASSIGN_OR_RETURN(const auto values, read_run_recipe(run));
  return recipe_from_record(values, join_path(run, "run.json"));
}

Result<ModelText> text_of(const Recipe& recipe) {
  MS_ASSIGN_OR_RETURN(const auto model, load_recipe_model(recipe));
  return make_model_text(*model);
}

Status check_place(const std::string& flag, int64_t place, size_t count) {
  if (place < static_cast<int64_t>(count)) return {};
  return invalid_argument("--" + flag + ": expected at most " + std::to_string(count - 1) +
                          ", got " + std::to_string(place));
}

Status inspect_rollout(const RolloutFlags& flags) {
  MS_ASSIGN_OR_RETURN(const RecordedRollouts rollouts, read_rollouts(flags.run, flags.step));
  if (flags.json) {
    MS_ASSIGN_OR_RETURN(const std::string lines,
                        read_text_file(rollouts_path(flags.run, flags.step)));
    std::printf("%s", lines.c_str());
    return {};
  }
  MS_ASSIGN_OR_RETURN(const Recipe recipe, recipe_of(flags.run));
  MS_RETURN_IF_ERROR(check_complete(rollouts, recipe.rl, rollouts_path(flags.run, flags.step)));
  MS_RETURN_IF_ERROR(check_place("group", flags.group, rollouts.groups.size()));
  MS_ASSIGN_OR_RETURN(const ModelText text, text_of(recipe));
  for (size_t g = 0; g < rollouts.groups.size(); ++g) {
    if (flags.group >= 0 && static_cast<int64_t>(g) != flags.group) continue;
    const RolloutGroup& group = rollouts.groups[g];
    MS_RETURN_IF_ERROR(check_place("sample", flags.sample, group.samples.size()));
    std::printf("group %zu  task %llu (%s)\n", g, static_cast<unsigned long long>(group.task_index),
                group.task.c_str());
    for (size_t s = 0; s < group.samples.size(); ++s) {
      if (flags.sample >= 0 && static_cast<int64_t>(s) != flags.sample) continue;
      print_sample(group, s, rollouts.advantages[g][s], text, flags);
    }
    std::printf("\n");
  }
  return {};
}

}  // namespace

void add_inspect_rollout(CommandRegistry& registry) {
  auto flags = std::make_shared<RolloutFlags>();
  Flags& f = registry.add("inspect rollout", "show a step's rollouts, learned tokens in colour",
                          [flags] { return exit_code("inspect", inspect_rollout(*flags)); });
  f.positional("run", &flags->run, true, "run folder");
  f.integer("step", &flags->step, 0, "step to show; the first is 1");
  f.integer("group", &flags->group, -1, "only this group; -1: all");
  f.integer("sample", &flags->sample, -1, "only this sample of a group; -1: all");
  f.toggle("tokens", &flags->tokens,
           "each token's id, mask, log-probability and weight version besides");
  f.toggle("json", &flags->json, "the recorded lines as they are");
}

}  // namespace mainspring::cli
