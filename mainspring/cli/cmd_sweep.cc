#include "mainspring/cli/cmd_sweep.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "mainspring/cli/exit_code.h"
#include "mainspring/cli/interrupt.h"
#include "mainspring/exec/cpu/cpu_executor.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/run/progress.h"
#include "mainspring/run/run_folder.h"
#include "mainspring/train/sweep.h"

namespace mainspring::cli {
namespace {

std::string dir_of(const SweepFlags& flags, const SweepRecord& record) {
  return flags.sweep_dir.empty() ? "runs/" + folder_name(record.title) : flags.sweep_dir;
}

Status list_points(const SweepFlags& flags, const SweepPlan& plan,
                   const std::vector<size_t>& chosen) {
  SweepRecord record = plan.record;
  const std::string dir = dir_of(flags, record);
  MS_RETURN_IF_ERROR(read_sweep_states(dir, record));
  for (const size_t i : chosen) {
    const SweepPoint& point = record.points[i];
    std::string state(sweep_state_name(point.state));
    if (point.steps > 0) {
      state += ", " + std::to_string(point.steps) + " of " +
               format_counted(plan.recipes[i].train.steps, "step");
    }
    std::printf("%4zu  %s  (%s)\n", i + 1, point.name.c_str(), state.c_str());
  }
  std::printf("%s of %zu, from %s; their folders go below %s\n",
              format_counted(std::ssize(chosen), "point").c_str(), record.points.size(),
              record.recipe.c_str(), join_path(dir, "points").c_str());
  return {};
}

void print_end(const SweepFlags& flags, const std::string& dir, const SweepResult& result) {
  if (flags.json) {
    std::printf("%s\n", json_text(sweep_json(result.record)).c_str());
  } else {
    std::printf("%s", sweep_text(result.record).c_str());
  }
  std::fprintf(stderr, "table %s, %s\npage %s\n", join_path(dir, "results.json").c_str(),
               join_path(dir, "results.csv").c_str(), join_path(dir, "sweep.html").c_str());
  if (result.stopped) std::fprintf(stderr, "stopped; go on with --resume\n");
}

Status status_of(const SweepResult& result) {
  if (result.num_to_retry > 0) {
    return resource_exhausted(format_counted(result.num_to_retry, "point") +
                              " could not be trained (the table says why); --resume tries again");
  }
  if (!result.stopped && result.num_failed == std::ssize(result.record.points)) {
    return failed_precondition("every point failed; the table says why");
  }
  return {};
}

// `signal`: what stopped the sweep, 0 if nothing did.
Status sweep(const SweepFlags& flags, int& signal) {
  if (flags.grid.empty())
    return invalid_argument("a grid is missing: mainspring sweep recipes/sweep_lr_width.toml");
  MS_ASSIGN_OR_RETURN(const SweepPlan plan, load_sweep(flags.grid, flags.sets));
  MS_ASSIGN_OR_RETURN(const std::vector<size_t> chosen, chosen_points(plan.record, flags.only));
  if (flags.list) return list_points(flags, plan, chosen);
  const std::string dir = dir_of(flags, plan.record);
  Interrupt interrupt(true);
  bool has_notes = false;
  SweepOptions options{
      .dir = dir,
      .resume = flags.resume,
      .chosen = chosen,
      .make_executor = [&]() -> Result<std::unique_ptr<Executor>> {
        std::vector<std::string> notes;
        MS_ASSIGN_OR_RETURN(
            std::unique_ptr<Executor> executor,
            cpu::make_cpu_executor(
                {.num_threads = static_cast<int>(flags.threads), .isa = flags.isa}, &notes));
        if (!has_notes) {
          for (const std::string& note : notes) std::fprintf(stderr, "%s\n", note.c_str());
        }
        has_notes = true;
        return executor;
      },
      .should_stop = [&] { return interrupt.pending() != 0; },
      .say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }};
  std::fprintf(stderr, "sweep %s: %s into %s\n", plan.record.title.c_str(),
               format_counted(std::ssize(chosen), "point").c_str(), dir.c_str());
  MS_ASSIGN_OR_RETURN(const SweepResult result, run_sweep(plan, options));
  if (result.stopped) signal = interrupt.pending();
  print_end(flags, dir, result);
  return status_of(result);
}

}  // namespace

int run_sweep_command(const SweepFlags& flags) {
  int signal = 0;
  const int code = exit_code("sweep", sweep(flags, signal));
  return code == 0 && signal != 0 ? 128 + signal : code;
}

void add_sweep(CommandRegistry& registry) {
  auto flags = std::make_shared<SweepFlags>();
  Flags& f = registry.add("sweep", "train every point of a grid of recipe values and compare them",
                          [flags] { return run_sweep_command(*flags); });
  f.positional("grid", &flags->grid, false, "TOML file, such as recipes/sweep_lr_width.toml");
  f.text("sweep-dir", &flags->sweep_dir,
         "folder of the sweep (default runs/<title>, as one folder name)");
  f.texts("set", &flags->sets,
          "a recipe key for every point: a.b=value, the value as TOML, else a string");
  f.texts("only", &flags->only,
          "train these points: numbers as --list has them (3, 2-5), or key=value,value; a point "
          "must fit all");
  f.toggle("list", &flags->list, "print the points and how they stand, train nothing");
  f.toggle("resume", &flags->resume,
           "go on: ended points stay, a begun one resumes from its checkpoint");
  f.integer("threads", &flags->threads, 0, "compute threads; 0: all cores of the container");
  f.text("isa", &flags->isa,
         "scalar, avx2, avx512 or avx512bf16 (default: the fastest that works)");
  f.toggle("json", &flags->json, "one JSON object instead of a table");
}

}  // namespace mainspring::cli
