#include "mainspring/env/rewards/code_tests.h"

#include <cmath>
#include <random>

#include "mainspring/env/child_process.h"
#include "mainspring/env/python_program.h"
#include "mainspring/env/rewards/answer_text.h"
#include "mainspring/io/json.h"

namespace mainspring {
namespace {

/// What the child runs. It takes a line with the code, says that it ran, and only then gets the
/// tests with the number that opens each line of its verdict.
constexpr const char* kHarness = R"py(
import json, os, sys
requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
os.close(0)
def tell(message):
    answers.write(json.dumps(message) + "\n")
    answers.flush()
def run(source, name, names):
    try:
        exec(compile(source, name, "exec"), names)
        return ""
    except SystemExit:
        return "" if name == "code" else "SystemExit"
    except BaseException as error:
        return type(error).__name__ + ": " + str(error)[:200]
names = {"__name__": "__main__", "__builtins__": __builtins__}
problem = run(json.loads(requests.readline()), "code", names)
tell({"problem": problem})
rest = json.loads(requests.readline())
for number, test in enumerate(rest["tests"]):
    problem = run(test, "test %d" % (number + 1), names)
    tell({"key": rest["key"], "problem": problem})
)py";

std::string draw_key() {
  std::random_device device;
  std::string key;
  for (int i = 0; i < 4; ++i) key += std::to_string(device()) + ".";
  return key;
}

/// The next message of the harness, or what happened instead.
Result<Json> next_message(ChildProcess& child, Deadline deadline) {
  std::string line;
  switch (child.read_line(line, deadline)) {
    case ChildProcess::Read::kLine:
      break;
    case ChildProcess::Read::kTimeout:
      return deadline_exceeded("it ran out of time");
    case ChildProcess::Read::kTooLong:
      return invalid_argument("it wrote over its verdict");
    case ChildProcess::Read::kClosed:
      child.wait(deadline_in(0.5));
      return invalid_argument("it ended with " + child.stop().to_string());
  }
  Result<Json> message = parse_json(line, "verdict");
  if (!message.ok() || !message->is_object() || !message->contains("problem") ||
      !(*message)["problem"].is_string()) {
    return invalid_argument("it wrote over its verdict");
  }
  return message;
}

Status must_be_refused(const CodeTests& tests, const std::string& code, const std::string& what) {
  MS_ASSIGN_OR_RETURN(const CodeVerdict verdict, tests.run(code, {"pass"}));
  if (verdict.message.find("PermissionError") != std::string::npos) return {};
  return failed_precondition("code under test would be able to " + what +
                             " on this machine (the child said: \"" + verdict.message + "\")");
}

}  // namespace

Result<CodeTests> CodeTests::open(const std::string& python, const CodeLimits& limits) {
  MS_ASSIGN_OR_RETURN(const std::string path, find_python(python));
  const CodeTests tests(path, limits);
  MS_ASSIGN_OR_RETURN(const CodeVerdict sum, tests.run("x = 1 + 1", {"assert x == 2"}));
  if (sum.passed != 1) {
    return failed_precondition("Python does not run within the limits of code under test: " +
                               sum.message);
  }
  MS_RETURN_IF_ERROR(must_be_refused(tests, "import socket; socket.socket()", "reach the network"));
  MS_RETURN_IF_ERROR(must_be_refused(tests, "import os; os.fork()", "start processes"));
  MS_RETURN_IF_ERROR(must_be_refused(tests, "open('/dev/null', 'w')", "change files"));
  return tests;
}

CodeTests CodeTests::with_seconds(double seconds) const {
  CodeTests other = *this;
  other.limits_.seconds = seconds;
  return other;
}

Result<CodeVerdict> CodeTests::run(const std::string& code,
                                   const std::vector<std::string>& tests) const {
  CodeVerdict verdict;
  verdict.total = static_cast<int64_t>(tests.size());
  ChildOptions options;
  options.command = {python_, "-I", "-S", "-B", "-c", kHarness};
  options.environment = {"LC_ALL=C.UTF-8"};
  options.keeps_environment = false;
  options.folder = "/";
  options.memory_bytes = limits_.memory_bytes;
  options.cpu_seconds = static_cast<int64_t>(std::ceil(limits_.seconds)) + 1;
  options.may = {.may_use_network = false, .may_fork = false, .may_change_files = false};
  options.dies_with_thread = true;
  const Deadline deadline = deadline_in(limits_.seconds);
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child, ChildProcess::start(options));

  child->send(json_text(code) + "\n");
  Result<Json> message = next_message(*child, deadline);
  if (message.ok() && (*message)["problem"] != "") {
    message = invalid_argument((*message)["problem"].get<std::string>());
  }
  if (!message.ok()) {
    verdict.message = "the code: " + message.status().message();
    return verdict;
  }
  const std::string key = draw_key();
  child->send(json_text({{"key", key}, {"tests", tests}}) + "\n");
  for (int64_t i = 0; i < verdict.total; ++i) {
    message = next_message(*child, deadline);
    if (message.ok() && message->value("key", "") != key) {
      message = invalid_argument("it wrote over its verdict");
    }
    const bool is_known = message.ok();
    if (is_known && (*message)["problem"] != "") {
      message = invalid_argument((*message)["problem"].get<std::string>());
    }
    if (!message.ok() && verdict.message.empty()) {
      verdict.message = "test " + std::to_string(i + 1) + ": " + message.status().message();
    }
    if (!is_known) return verdict;
    verdict.passed += message.ok() ? 1 : 0;
  }
  return verdict;
}

std::string find_code(std::string_view reply) {
  std::string_view code = reply;
  size_t at = 0;
  while (true) {
    const size_t open = reply.find("```", at);
    if (open == std::string_view::npos) break;
    const size_t begin = reply.find('\n', open);
    if (begin == std::string_view::npos) break;
    const size_t end = reply.find("```", begin);
    if (end == std::string_view::npos) break;
    code = reply.substr(begin + 1, end - begin - 1);
    at = end + 3;
  }
  return std::string(code);
}

}  // namespace mainspring
