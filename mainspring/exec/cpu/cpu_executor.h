// CpuExecutor: the native executor: one instruction-set path, one thread pool, one arena.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/exec/executor.h"

namespace mainspring::cpu {

struct CpuExecutorOptions {
  int num_threads = 0;  // 0: the cores this process may use
  std::string isa;      // "": MS_ISA, else the fastest here that passes its self-test
};

/// Cores this process may use: affinity and the container's quota.
int available_cores();

/// `failures` (may be null) gets the paths that failed their self-test.
/// Errors: invalid argument for an unknown path; failed precondition if a forced one does not run
/// here.
Result<std::unique_ptr<Executor>> make_cpu_executor(const CpuExecutorOptions& options,
                                                    std::vector<std::string>* failures = nullptr);

}  // namespace mainspring::cpu
