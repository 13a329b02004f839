#include "mainspring/env/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "mainspring/env/rewards/answer_text.h"
#include "mainspring/io/system_error.h"

extern char** environ;

namespace mainspring {
namespace {

/// What the child does before it runs the program, and what went wrong. Filled by the parent, so
/// that the child only makes system calls; it shares our memory until then.
struct ChildPlan {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  const char* folder = nullptr;
  int input = -1;
  int output = -1;
  int errors = -1;
  rlim_t memory = 0;
  rlim_t cpu = 0;
  const std::vector<sock_filter>* filter = nullptr;
  bool dies_with_thread = false;
  const char* volatile failed_step = nullptr;
  volatile int failed_error = 0;
};

bool limit(__rlimit_resource resource, rlim_t value) noexcept {
  const rlimit bounds = {value, value};
  return ::setrlimit(resource, &bounds) == 0;
}

/// The steps up to exec; returns the name of the one that failed, with errno.
const char* become(const ChildPlan& plan) noexcept {
  ::setsid();
  if (plan.dies_with_thread && ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return "tie to its parent";
  if (::dup2(plan.input, 0) < 0 || ::dup2(plan.output, 1) < 0 || ::dup2(plan.errors, 2) < 0) {
    return "connect";
  }
  if (::syscall(SYS_close_range, 3, ~0u, 0) != 0) return "close files of";
  if (plan.folder != nullptr && ::chdir(plan.folder) != 0) return "enter the folder of";
  if (!limit(RLIMIT_CORE, 0)) return "limit core files of";
  if (plan.memory > 0 && !limit(RLIMIT_AS, plan.memory)) return "limit the memory of";
  if (plan.cpu > 0 && !limit(RLIMIT_CPU, plan.cpu)) return "limit the time of";
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (const int error = install_syscall_filter(*plan.filter); error != 0) {
    errno = error;
    return "install the filter of system calls (seccomp) of";
  }
  ::execvpe(plan.arguments[0], plan.arguments.data(), plan.environment.data());
  return "run";
}

/// vfork, not fork: a trainer's gigabytes of page tables are not copied for each child.
pid_t spawn(ChildPlan* plan) noexcept {
  const pid_t pid = ::vfork();
  if (pid != 0) return pid;
  const char* step = become(*plan);
  plan->failed_error = errno;
  plan->failed_step = step;
  ::_exit(127);
}

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

struct Pipes {
  std::array<int, 2> input{-1, -1};  // ours, theirs
  std::array<int, 2> output{-1, -1};
  std::array<int, 2> errors{-1, -1};

  ~Pipes() {
    for (auto* pair : {&input, &output, &errors}) {
      for (int& fd : *pair) close_fd(fd);
    }
  }
  bool open() {
    // A socket for stdin, because a write to it can be asked not to raise SIGPIPE.
    return ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input.data()) == 0 &&
           ::pipe2(output.data(), O_CLOEXEC) == 0 && ::pipe2(errors.data(), O_CLOEXEC) == 0;
  }
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

/// `extra`, and of our own environment what it does not name.
std::vector<std::string> joined_environment(const ChildOptions& options) {
  std::vector<std::string> all = options.environment;
  if (!options.keeps_environment) return all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const bool is_replaced =
        std::any_of(options.environment.begin(), options.environment.end(),
                    [&](const std::string& other) { return other.starts_with(name); });
    if (!is_replaced) all.emplace_back(text);
  }
  return all;
}

Status start_error(const ChildPlan& plan, const ChildOptions& options) {
  const int error = plan.failed_error;
  const std::string what = std::string("cannot ") + plan.failed_step + " \"" + options.command[0] +
                           "\": " + std::strerror(error);
  if (std::strcmp(plan.failed_step, "run") == 0) return invalid_argument(what);
  return failed_precondition(what);
}

/// Reads what is there; false at the end of the stream.
template <typename Take>
bool read_some(int fd, Take take) {
  char buffer[65536];
  const ssize_t got = ::read(fd, buffer, sizeof buffer);
  if (got > 0) take(std::string_view(buffer, static_cast<size_t>(got)));
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace

Deadline deadline_in(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(seconds));
}

std::string ChildEnd::to_string() const {
  if (!is_known) return "an unknown end";
  if (signal == 0) return "exit status " + std::to_string(exit_code);
  return "signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const ChildOptions& options) {
  if (options.command.empty() || options.command[0].empty()) {
    return invalid_argument("a child process needs a command");
  }
  MS_ASSIGN_OR_RETURN(const std::vector<sock_filter> filter, make_syscall_filter(options.may));
  Pipes pipes;
  if (!pipes.open()) return system_error("make pipes for", options.command[0], errno);
  const std::vector<std::string> environment = joined_environment(options);
  ChildPlan plan;
  plan.arguments = pointers(options.command);
  plan.environment = pointers(environment);
  plan.folder = options.folder.empty() ? nullptr : options.folder.c_str();
  plan.input = pipes.input[1];
  plan.output = pipes.output[1];
  plan.errors = pipes.errors[1];
  plan.memory = static_cast<rlim_t>(options.memory_bytes);
  plan.cpu = static_cast<rlim_t>(options.cpu_seconds);
  plan.filter = &filter;
  plan.dies_with_thread = options.dies_with_thread;

  // No handler of ours may run in the child while it shares our memory.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t pid = spawn(&plan);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return system_error("start a process for", options.command[0], error);
  if (plan.failed_step != nullptr) {
    ::waitpid(pid, nullptr, 0);
    return start_error(plan, options);
  }
  auto child = std::unique_ptr<ChildProcess>(new ChildProcess());
  child->pid_ = pid;
  std::swap(child->input_, pipes.input[0]);
  std::swap(child->output_, pipes.output[0]);
  std::swap(child->errors_, pipes.errors[0]);
  for (const int fd : {child->input_, child->output_, child->errors_}) {
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  return child;
}

ChildProcess::~ChildProcess() {
  stop();
  close_fd(input_);
  close_fd(output_);
  close_fd(errors_);
}

void ChildProcess::send(std::string_view text) {
  if (input_ >= 0) unsent_ += text;
}

void ChildProcess::send_end() {
  closes_input_ = true;
  if (unsent_.empty()) close_fd(input_);
}

bool ChildProcess::pump(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(
      deadline - std::chrono::steady_clock::now());
  // Rounded up, so that no wait ends just before the deadline and spins.
  const int64_t wait_ms = std::max<int64_t>(0, (left.count() + 999) / 1000);
  // What nobody reads is left in the pipe, which then stops the child.
  const bool takes_more = received_.size() <= kMaxLineBytes;
  std::array<pollfd, 3> fds = {{{takes_more ? output_ : -1, POLLIN, 0},
                                {errors_, POLLIN, 0},
                                {unsent_.empty() ? -1 : input_, POLLOUT, 0}}};
  const int ready =
      ::poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(wait_ms, 60000)));
  if (ready == 0) return std::chrono::steady_clock::now() < deadline;
  if (ready < 0) return true;  // interrupted
  if (fds[1].revents != 0) drain_errors();
  if (fds[0].revents != 0 &&
      !read_some(output_, [&](std::string_view bytes) { received_ += bytes; })) {
    close_fd(output_);
  }
  if (fds[2].revents != 0) {
    const ssize_t sent = ::send(input_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent > 0) unsent_.erase(0, static_cast<size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
      unsent_.clear();  // it reads no more; the end of stdout will tell
      close_fd(input_);
    }
    if (unsent_.empty() && closes_input_) close_fd(input_);
  }
  return true;
}

void ChildProcess::drain_errors() {
  const bool is_open = read_some(errors_, [&](std::string_view bytes) {
    error_tail_ += bytes;
    if (error_tail_.size() > kErrorTailBytes) {
      error_tail_.erase(0, error_tail_.size() - kErrorTailBytes);
    }
  });
  if (!is_open) close_fd(errors_);
}

ChildProcess::Read ChildProcess::read_line(std::string& line, Deadline deadline) {
  while (true) {
    const size_t end = received_.find('\n', scanned_);
    if (end != std::string::npos) {
      line = received_.substr(0, end);
      received_.erase(0, end + 1);
      scanned_ = 0;
      return Read::kLine;
    }
    scanned_ = received_.size();
    if (received_.size() > kMaxLineBytes) return Read::kTooLong;
    if (output_ < 0) {
      if (received_.empty()) return Read::kClosed;
      line = std::move(received_);
      received_.clear();
      scanned_ = 0;
      return Read::kLine;
    }
    if (!pump(deadline)) return Read::kTimeout;
  }
}

bool ChildProcess::try_reap() {
  if (is_reaped_) return true;
  siginfo_t info{};
  const int known = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (known == 0 && info.si_pid == 0) return false;
  if (known < 0 && errno == EINTR) return false;
  // Its group's number cannot be given to others before it is taken, so what it started and left
  // behind is ended first.
  ::kill(-pid_, SIGKILL);
  is_reaped_ = true;
  int status = 0;
  rusage usage{};
  if (::wait4(pid_, &status, 0, &usage) != pid_) return true;  // somebody else took it
  end_.is_known = true;
  end_.peak_bytes = int64_t{usage.ru_maxrss} * 1024;
  if (WIFEXITED(status)) end_.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end_.signal = WTERMSIG(status);
  return true;
}

bool ChildProcess::wait(Deadline deadline) {
  auto pause = std::chrono::microseconds(100);
  while (!try_reap()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return false;
    // Its pipes must not fill up while it ends; poll's wait is ours too.
    if (output_ >= 0 || errors_ >= 0) {
      pump(std::min(deadline, now + pause));
    } else {
      std::this_thread::sleep_for(pause);
    }
    pause = std::min(pause * 2, std::chrono::microseconds(5000));
  }
  return true;
}

const ChildEnd& ChildProcess::stop() {
  if (try_reap()) return end_;
  end_.was_stopped = true;
  ::kill(-pid_, SIGKILL);
  // A killed process ends at once unless the kernel holds it, for which nobody waits for ever.
  wait(deadline_in(5));
  return end_;
}

std::string ChildProcess::error_tail() {
  while (errors_ >= 0) {
    pollfd fd = {errors_, POLLIN, 0};
    if (::poll(&fd, 1, 0) <= 0) break;
    drain_errors();
  }
  return std::string(trimmed(error_tail_));
}

}  // namespace mainspring
