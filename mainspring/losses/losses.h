// Losses by name: arithmetic over log-probabilities, summed.
//
// The one idea: a loss is one table row (losses.cc) and one function, which either traces its
// per-token part into the graph or is an objective over log-probabilities (objective.h); the engine
// sums, and the normaliser divides once in optim_step (docs/exactness.md, rule 13).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/losses/objective.h"
#include "mainspring/tensor/tensor.h"

namespace mainspring {

/// What a loss sees: log-probabilities f32(picked), the logs of their normalisers, and its
/// per-token inputs, f32(picked) each.
struct LossInputs {
  Tensor logprob;
  Tensor lse;                  // f32(picked): log sum exp of the logits
  std::vector<Tensor> inputs;  // in the order of LossInfo::inputs
};

struct LossInfo {
  std::string_view name;
  /// Per-token inputs by name; "weights" is Datum::weights, others come from Datum::inputs.
  std::span<const std::string_view> inputs;
  Tensor (*trace)(const LossInputs& inputs) = nullptr;  // the loss of each token, f32(picked)
  Objective objective = nullptr;                        // where nothing is traced
  LossScope scope = LossScope::kToken;                  // of the objective
  std::span<const LossSetting> settings = {};
  /// Per-token inputs that a datum may have.
  std::span<const std::string_view> optional_inputs = {};
  bool reads_candidates = false;  // an objective: Datum::candidates with their weights
};

/// A loss as a caller asks for it.
struct LossCall {
  std::string name;
  LossSettings settings;

  LossCall(const char* loss) : name(loss) {}
  LossCall(std::string_view loss) : name(loss) {}
  LossCall(std::string loss, LossSettings values)
      : name(std::move(loss)), settings(std::move(values)) {}
};

std::span<const LossInfo> loss_table();

/// Errors: invalid argument with the nearest known name.
Result<const LossInfo*> find_loss(std::string_view name);

/// All settings of `loss`: those given, else the defaults. Errors: invalid argument for an unknown
/// name (with the nearest) or a value outside the bounds.
Result<LossSettings> complete_settings(const LossInfo& loss, const LossSettings& given);

/// Per token: -weights_t * logprob_t.
Tensor cross_entropy(const LossInputs& inputs);

/// Per token: -weights_t * logprob_t + z_weights_t * lse_t^2. The second term keeps the softmax's
/// normaliser near one. Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, section 5.
Tensor cross_entropy_z(const LossInputs& inputs);

}  // namespace mainspring
