// Values of a stored matrix as floats, whatever it is stored as.
// Internal to exec/cpu.
#pragma once

#include <cstdint>

#include "mainspring/exec/cpu/kernels/linear_table.h"
#include "mainspring/exec/cpu/ops.h"

namespace mainspring::cpu {

/// Columns that load_values may start at and count in: whole blocks of every dtype, or halves of
/// those of 256.
inline constexpr int64_t kValueGrain = 128;

/// out[0, n) = row `row`, columns [column, column + n), before any rounding. `column` is a multiple
/// of kValueGrain for quantised dtypes, and n too or up to the row's end.
void load_values(const LinearKernels& kernels, const WeightView& weight, int64_t row,
                 int64_t column, int64_t n, float* out);

}  // namespace mainspring::cpu
