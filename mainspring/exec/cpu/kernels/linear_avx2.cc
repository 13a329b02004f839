// The avx2 path's linear kernels: 6 rows by 16 columns, 12 accumulators of the 16 registers.
#define MS_ISA_AVX2
#include "mainspring/exec/cpu/kernels/simd.h"
// (after simd.h)
#include "mainspring/exec/cpu/kernels/linear_impl.h"

namespace mainspring::cpu::avx2 {

const LinearTable& linear_table() {
  static constexpr LinearTable table = make_linear_table<6, 1, false>();
  return table;
}

}  // namespace mainspring::cpu::avx2
