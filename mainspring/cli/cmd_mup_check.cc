#include "mainspring/cli/cmd_mup_check.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>

#include "mainspring/cli/exit_code.h"
#include "mainspring/exec/cpu/cpu_executor.h"
#include "mainspring/io/atomic_file.h"
#include "mainspring/io/json.h"
#include "mainspring/train/mup_check.h"

namespace mainspring::cli {
namespace {

Result<std::vector<int64_t>> widths_of(const MupCheckFlags& flags, const Recipe& recipe) {
  const int64_t hidden = recipe.model.hidden;
  if (flags.widths.empty()) return std::vector<int64_t>{hidden / 2, hidden, 2 * hidden, 4 * hidden};
  std::vector<int64_t> widths;
  const char* at = flags.widths.data();
  const char* const end = at + flags.widths.size();
  while (at <= end) {
    int64_t width = 0;
    const auto [next, error] = std::from_chars(at, end, width);
    const bool is_number = error == std::errc() && width > 0 && (next == end || *next == ',');
    if (!is_number || (!widths.empty() && width <= widths.back())) {
      return invalid_argument("--widths: expected increasing widths such as 64,128,256, got \"" +
                              flags.widths + "\"");
    }
    widths.push_back(width);
    at = next + 1;
  }
  if (widths.size() > 1) return widths;
  return invalid_argument("--widths: expected two or more, got \"" + flags.widths + "\"");
}

std::string command_of(const MupCheckFlags& flags) {
  std::string command = "mainspring mup-check " + flags.recipe;
  for (const std::string& set : flags.sets) command += " --set " + set;
  if (!flags.widths.empty()) command += " --widths " + flags.widths;
  command += " --steps " + std::to_string(flags.steps) + " --grow " + flags.grow;
  return command + (flags.compare ? " --compare" : "");
}

/// A line that counts steps of all widths, on a terminal. Wide models take most of the time, so a
/// step counts by its width squared.
class Counter {
 public:
  Counter(const std::vector<int64_t>& widths, int64_t steps, int64_t tables) {
    for (const int64_t width : widths) total_ += cost(width) * static_cast<double>(steps * tables);
  }
  void note(int64_t width, int64_t step) {
    const double elapsed =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const double left = done_ > 0 ? elapsed * (total_ - done_) / done_ : 0;
    if (isatty(STDERR_FILENO) != 0) {
      std::fprintf(stderr, "\rwidth %lld  step %lld  %.0f s left   ", static_cast<long long>(width),
                   static_cast<long long>(step), left);
    }
    done_ += cost(width);
  }
  void end() const {
    if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r%40s\r", "");
  }

 private:
  static double cost(int64_t width) {
    return static_cast<double>(width) * static_cast<double>(width);
  }
  double total_ = 0;
  double done_ = 0;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Result<std::vector<CoordinateTable>> tables_of(const MupCheckFlags& flags, const Recipe& recipe) {
  MupCheckOptions options;
  MS_ASSIGN_OR_RETURN(options.widths, widths_of(flags, recipe));
  options.steps = flags.steps;
  options.grown = flags.grow == "heads" ? GrownHeads::kMore : GrownHeads::kWider;
  std::vector<bool> standards{false};
  if (flags.compare) standards.push_back(true);
  Counter counter(options.widths, flags.steps, static_cast<int64_t>(standards.size()));
  options.progress = [&](int64_t width, int64_t step) { counter.note(width, step); };
  MS_ASSIGN_OR_RETURN(auto executor,
                      cpu::make_cpu_executor({.num_threads = static_cast<int>(flags.threads)}));
  std::vector<CoordinateTable> tables;
  for (const bool standard : standards) {
    options.standard = standard;
    MS_ASSIGN_OR_RETURN(CoordinateTable table, check_coordinates(recipe, *executor, options));
    tables.push_back(std::move(table));
  }
  counter.end();
  return tables;
}

Status mup_check(const MupCheckFlags& flags) {
  MS_ASSIGN_OR_RETURN(const Recipe recipe, load_recipe(flags.recipe, flags.sets));
  if (flags.compare && recipe.model.mup_base_hidden == 0) {
    return invalid_argument("--compare: set model.mup_base_hidden to have what to compare");
  }
  std::unique_ptr<AtomicFile> page;  // begun now, so that no work is lost for want of a place
  if (!flags.out.empty()) {
    MS_ASSIGN_OR_RETURN(page, AtomicFile::create(flags.out));
  }
  MS_ASSIGN_OR_RETURN(const auto tables, tables_of(flags, recipe));
  if (flags.json) {
    std::printf("%s\n", json_text(coordinates_json(tables)).c_str());
  } else {
    for (const CoordinateTable& table : tables)
      std::printf("%s\n", coordinates_text(table).c_str());
  }
  if (page != nullptr) {
    MS_RETURN_IF_ERROR(page->append(coordinates_page(tables, recipe.title, command_of(flags))));
    MS_RETURN_IF_ERROR(page->commit());
    std::fprintf(stderr, "page %s\n", flags.out.c_str());
  }
  std::string names;
  for (const std::string& name : growing_series(tables[0]))
    names += (names.empty() ? "" : ", ") + name;
  if (names.empty()) return {};
  if (recipe.model.mup_base_hidden > 0) {
    return failed_precondition("changes grow with width: " + names +
                               "; try a lower optim.lr or wider --widths: far from its best rate "
                               "a model leaves the range that muP speaks of");
  }
  std::fprintf(stderr,
               "changes grow with width (%s), and the best learning rate falls: set "
               "model.mup_base_hidden\n",
               names.c_str());
  return {};
}

}  // namespace

int run_mup_check(const MupCheckFlags& flags) { return exit_code("mup-check", mup_check(flags)); }

void add_mup_check(CommandRegistry& registry) {
  auto flags = std::make_shared<MupCheckFlags>();
  Flags& f = registry.add("mup-check", "check that training moves a new model alike at every width",
                          [flags] { return run_mup_check(*flags); });
  f.positional("recipe", &flags->recipe, true, "TOML file with model.family");
  f.texts("set", &flags->sets, "override a key: a.b=value, the value as TOML, else a string");
  f.text("widths", &flags->widths,
         "such as 64,128,256; default: half, once, twice and four times model.hidden");
  f.integer("steps", &flags->steps, 1, "training steps at each width, at optim.lr");
  f.choice("grow", &flags->grow, {"heads", "head_dim"},
           "what a wider model has: more or wider heads");
  f.toggle("compare", &flags->compare, "the same without muP besides");
  f.text("out", &flags->out, "page with plots to write, such as mup.html");
  f.integer("threads", &flags->threads, 0, "compute threads; 0: all cores of the container");
  f.toggle("json", &flags->json, "JSON instead of tables");
}

}  // namespace mainspring::cli
