// Stored tensors as floats: the plain, scalar meaning of every storage dtype.
//
// The one idea: a quantised weight stands for a bf16 number (docs/exactness.md, rule 17); this is
// that number, by the same f32 operations in the same order as exec/cpu, one at a time and never
// fused:
//   Q4_0  (q - 8) * d      Q4_1, Q5_1  q * d + m      Q5_0  (q - 16) * d      Q8_0  q * d
//   Q4_K, Q5_K  q * (d * s) - (dmin * t)              Q6_K  (q - 32) * (d * s)
//   NF4   see nf4.h                                   Int8  q * (f32 scale of the row)
// with d, dmin and m halves widened exactly, s and t a group's small integers, then rounded to bf16
// (base/f16.h, base/bf16.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/weights/stored_tensor.h"

namespace mainspring {

/// Rows of a tensor: every dimension but the last, multiplied; 1 for a scalar.
int64_t num_rows(const StoredTensor& tensor);
/// The last dimension; 1 for a scalar.
int64_t row_elements(const StoredTensor& tensor);

/// Row `row` as f32: f32 as it is, f16 and bf16 widened, quantised as above. `out` (row_elements).
/// Precondition: a float or quantised dtype whose blocks do not cross rows.
void read_row_f32(const StoredTensor& tensor, int64_t row, float* out);

/// All values, as read_row_f32.
std::vector<float> read_f32(const StoredTensor& tensor);

/// A tensor of the same name and shape in memory of its own, holding `values` rounded to `dtype`
/// (kF32, kF16 or kBF16; nearest even, to infinity beyond the largest half).
StoredTensor make_tensor(const std::string& name, std::vector<int64_t> shape, DType dtype,
                         const std::vector<float>& values);

/// The tensor in kF32, kF16 or kBF16: itself if it already is, else a copy.
StoredTensor to_dtype(const StoredTensor& tensor, DType dtype);

/// The set in kF32, kF16 or kBF16, tensor by tensor.
TensorSet to_dtype(const TensorSet& tensors, DType dtype);

}  // namespace mainspring
