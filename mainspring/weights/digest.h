// The digest of a set of tensors: one name for a model's state.
#pragma once

#include "mainspring/io/checksum.h"
#include "mainspring/weights/stored_tensor.h"

namespace mainspring {

/// XXH3-128 over each tensor in name order: name, dtype, shape, aux and bytes, lengths included, so
/// that nothing can slide from one field into the next. Where the bytes lie does not enter. Cost:
/// one pass over the bytes, memory-bound.
Digest128 digest_of(const TensorSet& tensors);

}  // namespace mainspring
