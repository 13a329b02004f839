#include "mainspring/cli/program.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "mainspring/base/nearest.h"

namespace mainspring::cli {
namespace {

class Cli11Flags final : public Flags {
 public:
  using Flags::integer;
  explicit Cli11Flags(CLI::App* app) : app_(app) {}

  void text(const std::string& name, std::string* value, const std::string& help) override {
    app_->add_option("--" + name, *value, help)->capture_default_str();
  }
  void required_text(const std::string& name, std::string* value,
                     const std::string& help) override {
    app_->add_option("--" + name, *value, help)->required();
  }
  void texts(const std::string& name, std::vector<std::string>* values,
             const std::string& help) override {
    app_->add_option("--" + name, *values, help + " (may be repeated)")
        ->take_all()
        ->allow_extra_args(false)
        ->type_size(1);
  }
  void choice(const std::string& name, std::string* value, const std::vector<std::string>& choices,
              const std::string& help) override {
    app_->add_option("--" + name, *value, help)
        ->capture_default_str()
        ->check(CLI::IsMember(choices));
  }
  void integer(const std::string& name, int64_t* value, int64_t lowest, const std::string& help,
               int64_t highest) override {
    app_->add_option("--" + name, *value, help)
        ->capture_default_str()
        ->check(
            CLI::Range(lowest, highest, std::to_string(lowest) + " to " + std::to_string(highest)));
  }
  void number(const std::string& name, double* value, const std::string& help) override {
    app_->add_option("--" + name, *value, help)->capture_default_str();
  }
  void toggle(const std::string& name, bool* value, const std::string& help) override {
    app_->add_flag("--" + name, *value, help);
  }
  void positional(const std::string& name, std::string* value, bool required,
                  const std::string& help) override {
    CLI::Option* option = app_->add_option(name, *value, help);
    if (required) option->required();
  }

 private:
  CLI::App* app_;
};

class Cli11Registry final : public CommandRegistry {
 public:
  explicit Cli11Registry(CLI::App* root) : root_(root) {}

  Flags& add(const std::string& path, const std::string& summary,
             std::function<int()> run) override {
    const size_t space = path.find(' ');
    CLI::App* parent = root_;
    if (space != std::string::npos) parent = group(path.substr(0, space));
    CLI::App* app =
        parent->add_subcommand(space == std::string::npos ? path : path.substr(space + 1), summary);
    app->callback([this, app, run = std::move(run)] {
      // A command with commands below it runs if none of these was given.
      if (app->get_subcommands().empty()) run_ = run;
    });
    flags_.push_back(std::make_unique<Cli11Flags>(app));
    return *flags_.back();
  }

  int run_chosen() { return run_ ? run_() : 2; }

 private:
  CLI::App* group(const std::string& name) {
    for (CLI::App* app : root_->get_subcommands({})) {
      if (app->get_name() == name) return app;
    }
    CLI::App* app =
        root_->add_subcommand(name, name == "data" ? "make and check token shards for pre-training"
                                                   : "look at data, models, plans and checkpoints");
    app->require_subcommand(1);
    return app;
  }

  CLI::App* root_;
  std::function<int()> run_;
  std::vector<std::unique_ptr<Cli11Flags>> flags_;
};

// The nearest name among an app's commands or flags to the word that was not understood.
std::string suggestion(const CLI::App& root, int argc, char** argv) {
  const CLI::App* app = &root;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    std::vector<std::string> known;
    const bool is_flag = word.rfind("--", 0) == 0;
    if (is_flag) {
      for (const CLI::Option* option : app->get_options({})) {
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
      }
    } else {
      for (const CLI::App* child : app->get_subcommands({})) {
        known.push_back(child->get_name());
        if (child->get_name() == word) app = child;
      }
      if (app->get_name() == word || known.empty()) continue;
    }
    const std::string name = word.substr(0, word.find('='));
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return "did you mean " + nearest_name(name, known) + "?";
  }
  return "";
}

}  // namespace

int run_program(int argc, char** argv, const std::vector<AddCommand>& commands) {
  CLI::App app("Mainspring trains and samples language models, with one arithmetic.", "mainspring");
  app.require_subcommand(1);
  app.set_version_flag("--version", "mainspring 0.1.0");
  Cli11Registry registry(&app);
  for (AddCommand add : commands) add(registry);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.get_subcommands().empty() && argc > 1 && argv[1][0] != '-') {
      // CLI11 would only say that a command is missing.
      std::fprintf(stderr, "there is no command \"%s\"\n", argv[1]);
    } else if (app.exit(error) == 0) {
      return 0;
    }
    if (const std::string hint = suggestion(app, argc, argv); !hint.empty()) {
      std::fprintf(stderr, "%s\n", hint.c_str());
    }
    return 2;
  }
  int code = 1;
  try {
    code = registry.run_chosen();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr,
                 "mainspring %s: out of memory; `mainspring train RECIPE --count` and `mainspring "
                 "inspect plan RECIPE` say what a run needs\n",
                 argv[1]);
  }
  // What a command printed is part of its result: a full disk or a closed pipe is not success.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "mainspring: standard output: cannot write: %s\n", std::strerror(errno));
    return code == 0 ? 1 : code;
  }
  return code;
}

}  // namespace mainspring::cli
