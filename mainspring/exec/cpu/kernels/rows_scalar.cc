// The scalar path's attention and row kernels: the bit oracle.
#define MS_ISA_SCALAR
#include "mainspring/exec/cpu/kernels/simd.h"
// (after simd.h)
#include "mainspring/exec/cpu/kernels/rows_impl.h"

namespace mainspring::cpu::scalar {

const RowsTable& rows_table() {
  static constexpr RowsTable table = make_rows_table();
  return table;
}

}  // namespace mainspring::cpu::scalar
