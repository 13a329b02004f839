// SyscallFilter: what a child process may not ask of the kernel.
//
// The one idea: a list of refused system calls, installed by the child itself before it runs the
// program (seccomp), needs no privilege, holds for root too, and cannot be taken off again. A
// refused call fails with EPERM, so programs see an ordinary error. Not a wall against an attacker
// who knows kernel bugs: against code that a policy writes by chance.
#pragma once

#include <linux/filter.h>

#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

struct SyscallLimits {
  bool may_use_network = true;   // else no socket can be made; a connected pair can
  bool may_fork = true;          // else no further process; threads are free
  bool may_change_files = true;  // else nothing can be opened for writing, renamed or removed
};

/// The filter's program, empty if everything is allowed. With any limit, the child may also not
/// signal or trace others, raise its limits, mount, or make memory that outlives it.
/// Errors: unimplemented on processors other than x86-64.
Result<std::vector<sock_filter>> make_syscall_filter(const SyscallLimits& limits);

/// Installs it for the calling thread and what it will run. Only system calls are made: for use
/// between fork and exec. Returns 0 or errno.
int install_syscall_filter(const std::vector<sock_filter>& program) noexcept;

}  // namespace mainspring
