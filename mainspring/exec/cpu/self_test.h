// The start-up test of a path: every kernel family against the scalar path, bit for bit.
// Internal to exec/cpu; choose_isa runs it.
#pragma once

#include <optional>
#include <string>

#include "mainspring/exec/cpu/kernels/table.h"

namespace mainspring::cpu {

/// What differs from the scalar path, or nothing. Costs a few milliseconds.
std::optional<std::string> self_test(const KernelTable& kernels);

/// Its part over kernels/linear_table.h.
std::optional<std::string> self_test_linear(const KernelTable& kernels);

/// Its part over kernels/rows_table.h.
std::optional<std::string> self_test_rows(const KernelTable& kernels);

}  // namespace mainspring::cpu
