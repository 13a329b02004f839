// The avx512 path's attention and row kernels: 16-lane vectors, bf16 products by two fma.
#define MS_ISA_AVX512
#include "mainspring/exec/cpu/kernels/simd.h"
// (after simd.h)
#include "mainspring/exec/cpu/kernels/rows_impl.h"

namespace mainspring::cpu::avx512 {

const RowsTable& rows_table() {
  static constexpr RowsTable table = make_rows_table();
  return table;
}

}  // namespace mainspring::cpu::avx512
