// The avx512 path's linear kernels: 12 rows by 32 columns, 24 accumulators of the 32 registers.
#define MS_ISA_AVX512
#include "mainspring/exec/cpu/kernels/simd.h"
// (after simd.h)
#include "mainspring/exec/cpu/kernels/linear_impl.h"

namespace mainspring::cpu::avx512 {

const LinearTable& linear_table() {
  static constexpr LinearTable table = make_linear_table<12, 2, false>();
  return table;
}

}  // namespace mainspring::cpu::avx512
