// What this machine reaches at best: the two ceilings of a roofline, measured.
#pragma once

#include "mainspring/exec/cpu/ops.h"

namespace mainspring::cpu {

/// FLOP/s of the calling thread running `count` of the path's largest bf16 tiles on operands in the
/// first-level cache; some 5 us a tile.
double time_tiles(const KernelTable& table, int count);

/// FLOP/s of all threads running the path's largest bf16 tile on operands in the first-level cache:
/// what no packing, memory or tree is taken from. The best of a few rounds; some 50 ms.
double measure_peak_flops(const Context& context);

/// Bytes/s of all threads at a[i] = b[i] + s c[i] (STREAM triad) over three arrays of 64 MiB: two
/// reads and a write an element, what the write reads first not counted. The best of a few rounds.
double measure_memory_bandwidth(const Context& context);

}  // namespace mainspring::cpu
