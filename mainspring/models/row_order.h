// The order of the rows of q and k in llama.cpp's llama architecture.
//
// The one idea: Hugging Face has rows i and i + c/2 of a head as a rotary pair, llama.cpp side by
// side; both directions are one permutation of whole rows, so quantised ones too.
#pragma once

#include <cstdint>

#include "mainspring/weights/stored_tensor.h"

namespace mainspring {

/// A copy with the rows of each rotary pair side by side. Shape: (heads * head_width, ...).
StoredTensor with_adjacent_pairs(const StoredTensor& tensor, int64_t head_width);
/// The inverse.
StoredTensor with_split_pairs(const StoredTensor& tensor, int64_t head_width);

}  // namespace mainspring
