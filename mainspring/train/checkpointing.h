// Checkpointing: what of an engine and its data goes into a checkpoint, and back.
//
// The one idea: an adapter is saved as a PEFT folder and full weights as Hugging Face's
// model.safetensors, so a checkpoint is usable as it lies; moments sit beside them in
// optimizer.safetensors, the moving average under the weights' own names in ema.safetensors, a
// scalar head in value_head.safetensors.
#pragma once

#include <string>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/engine/engine.h"

namespace mainspring {

/// The file of a checkpoint that holds the moving average of the weights, if the run keeps one.
inline constexpr const char* kEmaFile = "ema.safetensors";

/// The tensors and texts of model `id` and `state`; tensors are the engine's own memory
/// (ckpt/writer.h says when they must not change).
Result<CheckpointContent> checkpoint_content(const Engine& engine, ModelId id, TrainState state);

/// Puts a checkpoint's tensors and optimizer step back. Errors: invalid argument naming a tensor
/// that does not fit the recipe.
Status restore_engine(Engine& engine, ModelId id, const Checkpoint& checkpoint);

}  // namespace mainspring
