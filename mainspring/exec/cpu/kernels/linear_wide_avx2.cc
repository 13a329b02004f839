// For tests: the avx2 path with the tiles and layouts of the AVX-512 paths (12 x 32, A in pairs),
// so that their kernel text is exercised on processors without AVX-512.
#define MS_ISA_AVX2
#include "mainspring/exec/cpu/kernels/simd.h"
// (after simd.h)
#include "mainspring/exec/cpu/kernels/linear_impl.h"

namespace mainspring::cpu::avx2 {

const LinearTable& wide_linear_table() {
  static constexpr LinearTable table = make_linear_table<12, 2, true>();
  return table;
}

}  // namespace mainspring::cpu::avx2
