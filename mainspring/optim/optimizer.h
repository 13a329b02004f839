// Optimizers as graph functions: what each keeps per parameter, its update, and a step's scalars.
//
// The one idea: an optimizer is one op that changes a parameter and its states in place, and up to
// eight scalars that the host works out for the step. Which parameter gets which is
// param_groups.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/tensor/tensor.h"

namespace mainspring {

enum class OptimizerKind : uint8_t { kAdamw, kMuon, kLion, kAdafactor, kAdamw8bit };

std::string_view optimizer_name(OptimizerKind kind);
std::vector<std::string> optimizer_names();
/// "adamw", "muon", "lion", "adafactor", "adamw8bit". Errors: invalid argument with the nearest
/// name.
Result<OptimizerKind> parse_optimizer(std::string_view name);

/// How Muon's rate depends on the (rows, columns) of the matrix.
enum class MuonScale : uint8_t {
  kMatchAdamw,  // 0.2 sqrt(max(rows, columns)): AdamW's rates and weight decay may be kept
  kOriginal,    // sqrt(max(1, rows / columns))
  kSpectral,    // sqrt(rows / columns)
};

/// Source: Jordan et al. 2024; Liu et al. 2025, arXiv:2502.16982; the definition is
/// torch.optim.Muon's.
struct MuonSettings {
  float momentum = 0.95f;
  bool nesterov = true;
  MuonScale scale = MuonScale::kMatchAdamw;
  DType products = DType::kBF16;  // of Newton-Schulz: kBF16 (as torch) or kF32
};

/// Source: Chen et al. 2023, arXiv:2302.06675.
struct LionSettings {
  float beta1 = 0.9f;
  float beta2 = 0.99f;
};

/// Source: Shazeer & Stern 2018, arXiv:1804.04235; the definition is torch.optim.Adafactor's.
struct AdafactorSettings {
  double beta2_decay = -0.8;  // the second moment's rate at step t is t^beta2_decay
  float eps2 = 1e-3f;         // least root mean square of the parameter that scales the rate
  float clip = 1.0f;          // largest root mean square of the direction
};

/// Source: Loshchilov & Hutter 2019, arXiv:1711.05101; the definition is PyTorch's.
struct AdamwSettings {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
};

struct OptimizerSettings {
  AdamwSettings adamw = {};
  MuonSettings muon = {};
  LionSettings lion = {};
  AdafactorSettings adafactor = {};
};

struct OptimizedParam {
  std::string name;
  Shape shape;
  /// Accumulators "grad/<name>", "grad/<name>#1", ..., added in order (rule 11).
  int64_t num_uses = 1;
  OptimizerKind kind = OptimizerKind::kAdamw;
  std::string scalars = "optim.scalars";  // the f32(8) input with the step's scalars
  MuonSettings muon = {};
  /// kBF16: there is no f32 master; the parameter, and moments that are not coded, are rounded by
  /// chance to bf16, keyed by this and the step.
  DType dtype = DType::kF32;
  uint64_t rounding_key = 0;
};
/// The i32(1) input with the number of the step, from 1, if any parameter is bf16.
inline constexpr const char* kStepInput = "optim.step";

/// Whether the optimizer can move a parameter that has no f32 master.
bool takes_bf16(OptimizerKind kind);

/// A state that an optimizer keeps for one parameter: "<prefix>/<parameter>", zero bytes at first.
struct OptimizerState {
  std::string prefix;  // "adam_m"
  Shape shape;
  DType dtype = DType::kF32;
};
/// Of a parameter kept in `dtype`.
std::vector<OptimizerState> optimizer_states(OptimizerKind kind, const Shape& shape,
                                             DType dtype = DType::kF32);

/// Traces the update of every param in place: states "<name>" and those of optimizer_states,
/// gradient states "grad/<name>", inputs OptimizedParam::scalars and kStepInput.
/// Errors: throws ShapeError if Muon gets no matrix.
void trace_updates(Tracer& tracer, const std::vector<OptimizedParam>& params);

/// The scalars of step t (from 1), in the order the op of `kind` reads them. Powers and roots are
/// taken in f64 by exact_pow, rounded once.
struct StepSettings {
  float lr = 1e-4f;
  float weight_decay = 0.0f;
  int64_t step = 1;
  float grad_scale = 1.0f;
};
using StepScalars = std::array<float, 8>;
StepScalars step_scalars(OptimizerKind kind, const OptimizerSettings& settings,
                         const StepSettings& step);

/// An exponential moving average of the weights: after step t
///   average += (1 - d) (weight - average),  d = decay, or with warm-up min(decay, (1 + t)/(10 +
///   t)),
/// so that the average of a short run is not its first weights.
/// Source: Polyak & Juditsky 1992; the warm-up is TensorFlow's (ExponentialMovingAverage,
/// num_updates).
struct EmaSettings {
  double decay = 0.999;  // in (0, 1)
  bool warmup = true;
};
/// 1 - d of step t (from 1): in f64, rounded once.
float ema_rate(const EmaSettings& settings, int64_t step);
/// Traces the average of every param: states "ema/<name>", f32, updated from "<name>"; input
/// kEmaRateInput f32(1).
inline constexpr const char* kEmaPrefix = "ema/";
inline constexpr const char* kEmaRateInput = "ema.rate";
void trace_ema(Tracer& tracer, const std::vector<OptimizedParam>& params);

/// Traces the sum of squares of all gradients, output "sum_of_squares" f32(1): blocks of (row,
/// K-chunk), tree over chunks, rows, then parameters in the order given (docs/exactness.md, rule
/// 15: name order).
void trace_sum_of_squares(Tracer& tracer, const std::vector<OptimizedParam>& params);

}  // namespace mainspring
