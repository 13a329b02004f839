// Stored bytes to f64 and back: what each storage dtype means.
#pragma once

#include <cstdint>
#include <vector>

#include "mainspring/ir/dtype.h"

namespace mainspring::ref {

/// The first `elements` values of a tensor. Quantised blocks are dequantised in f32 and rounded to
/// bf16, which is the weight they stand for (docs/exactness.md, rule 17). `aux`: NF4 and int8 only
/// (exec/cpu/ops.h, WeightView); int8 has one for each `row_elements` values. Precondition: whole
/// blocks.
std::vector<double> decode(DType dtype, const void* data, const float* aux, int64_t elements,
                           int64_t row_elements = 1);

/// Rounds `values` to a plain dtype (f32, bf16, i32) and writes them.
void encode(DType dtype, const std::vector<double>& values, void* data);

}  // namespace mainspring::ref
