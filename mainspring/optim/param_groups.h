// Parameter groups: which optimizer moves which parameter, at which rate and weight decay.
//
// The one idea: groups are tried in order and name their parameters by patterns; what no group
// takes is `rest`'s. A pattern that takes nothing is a mistake and is refused with the nearest
// name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainspring/optim/optimizer.h"

namespace mainspring {

struct ParamGroup {
  /// Names; '*' stands for any text. Empty only in OptimizerPlan::rest.
  std::vector<std::string> params;
  std::optional<OptimizerKind> optimizer;  // unset: as rest does; rest's: AdamW
  double lr_scale = 1.0;
  std::optional<float> weight_decay;  // unset: the step's
};

/// Factors of a parameter's own, beside those of its group.
struct ParamScale {
  double lr = 1.0;
  double weight_decay = 1.0;

  friend bool operator==(const ParamScale&, const ParamScale&) = default;
};

/// Muon as `rest` moves the hidden matrices, and AdamW the embedding, the head and the vectors. A
/// group that says Muon takes matrices only. AdamW with 8-bit states leaves parameters of fewer
/// than kFewestCoded elements to AdamW: there is little to save, and vectors matter most.
inline constexpr int64_t kFewestCoded = 4096;
struct OptimizerPlan {
  ParamGroup rest;
  std::vector<ParamGroup> groups;
  OptimizerSettings settings;
  std::map<std::string, ParamScale> scales;  // by parameter; absent: 1
};

/// One parameter's part in a plan.
struct ParamPlan {
  size_t group = 0;  // index into groups; groups.size(): rest
  OptimizerKind kind = OptimizerKind::kAdamw;
  ParamScale scale = {};

  friend bool operator==(const ParamPlan&, const ParamPlan&) = default;
};

/// The part of each parameter, in the order given; `dtype`: what they are kept in. Errors: invalid
/// argument for a pattern that takes no parameter, a group that earlier ones leave none, a vector
/// in a Muon group, a setting out of range, or an optimizer that needs f32 masters where there are
/// none.
Result<std::vector<ParamPlan>> assign_params(
    const OptimizerPlan& plan, const std::vector<std::pair<std::string, Shape>>& params,
    DType dtype = DType::kF32);

/// The group of a ParamPlan.
const ParamGroup& group_of(const OptimizerPlan& plan, const ParamPlan& part);

/// True if `pattern`, in which '*' stands for any text, is all of `name`.
bool matches_pattern(std::string_view pattern, std::string_view name);

}  // namespace mainspring
