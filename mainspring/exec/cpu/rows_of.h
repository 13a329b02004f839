// The attention and row kernels of a context: its path, its compute dtype.
#pragma once

#include <cstdint>

#include "mainspring/exec/cpu/kernels/rows_table.h"
#include "mainspring/exec/cpu/kernels/table.h"
#include "mainspring/exec/cpu/ops.h"

namespace mainspring::cpu {

inline const RowKernels& rows_of(const Context& context) {
  return context.compute == DType::kBF16 ? context.kernels->rows->bf16 : context.kernels->rows->f32;
}

/// Bytes of one value of the compute dtype.
inline int64_t value_bytes(const Context& context) {
  return context.compute == DType::kBF16 ? 2 : 4;
}

/// Address of value i of an activation.
inline const void* value_at(const Context& context, const void* p, int64_t i) {
  return static_cast<const char*>(p) + i * value_bytes(context);
}
inline void* value_at(const Context& context, void* p, int64_t i) {
  return static_cast<char*>(p) + i * value_bytes(context);
}

}  // namespace mainspring::cpu
