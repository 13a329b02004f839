// The scalar path's linear kernels: tiles of 6 rows by 16 columns, the same text as AVX2.
#define MS_ISA_SCALAR
#include "mainspring/exec/cpu/kernels/simd.h"
// (after simd.h)
#include "mainspring/exec/cpu/kernels/linear_impl.h"

namespace mainspring::cpu::scalar {

const LinearTable& linear_table() {
  static constexpr LinearTable table = make_linear_table<6, 1, false>();
  return table;
}

}  // namespace mainspring::cpu::scalar
