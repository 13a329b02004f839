// The model in training as a sampler sees it: the trainer's own buffers, so weights exist once.
#pragma once

#include "mainspring/engine/engine.h"
#include "mainspring/sample/forward_model.h"

namespace mainspring {

/// The base with the adapter `id`, or the full masters of `id`. `base` is filled with what the
/// result points to; it and the engine outlive the result's users. A sampler of it is told of
/// every update (Sampler::set_weight_version).
Result<ForwardModel> live_model(Engine& engine, ModelId id, ParameterSet& base);

}  // namespace mainspring
