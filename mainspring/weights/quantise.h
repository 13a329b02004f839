// Quantisation of weights to GGUF's blocks, to NF4 and to int8 rows.
//
// The one idea: plain f32 arithmetic, value by value in order, so the same weights give the same
// bytes on every machine. Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 give the bytes of llama.cpp's reference
// quantiser. Int8 is symmetric, a row at a time: scale = largest magnitude / 127 (one f32), code =
// value / scale rounded to the nearest integer, ties to even.
#pragma once

#include "mainspring/base/status.h"
#include "mainspring/weights/stored_tensor.h"

namespace mainspring {

/// `tensor` (f32, f16 or bf16) as kInt8 or in blocks of kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0 or kNF4
/// (weights/nf4.h), in memory of its own. Cost: one pass (NF4: two) over the values, a row at a
/// time. Errors: invalid argument with the tensor's name if its rows are no whole number of blocks
/// or a value is not finite; unimplemented if it is quantised already or holds integers, or to
/// blocks of 256.
Result<StoredTensor> quantise(const StoredTensor& tensor, DType dtype);

/// QLoRA's base: every linear of a layer ("*_proj.weight") quantised; embedding, head, norms and
/// biases, and what is quantised already, as they are. Errors: as quantise.
Result<TensorSet> quantise_linears(const TensorSet& tensors, DType dtype);

}  // namespace mainspring
