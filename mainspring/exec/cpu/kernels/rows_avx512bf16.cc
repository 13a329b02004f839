// The avx512bf16 path's attention and row kernels: 16-lane vectors, bf16 products by vdpbf16ps.
#define MS_ISA_AVX512BF16
#include "mainspring/exec/cpu/kernels/simd.h"
// (after simd.h)
#include "mainspring/exec/cpu/kernels/rows_impl.h"

namespace mainspring::cpu::avx512bf16 {

const RowsTable& rows_table() {
  static constexpr RowsTable table = make_rows_table();
  return table;
}

}  // namespace mainspring::cpu::avx512bf16
