// CodeTests: Python that a policy wrote, run against tests in a child process.
//
// The one idea: the child may compute and nothing else: no network, no further process, no change
// of files, bounded memory, CPU time and wall time; a verdict comes through a channel that is
// opened by a number the code has not seen, so leaving early is no way to pass. Not a wall against
// code that attacks the harness inside its own process on purpose.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

struct CodeLimits {
  double seconds = 5;  // of wall time, start included
  int64_t memory_bytes = int64_t{256} << 20;
};

struct CodeVerdict {
  int64_t passed = 0;
  int64_t total = 0;
  std::string message;  // why not all passed
};

class CodeTests {
 public:
  /// Errors: failed precondition if `python` does not run, or does under these limits what it must
  /// not: this is tried, not assumed.
  static Result<CodeTests> open(const std::string& python, const CodeLimits& limits);

  /// The same with another time.
  CodeTests with_seconds(double seconds) const;

  /// Runs `code`, then each test (statements that raise where they fail) in its names. Tests that
  /// were not reached in time count as failed. Threads: any.
  /// Errors: resource exhausted and such, where no child can be started.
  Result<CodeVerdict> run(const std::string& code, const std::vector<std::string>& tests) const;

 private:
  CodeTests(std::string python, const CodeLimits& limits)
      : python_(std::move(python)), limits_(limits) {}
  std::string python_;
  CodeLimits limits_;
};

/// The code within a reply: its last ``` block that is closed, or else the whole text.
std::string find_code(std::string_view reply);

}  // namespace mainspring
