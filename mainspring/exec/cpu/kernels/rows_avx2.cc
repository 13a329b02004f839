// The avx2 path's attention and row kernels: 8-lane vectors in twos.
#define MS_ISA_AVX2
#include "mainspring/exec/cpu/kernels/simd.h"
// (after simd.h)
#include "mainspring/exec/cpu/kernels/rows_impl.h"

namespace mainspring::cpu::avx2 {

const RowsTable& rows_table() {
  static constexpr RowsTable table = make_rows_table();
  return table;
}

}  // namespace mainspring::cpu::avx2
