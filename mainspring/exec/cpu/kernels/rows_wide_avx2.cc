// For tests: the avx2 path with the tiles and layouts of the AVX-512 paths (6 rows x 4 panels, left
// operands in pairs), so that their kernel text is exercised on processors without AVX-512.
#define MS_ISA_AVX2
#define MS_PAIR_LEFT
#define MS_WIDE_TILES
#include "mainspring/exec/cpu/kernels/simd.h"

// A namespace of its own, which sees the path's vectors: the texts differ from those of
// rows_avx2.cc.
#undef MS_ISA_NAMESPACE
#define MS_ISA_NAMESPACE avx2::wide
namespace mainspring::cpu::avx2::wide {
using namespace mainspring::cpu::avx2;
}
#include "mainspring/exec/cpu/kernels/rows_impl.h"

namespace mainspring::cpu::avx2 {

const RowsTable& wide_rows_table() {
  static constexpr RowsTable table = wide::make_rows_table();
  return table;
}

}  // namespace mainspring::cpu::avx2
