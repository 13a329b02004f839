#include "mainspring/env/worker/worker_env.h"

#include <cstdlib>
#include <filesystem>

#include "mainspring/env/python_program.h"
#include "mainspring/env/worker/worker_messages.h"

namespace mainspring {
namespace {

constexpr const char* kHashSeed = "PYTHONHASHSEED=0";

class WorkerEpisode final : public Episode {
 public:
  WorkerEpisode(std::shared_ptr<WorkerPool> pool, HostedEpisode hosted)
      : pool_(std::move(pool)), hosted_(std::move(hosted)) {}
  ~WorkerEpisode() override {
    // Left before its end: whether the worker minds is of no consequence to anybody but itself.
    if (!is_closed_) pool_->close(hosted_, false);
  }

  Observation start() override {
    failure_ = pool_->start(hosted_);
    Observation first;
    if (failure_.outcome == EpisodeOutcome::kOk) {
      first.messages = messages_of(failure_.body);
    } else {
      first.messages.push_back({"user", ""});  // the failure is told with the first step
    }
    return first;
  }

  Feedback step(const Action& action) override {
    MS_CHECK(!is_closed_, "the episode is over");
    if (failure_.outcome != EpisodeOutcome::kOk) return failed(failure_);
    const WorkerAnswer answer = pool_->step(hosted_, {{"type", "step"},
                                                      {"episode", hosted_.id},
                                                      {"text", action.text},
                                                      {"is_complete", action.is_complete}});
    if (answer.outcome != EpisodeOutcome::kOk) return failed(answer);
    Feedback feedback;
    feedback.is_done = answer.body["done"].get<bool>();
    feedback.rewards = rewards_of(answer.body);
    if (!feedback.is_done) {
      feedback.next.messages = messages_of(answer.body);
      return feedback;
    }
    is_closed_ = true;
    const WorkerAnswer closed = pool_->close(hosted_, true);
    return closed.outcome == EpisodeOutcome::kOk ? feedback : failed(closed);
  }

 private:
  Feedback failed(const WorkerAnswer& answer) {
    if (!is_closed_) pool_->close(hosted_, false);
    is_closed_ = true;
    Feedback feedback;
    feedback.outcome = answer.outcome;
    feedback.message = answer.message;
    return feedback;
  }

  std::shared_ptr<WorkerPool> pool_;
  HostedEpisode hosted_;
  WorkerAnswer failure_;
  bool is_closed_ = false;
};

class WorkerEnvironment final : public Environment {
 public:
  WorkerEnvironment(std::string name, std::shared_ptr<WorkerPool> pool)
      : pool_(std::move(pool)), name_(std::move(name)) {
    const Json& ready = pool_->ready();
    const std::string own = ready.value("name", "");
    if (!own.empty()) name_ = own;
    num_tasks_ = ready.value("num_tasks", int64_t{0});
  }

  std::string name() const override { return name_; }
  int64_t num_tasks() const override { return num_tasks_; }
  Status health() const override { return pool_->health(); }
  std::unique_ptr<Episode> make_episode(uint64_t seed, uint64_t index) override {
    return std::make_unique<WorkerEpisode>(pool_, pool_->make_episode(seed, index));
  }

 private:
  std::shared_ptr<WorkerPool> pool_;
  std::string name_;
  int64_t num_tasks_ = 0;
};

/// The nearest folder python/ with the adapters at or above `start`.
std::string find_adapters(const std::filesystem::path& start) {
  std::error_code ignored;
  for (auto folder = start; !folder.empty(); folder = folder.parent_path()) {
    const auto python = folder / "python";
    if (std::filesystem::exists(python / "mainspring_env" / "__main__.py", ignored)) return python;
    if (folder == folder.parent_path()) break;
  }
  return "";
}

std::string find_adapters() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::string folder = find_adapters(program.parent_path());
  return folder.empty() ? find_adapters(std::filesystem::current_path(ignored)) : folder;
}

std::string python_path_with(const std::string& folder) {
  const char* path = std::getenv("PYTHONPATH");
  const bool is_set = path != nullptr && *path != 0;
  return "PYTHONPATH=" + folder + (is_set ? ":" + std::string(path) : "");
}

}  // namespace

std::vector<std::string> python_environment() {
  std::vector<std::string> environment = {kHashSeed};
  const std::string folder = find_adapters();
  if (!folder.empty()) environment.push_back(python_path_with(folder));
  return environment;
}

WorkerPoolOptions read_worker_limits(EnvSettingsReader& reader) {
  WorkerPoolOptions options;
  options.workers = reader.integer("workers", 1, 1, 256);
  options.deadline_seconds = reader.number("deadline_s", 30, 0.01, 86400);
  options.worker.memory_bytes = reader.integer("memory_mib", 4096, 0, 1 << 20) << 20;
  options.worker.may_fork = reader.flag("fork", false);
  options.worker.may_use_network = reader.flag("network", true);
  options.max_failures = reader.integer("max_failures", 5, 1, 1000);
  return options;
}

Json read_json_object(EnvSettingsReader& reader, const std::string& name) {
  const std::string text = reader.text(name, "{}");
  Result<Json> value = parse_json(text, name);
  if (!value.ok()) {
    reader.refuse(name, "expected a JSON object: " + value.status().message());
  } else if (!value->is_object()) {
    reader.refuse(name, "expected a JSON object, got " + std::string(json_kind(*value)));
  } else {
    return std::move(value).value();
  }
  return Json::object();
}

void set_python_adapter(EnvSettingsReader& reader, const std::string& module,
                        WorkerOptions& options) {
  std::string python = reader.text("python", "python3");
  Result<std::string> interpreter = find_python(python);
  if (!interpreter.ok()) {
    reader.refuse("python", interpreter.status().message());
  } else {
    python = std::move(interpreter).value();
  }
  std::string folder = reader.text("adapter", "");
  if (folder.empty()) {
    folder = find_adapters();
    if (folder.empty()) {
      reader.refuse("adapter",
                    "must be given: the folder that has mainspring_env, python/ in a "
                    "clone, is not above the program or the working folder");
    }
  } else if (!std::filesystem::exists(folder + "/mainspring_env/__main__.py")) {
    reader.refuse("adapter", "no mainspring_env in \"" + folder + "\"");
  }
  options.command = {python, "-m", "mainspring_env", module};
  options.environment = {kHashSeed, python_path_with(folder)};
}

Result<std::unique_ptr<Environment>> make_worker_environment(const std::string& name,
                                                             WorkerPoolOptions options) {
  auto pool = std::make_shared<WorkerPool>(std::move(options));
  MS_RETURN_IF_ERROR(pool->open().with_context("environment \"" + name + "\""));
  return std::unique_ptr<Environment>(std::make_unique<WorkerEnvironment>(name, pool));
}

}  // namespace mainspring
