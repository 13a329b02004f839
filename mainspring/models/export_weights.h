// What both kinds of export do with a tensor before it is written. Internal to models/.
#pragma once

#include "mainspring/base/status.h"
#include "mainspring/models/adapter.h"
#include "mainspring/models/loaded_model.h"

namespace mainspring {

/// Replacement weights must be tensors of the model. Null: none. Errors: invalid argument.
Status check_export_weights(const LoadedModel& model, const TensorSet* weights);

/// The model's tensor `own`, or what replaces it, with the adapter merged into it if it targets it.
StoredTensor exported_tensor(const StoredTensor& own, const TensorSet* weights,
                             const Adapter* adapter);

}  // namespace mainspring
