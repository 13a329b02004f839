// All kernels of one instruction-set path.
#pragma once

#include "mainspring/exec/cpu/isa.h"
#include "mainspring/exec/cpu/kernels/linear_table.h"

namespace mainspring::cpu {

struct RowsTable;  // kernels/rows_table.h: attention, norms, elementwise, head, optimizer

struct KernelTable {
  Isa isa = Isa::kScalar;
  const LinearTable* linear = nullptr;
  const RowsTable* rows = nullptr;
};

/// The path's table, whether this processor can run it or not.
const KernelTable& kernel_table(Isa isa);

}  // namespace mainspring::cpu
