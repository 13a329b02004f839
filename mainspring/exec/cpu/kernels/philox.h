// base/philox.h on vectors: 16 counters at a time. Included by a path's unit after simd.h.
#pragma once

namespace mainspring::cpu::MS_ISA_NAMESPACE {
namespace {

struct Philox16 {
  I16 c[4];
};

/// 16 counters, each with its own key.
MS_INLINE Philox16 philox16(Philox16 x, I16 k0, I16 k1) {
  for (int round = 0; round < 10; ++round) {
    I16 low0, high0, low1, high1;
    imul_wide(x.c[0], 0xD2511F53u, low0, high0);
    imul_wide(x.c[2], 0xCD9E8D57u, low1, high1);
    x = {{ixor(ixor(high1, x.c[1]), k0), low1, ixor(ixor(high0, x.c[3]), k1), low0}};
    k0 = iadd(k0, iset(static_cast<int32_t>(0x9E3779B9u)));
    k1 = iadd(k1, iset(static_cast<int32_t>(0xBB67AE85u)));
  }
  return x;
}

}  // namespace
}  // namespace mainspring::cpu::MS_ISA_NAMESPACE
