// The avx512bf16 path's linear kernels: 12 rows by 32 columns over vdpbf16ps.
#define MS_ISA_AVX512BF16
#include "mainspring/exec/cpu/kernels/simd.h"
// (after simd.h)
#include "mainspring/exec/cpu/kernels/linear_impl.h"

namespace mainspring::cpu::avx512bf16 {

const LinearTable& linear_table() {
  static constexpr LinearTable table = make_linear_table<12, 2, true>();
  return table;
}

}  // namespace mainspring::cpu::avx512bf16
