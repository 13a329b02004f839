// Trainable: the parameters that learn, their gradients and their optimizer.
//
// The one idea: an adapter and a full set of weights are the same thing, named masters with an
// optimizer's states (engine/update.h) and one gradient accumulator per use in the graph.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/engine/average.h"
#include "mainspring/engine/engine.h"
#include "mainspring/engine/gradient_leaves.h"
#include "mainspring/engine/snapshot.h"
#include "mainspring/engine/update.h"
#include "mainspring/exec/executor.h"
#include "mainspring/nn/layers.h"
#include "mainspring/weights/parameter_set.h"

namespace mainspring {

struct Trainable {
  bool is_full = false;
  nn::AdapterSpec adapter;     // slot and prefix are set per program
  ParameterSet masters;        // by name: "model....weight" or "<module>.lora_A.weight"
  DType dtype = DType::kF32;   // of the masters
  uint64_t rounding_seed = 0;  // of bf16 masters
  ParameterSet grads;          // "<name>" for the first use, "<name>#1", ... for later ones
  int64_t step = 0;
  bool has_gradient = false;
  std::unique_ptr<GradientLeaves> leaves;
  Update update;
  int64_t version = 0;                      // changes of the masters so far
  std::weak_ptr<WeightSnapshot> snapshot;   // of this version, if it was asked for
  mutable std::optional<Digest128> digest;  // of this version, once computed
  Average average;                          // of the masters; empty: none is kept
  bool is_average = false;                  // of another: it has no gradients

  bool has_value_head() const { return masters.count(kValueHead) > 0; }
  /// How many uses a parameter has in the graph: 2 for a tied embedding, else 1.
  int64_t num_uses(const std::string& name) const;
};

/// A fresh adapter: A kaiming-uniform as PEFT's, in [-1/sqrt(in), 1/sqrt(in)], keyed by (seed,
/// module, element); B zero. Errors: invalid argument for an unknown target, rank < 1 or dropout
/// outside [0, 1).
Result<std::unique_ptr<Trainable>> make_lora(Executor& executor, const ModelConfig& config,
                                             const LoraOptions& options);

/// An adapter with given values, ranks and scales.
/// Errors: invalid argument for an unknown module, a missing half or a wrong shape.
Result<std::unique_ptr<Trainable>> make_adapter_trainable(Executor& executor,
                                                          const ModelConfig& config,
                                                          const Adapter& adapter,
                                                          uint64_t dropout_seed);

/// Masters of every weight of the model. Errors: invalid argument for another dtype than f32, bf16.
Result<std::unique_ptr<Trainable>> make_full(Executor& executor, const LoadedModel& model,
                                             const FullOptions& options);

/// To be called before the masters change, and after: what holds this version keeps it, and the
/// next begins. Errors: resource exhausted; the version goes on.
Status keep_version(Trainable& trainable);
void begin_version(Trainable& trainable);

/// Clears every accumulator.
void clear_gradients(Trainable& trainable);

}  // namespace mainspring
