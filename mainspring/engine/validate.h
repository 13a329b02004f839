// What the engine refuses before any work, each with the datum and the field.
#pragma once

#include "mainspring/base/status.h"
#include "mainspring/batch/datum.h"
#include "mainspring/engine/engine.h"
#include "mainspring/losses/losses.h"
#include "mainspring/weights/stored_tensor.h"

namespace mainspring {

/// Errors: invalid argument "datum 3: targets[7]: expected 0 <= id < 320, got 400".
Status validate_datum(const Datum& datum, size_t index, int64_t vocabulary, int64_t max_tokens,
                      const LossInfo& loss);

/// Errors: invalid argument naming the field.
Status validate_adamw(const AdamwOptions& options);

/// Same names, dtypes and shapes. Errors: invalid argument naming the first difference.
Status check_same_tensors(const TensorSet& expected, const TensorSet& got);

}  // namespace mainspring
