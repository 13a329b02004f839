#include "mainspring/env/worker/worker_process.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "mainspring/env/worker/worker_messages.h"

namespace mainspring {
namespace {

/// As much as a person needs to see what it was.
std::string excerpt(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  return std::string(text.substr(0, most)) + "...";
}

std::string seconds_text(double seconds) {
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, seconds, std::chars_format::fixed, 1);
  return std::string(buffer, end.ptr) + " s";
}

std::string_view last_line(std::string_view text) {
  const size_t end = text.find_last_of('\n');
  return end == std::string_view::npos ? text : text.substr(end + 1);
}

/// Programs that run out of memory say so last, each language in its own way.
bool speaks_of_memory(std::string_view errors) {
  const std::string_view line = last_line(errors);
  return line.starts_with("MemoryError") || errors.find("std::bad_alloc") != errors.npos ||
         line.find("Cannot allocate memory") != line.npos;
}

std::string type_of(const Json& message) {
  const auto type = message.find("type");
  return type != message.end() && type->is_string() ? type->get<std::string>() : "";
}

}  // namespace

std::unique_ptr<WorkerProcess> WorkerProcess::start(const WorkerOptions& options, double& seconds,
                                                    WorkerAnswer& answer) {
  ChildOptions child_options;
  child_options.command = options.command;
  child_options.environment = options.environment;
  child_options.memory_bytes = options.memory_bytes;
  child_options.may = {.may_use_network = options.may_use_network, .may_fork = options.may_fork};
  auto child = ChildProcess::start(child_options);
  if (!child.ok()) {
    answer = {EpisodeOutcome::kCrash, child.status().message(), {}, true};
    return nullptr;
  }
  auto worker = std::unique_ptr<WorkerProcess>(
      new WorkerProcess(std::move(child).value(), options.memory_bytes));
  answer = worker->ask(
      {{"type", "hello"}, {"protocol", kWorkerProtocol}, {"settings", options.settings}}, "ready",
      seconds);
  if (answer.outcome == EpisodeOutcome::kOk) {
    const auto protocol = answer.body.find("protocol");
    if (protocol == answer.body.end() || *protocol != kWorkerProtocol) {
      answer = worker->lose(EpisodeOutcome::kGarbage,
                            "expected \"ready\" with protocol " + std::to_string(kWorkerProtocol) +
                                ", got " + excerpt(json_text(answer.body), 200));
    }
  }
  if (answer.outcome != EpisodeOutcome::kOk) {
    answer.is_process_lost = true;
    return nullptr;
  }
  return worker;
}

WorkerAnswer WorkerProcess::lose(EpisodeOutcome outcome, const std::string& what) {
  child_->stop();
  const std::string errors = child_->error_tail();
  child_.reset();
  std::string message = what;
  if (!errors.empty()) {
    const size_t most = 1000;
    message +=
        "; its stderr ends: " + errors.substr(errors.size() > most ? errors.size() - most : 0);
  }
  return {outcome, message, {}, true};
}

WorkerAnswer WorkerProcess::lose_closed(std::string_view request_type) {
  // It closed its stdout; mostly because it ended, which the kernel may tell a moment later.
  child_->wait(deadline_in(0.5));
  const ChildEnd end = child_->stop();
  const bool is_full = memory_bytes_ > 0 && end.peak_bytes >= memory_bytes_ / 10 * 9;
  const bool is_memory = is_full || speaks_of_memory(child_->error_tail());
  const std::string how = end.was_stopped ? "closed its stdout" : "ended with " + end.to_string();
  std::string what = how + " instead of answering \"" + std::string(request_type) + "\"";
  if (is_memory && memory_bytes_ > 0) {
    what += " (memory is limited to " + std::to_string(memory_bytes_ >> 20) + " MiB)";
  }
  return lose(is_memory ? EpisodeOutcome::kMemory : EpisodeOutcome::kCrash, what);
}

WorkerAnswer WorkerProcess::read_answer(const Json& request, std::string_view wanted,
                                        const std::string& line) {
  const auto garbage = [&](const std::string& problem) {
    return lose(EpisodeOutcome::kGarbage,
                problem + " as answer to \"" + type_of(request) + "\": " + excerpt(line, 200));
  };
  Result<Json> parsed = parse_json(line, "answer");
  if (!parsed.ok()) return garbage("not JSON");
  const Json& message = *parsed;
  if (!message.is_object()) return garbage("not an object");
  const std::string type = type_of(message);
  if (type == "error") {
    const auto kind = message.find("kind");
    const auto text = message.find("message");
    if (text == message.end() || !text->is_string()) return garbage("an error without message");
    if (kind != message.end() && *kind == "memory") {
      return lose(EpisodeOutcome::kMemory, text->get<std::string>());
    }
    return {EpisodeOutcome::kException, text->get<std::string>(), {}, false};
  }
  if (type != wanted) return garbage("expected \"" + std::string(wanted) + "\"; got this");
  if (request.contains("episode") && message.value("episode", Json()) != request["episode"]) {
    return garbage("of another episode");
  }
  if (const std::string problem = message_problem(message, type); !problem.empty()) {
    return garbage(problem);
  }
  WorkerAnswer answer;
  answer.body = std::move(parsed).value();
  return answer;
}

WorkerAnswer WorkerProcess::ask(const Json& request, std::string_view wanted, double& seconds) {
  const double allowed = seconds;
  const auto began = std::chrono::steady_clock::now();
  const Deadline deadline = deadline_in(std::max(0.0, allowed));
  child_->send(json_text(request) + "\n");
  std::string line;
  const ChildProcess::Read read = child_->read_line(line, deadline);
  seconds -= std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const std::string type = type_of(request);
  switch (read) {
    case ChildProcess::Read::kLine:
      return read_answer(request, wanted, line);
    case ChildProcess::Read::kTimeout:
      return lose(EpisodeOutcome::kTimeout, "no answer to \"" + type + "\" within the " +
                                                seconds_text(allowed) + " left of its deadline");
    case ChildProcess::Read::kTooLong:
      return lose(EpisodeOutcome::kGarbage, "the answer to \"" + type + "\" is longer than " +
                                                std::to_string(ChildProcess::kMaxLineBytes) +
                                                " bytes");
    case ChildProcess::Read::kClosed:
      break;
  }
  return lose_closed(type);
}

}  // namespace mainspring
