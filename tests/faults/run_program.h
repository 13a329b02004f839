// The program as a child process that may be killed.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace mainspring {

inline std::string program() {
  const char* binary_dir = std::getenv("MS_BINARY_DIR");
  return std::string(binary_dir != nullptr ? binary_dir : "build") + "/mainspring";
}

inline pid_t start_program(const std::string& dir, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    freopen((dir + "/out.txt").c_str(), "w", stdout);
    freopen((dir + "/err.txt").c_str(), "w", stderr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  return child;
}

/// Starts the program with these arguments, its output in files of `dir`, kills it after `kill_ms`
/// (never if < 0), and gives its exit status.
inline int run_program(const std::string& dir, std::vector<std::string> arguments, int kill_ms) {
  const pid_t child = start_program(dir, std::move(arguments));
  if (kill_ms >= 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kill_ms));
    kill(child, SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

/// The same, killed as soon as `is_time` says so.
inline int run_program_until(const std::string& dir, std::vector<std::string> arguments,
                             const std::function<bool()>& is_time) {
  const pid_t child = start_program(dir, std::move(arguments));
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (is_time()) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return status;
}

}  // namespace mainspring
