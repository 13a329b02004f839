#include "mainspring/env/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "mainspring/env/python_program.h"
#include "mainspring/io/test_dir.h"

namespace mainspring {
namespace {

using testing::HasSubstr;

/// Lines of stdout of a Python program under limits.
std::string run_python(const std::string& program, ChildOptions options = {}) {
  static const std::string python = find_python("python3").value();
  options.command = {python, "-I", "-S", "-c", program};
  auto child = ChildProcess::start(options);
  if (!child.ok()) return child.status().message();
  (*child)->send_end();
  std::string all;
  std::string line;
  while ((*child)->read_line(line, deadline_in(60)) == ChildProcess::Read::kLine)
    all += line + "\n";
  (*child)->wait(deadline_in(60));
  all += (*child)->stop().to_string();
  const std::string errors = (*child)->error_tail();
  return errors.empty() ? all : all + "\n" + errors;
}

TEST(ChildProcess, SpeaksInLines) {
  auto child = ChildProcess::start({.command = {"cat"}});
  ASSERT_TRUE(child.ok());
  std::string line;
  // More than the pipes hold: writing goes on while reading.
  const std::string long_line(300000, 'x');
  (*child)->send("a\n\n" + long_line + "\nlast");
  (*child)->send_end();
  EXPECT_EQ((*child)->read_line(line, deadline_in(60)), ChildProcess::Read::kLine);
  EXPECT_EQ(line, "a");
  EXPECT_EQ((*child)->read_line(line, deadline_in(60)), ChildProcess::Read::kLine);
  EXPECT_EQ(line, "");
  EXPECT_EQ((*child)->read_line(line, deadline_in(60)), ChildProcess::Read::kLine);
  EXPECT_EQ(line, long_line);
  EXPECT_EQ((*child)->read_line(line, deadline_in(60)), ChildProcess::Read::kLine);
  EXPECT_EQ(line, "last");
  EXPECT_EQ((*child)->read_line(line, deadline_in(60)), ChildProcess::Read::kClosed);
  EXPECT_TRUE((*child)->wait(deadline_in(60)));
  EXPECT_EQ((*child)->end().to_string(), "exit status 0");
}

TEST(ChildProcess, EveryWaitEnds) {
  auto child = ChildProcess::start({.command = {"sleep", "1000"}});
  ASSERT_TRUE(child.ok());
  std::string line;
  EXPECT_EQ((*child)->read_line(line, deadline_in(0.02)), ChildProcess::Read::kTimeout);
  EXPECT_FALSE((*child)->wait(deadline_in(0.02)));
  EXPECT_EQ((*child)->stop().signal, SIGKILL);
  EXPECT_TRUE((*child)->end().was_stopped);
}

TEST(ChildProcess, StopEndsWhatItStarted) {
  auto child = ChildProcess::start({.command = {"sh", "-c", "sleep 1000 & echo $!; wait"}});
  ASSERT_TRUE(child.ok());
  std::string line;
  ASSERT_EQ((*child)->read_line(line, deadline_in(60)), ChildProcess::Read::kLine);
  const pid_t grandchild = std::stoi(line);
  EXPECT_EQ(::kill(grandchild, 0), 0);
  (*child)->stop();
  // Its end is told to the init process, which may take a moment to take it.
  const auto is_gone = [&] {
    std::ifstream stat("/proc/" + line + "/stat");
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    return text.empty() || text.find(") Z") != std::string::npos;
  };
  const Deadline deadline = deadline_in(10);
  while (!is_gone() && std::chrono::steady_clock::now() < deadline) ::usleep(1000);
  EXPECT_TRUE(is_gone());
}

TEST(ChildProcess, AProgramThatCannotRunIsNamed) {
  const auto child = ChildProcess::start({.command = {"no-such-program-here"}});
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(child.status().message(), HasSubstr("cannot run \"no-such-program-here\": No such"));
  const auto lost = ChildProcess::start({.command = {"true"}, .folder = "/no/such/folder"});
  ASSERT_FALSE(lost.ok());
  EXPECT_THAT(lost.status().message(), HasSubstr("enter the folder of"));
}

TEST(ChildProcess, WritingToOneThatIsGoneRaisesNoSignal) {
  auto child = ChildProcess::start({.command = {"true"}});
  ASSERT_TRUE(child.ok());
  ASSERT_TRUE((*child)->wait(deadline_in(60)));
  (*child)->send(std::string(1000000, 'x'));
  std::string line;
  EXPECT_EQ((*child)->read_line(line, deadline_in(60)), ChildProcess::Read::kClosed);
}

TEST(PythonProgram, IsFoundBehindItsNameOrRefused) {
  const Result<std::string> python = find_python("python3");
  ASSERT_TRUE(python.ok());
  EXPECT_EQ(python->front(), '/');
  EXPECT_EQ(find_python(*python).value(), *python);
  EXPECT_EQ(find_python("no-such-python").status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(find_python("false").status().message(), HasSubstr("is no Python that runs"));
}

TEST(ChildProcess, OurFilesStayOurs) {
  TestDir dir;
  std::ofstream open_file(dir.file("x"));
  EXPECT_EQ(run_python("import os; print(sorted(os.listdir('/proc/self/fd'))[:3] , "
                       "len(os.listdir('/proc/self/fd')))"),
            "['0', '1', '2'] 4\nexit status 0");  // the fourth is the listing's own
}

TEST(ChildProcess, EnvironmentIsReplacedByName) {
  ChildOptions options;
  options.environment = {"HOME=/nowhere", "MS_NEW=1"};
  const std::string program =
      "import os; print(os.environ['HOME'], os.environ['MS_NEW'], 'PATH' in os.environ)";
  EXPECT_EQ(run_python(program, options), "/nowhere 1 True\nexit status 0");
  ChildOptions bare;
  bare.environment = {"MS_NEW=1"};
  bare.keeps_environment = false;
  EXPECT_EQ(run_python("import os; print('HOME' in os.environ)", bare), "False\nexit status 0");
}

TEST(ChildProcess, MemoryIsLimited) {
  ChildOptions options;
  options.memory_bytes = int64_t{200} << 20;
  const std::string program = "x = bytearray(100 << 20); print('ok', flush=True); y = x + x";
  EXPECT_THAT(run_python(program, options),
              testing::AllOf(HasSubstr("ok\nexit status 1"), HasSubstr("MemoryError")));
}

TEST(ChildProcess, CpuTimeIsLimited) {
  ChildOptions options;
  options.cpu_seconds = 1;
  EXPECT_THAT(run_python("while True: pass", options), HasSubstr("signal"));
}

/// What the operation does: "allowed", or the error's name.
std::string attempt(const std::string& operation, const SyscallLimits& may) {
  ChildOptions options;
  options.may = may;
  const std::string output =
      run_python("import os, socket, threading, signal\ntry:\n  " + operation +
                     "\n  print('allowed')\nexcept Exception as e:\n  print(type(e).__name__)\n",
                 options);
  return output.substr(0, output.find('\n'));
}

TEST(SyscallFilter, RefusesTheNetworkOnRequest) {
  const std::string make_socket = "socket.socket(socket.AF_INET, socket.SOCK_STREAM)";
  EXPECT_EQ(attempt(make_socket, {}), "allowed");
  EXPECT_EQ(attempt(make_socket, {.may_use_network = false}), "PermissionError");
  EXPECT_EQ(attempt("socket.socket(socket.AF_UNIX)", {.may_use_network = false}),
            "PermissionError");
  EXPECT_EQ(attempt("socket.socketpair()", {.may_use_network = false}), "allowed");
}

TEST(SyscallFilter, RefusesProcessesButNotThreads) {
  const std::string fork = "os.fork() or os._exit(0)";
  EXPECT_EQ(attempt(fork, {}), "allowed");
  EXPECT_EQ(attempt(fork, {.may_fork = false}), "PermissionError");
  EXPECT_EQ(attempt("os.posix_spawn('/bin/true', ['true'], {})", {.may_fork = false}),
            "PermissionError");
  EXPECT_EQ(attempt("t = threading.Thread(target=print); t.start(); t.join(); assert not "
                    "t.is_alive()",
                    {.may_fork = false})
                .substr(0, 7),
            "");  // the thread printed an empty line
}

TEST(SyscallFilter, RefusesChangesOfFiles) {
  TestDir dir;
  const std::string kept = dir.write("kept", "x");
  const SyscallLimits may = {.may_change_files = false};
  EXPECT_EQ(attempt("open('" + kept + "').read()", may), "allowed");
  for (const std::string& operation :
       {"open('" + kept + "', 'w')", "open('" + kept + "', 'a')", "open('" + kept + "', 'r+')",
        "os.remove('" + kept + "')", "os.rename('" + kept + "', '" + kept + "2')",
        "os.chmod('" + kept + "', 0)", "os.truncate('" + kept + "', 0)",
        "os.mkdir('" + kept + "d')", "os.symlink('a', '" + kept + "s')"}) {
    EXPECT_EQ(attempt(operation, may), "PermissionError") << operation;
  }
  EXPECT_EQ(dir.read("kept"), "x");
}

TEST(SyscallFilter, RefusesSignalsAndHigherLimits) {
  const SyscallLimits may = {.may_fork = false};
  EXPECT_EQ(attempt("os.kill(os.getppid(), 0)", may), "PermissionError");
  EXPECT_EQ(attempt("os.kill(os.getppid(), 0)", {}), "allowed");
  EXPECT_EQ(attempt("import resource; resource.getrlimit(resource.RLIMIT_AS)", may), "allowed");
  EXPECT_NE(
      attempt("import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))", may),
      "allowed");
}

}  // namespace
}  // namespace mainspring
