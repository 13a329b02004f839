#include "mainspring/cli/cmd_train.h"

#include <cstdio>
#include <memory>

#include "mainspring/cli/exit_code.h"
#include "mainspring/cli/interrupt.h"
#include "mainspring/exec/cpu/cpu_executor.h"
#include "mainspring/run/progress.h"
#include "mainspring/run/run_folder.h"
#include "mainspring/train/count.h"
#include "mainspring/train/rl/rl_trainer.h"
#include "mainspring/train/trainer.h"

namespace mainspring::cli {
namespace {

int print_keys() {
  for (const RecipeKey& key : recipe_keys()) {
    std::printf("%-24s %s\n%24s = %s; %s\n", key.key.c_str(), key.meaning.c_str(), "",
                key.fallback.c_str(), key.type.c_str());
  }
  return 0;
}

void print_end(const TrainResult& result) {
  std::printf("%s after %s\n", result.stopped ? "stopped" : "done",
              format_counted(result.steps_done, "step").c_str());
  if (result.num_evals > 0) {
    const std::string first = format_loss(result.first_eval_loss);
    const std::string last = format_loss(result.last_eval_loss);
    std::printf("held-out loss %s\n",
                (result.num_evals == 1 ? last : first + " -> " + last).c_str());
  }
  if (!result.newest_checkpoint.empty())
    std::printf("checkpoint %s\n", result.newest_checkpoint.c_str());
  std::printf("report %s\n", result.report.c_str());
  if (result.stopped) std::printf("go on with --resume\n");
}

void print_end_of_rl(const RlResult& result) {
  std::printf("%s after %s\n", result.stopped ? "stopped" : "done",
              format_counted(result.steps_done, "step").c_str());
  std::printf("mean reward of a step %.3f -> %.3f\n", result.first_reward, result.last_reward);
  std::printf("greedy accuracy %.3f -> %.3f\n", result.first_accuracy, result.last_accuracy);
  std::printf("largest trainer-sampler mismatch of a log-probability: %g\n",
              result.largest_mismatch);
  std::printf("%s", result.wait_table.c_str());
  if (!result.newest_checkpoint.empty())
    std::printf("checkpoint %s\n", result.newest_checkpoint.c_str());
  std::printf("report %s\n", result.report.c_str());
  if (result.stopped) std::printf("go on with --resume\n");
}

// Runs a recipe of any kind and prints what came of it; gives whether it was stopped.
Result<bool> run_recipe(const Recipe& recipe, Executor& executor, const TrainOptions& options) {
  if (recipe.kind == "rl") {
    MS_ASSIGN_OR_RETURN(const RlResult result, run_rl(recipe, executor, options));
    if (!options.dry_run) print_end_of_rl(result);
    return result.stopped;
  }
  MS_ASSIGN_OR_RETURN(const TrainResult result, run_training(recipe, executor, options));
  if (!options.dry_run) print_end(result);
  return result.stopped;
}

// `signal`: what stopped the run, 0 if nothing did.
Status train(const TrainFlags& flags, int& signal) {
  if (flags.recipe.empty())
    return invalid_argument("a recipe is missing: mainspring train recipes/sft_lora.toml");
  MS_ASSIGN_OR_RETURN(const Recipe recipe, load_recipe(flags.recipe, flags.sets));
  if (flags.count) {
    MS_ASSIGN_OR_RETURN(const RecipeCount count, count_recipe(recipe));
    std::printf("%s", count_text(count).c_str());
    return {};
  }
  std::vector<std::string> notes;
  MS_ASSIGN_OR_RETURN(
      auto executor,
      cpu::make_cpu_executor({.num_threads = static_cast<int>(flags.threads), .isa = flags.isa},
                             &notes));
  for (const std::string& note : notes) std::fprintf(stderr, "%s\n", note.c_str());
  Interrupt interrupt(true);
  TrainOptions options{
      .run_dir = flags.run_dir.empty() ? "runs/" + folder_name(recipe.title) : flags.run_dir,
      .resume = flags.resume,
      .dry_run = flags.dry_run,
      .should_stop = [&] { return interrupt.pending() != 0; },
      .facts = {},
      .say =
          [](const std::string& line) {
            std::printf("%s\n", line.c_str());
            std::fflush(stdout);
          }};
  MS_ASSIGN_OR_RETURN(const bool stopped, run_recipe(recipe, *executor, options));
  if (stopped) signal = interrupt.pending();
  return {};
}

}  // namespace

int run_train(const TrainFlags& flags) {
  if (flags.keys) return print_keys();
  int signal = 0;
  const int code = exit_code("train", train(flags, signal));
  return code == 0 && signal != 0 ? 128 + signal : code;
}

void add_train(CommandRegistry& registry) {
  auto flags = std::make_shared<TrainFlags>();
  Flags& f = registry.add("train", "run a training recipe", [flags] { return run_train(*flags); });
  f.positional("recipe", &flags->recipe, false, "TOML file, such as recipes/sft_lora.toml");
  f.text("run-dir", &flags->run_dir,
         "folder of the run (default runs/<title>, as one folder name)");
  f.texts("set", &flags->sets, "override a key: a.b=value, the value as TOML, else a string");
  f.integer("threads", &flags->threads, 0, "compute threads; 0: all cores of the container");
  f.text("isa", &flags->isa,
         "scalar, avx2, avx512 or avx512bf16 (default: the fastest that works)");
  f.toggle("dry-run", &flags->dry_run, "check everything and print the plan, train nothing");
  f.toggle("resume", &flags->resume, "go on from the run's newest checkpoint");
  f.toggle("count", &flags->count,
           "print parameters, FLOPs per token, memory and compute-optimal tokens, train nothing");
  f.toggle("keys", &flags->keys, "list every recipe key with its default and meaning");
}

}  // namespace mainspring::cli
