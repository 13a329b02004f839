// muP: how new weights and their rates follow width, so that the best learning rate does not.
//
// The one idea: each parameter has a class; in a model m times as wide as its base, the class says
// by what its first values, its rate and its weight decay differ from the base's. muP's multipliers
// (of attention scores and of logits) are carried by the weights just before them, the queries' and
// the last norm's, with their rates: under Adam that is the same training, and the model stays one
// that its family's class computes (docs/adr/0010). Not for optimizers but Adam's.
// Source: Yang et al. 2022, arXiv:2203.03466, table 8.
#pragma once

#include <cstdint>
#include <string_view>

#include "mainspring/models/config.h"

namespace mainspring {

struct MupOptions {
  int64_t base_hidden = 0;    // width at which muP changes nothing; 0: no muP
  int64_t base_head_dim = 0;  // head width of that base; 0: the model's own
};

/// What a parameter's class asks for.
///   fan_in:     d / base d if the matrix sums over the width, else 1
///   multiplier: of what the parameter gives, carried by its values
struct MupPart {
  double fan_in = 1.0;
  double multiplier = 1.0;

  /// Of the learning rate: multiplier / fan_in.
  double rate() const { return multiplier / fan_in; }
  /// Of the weight decay, whose pull per step is rate times decay: the same for every width.
  double decay() const { return fan_in / multiplier; }

  friend bool operator==(const MupPart&, const MupPart&) = default;
};

/// The part of one of model_parameters(config). Tables and biases have 1 and 1; hidden matrices
/// m = d / base d and 1; the last norm 1 and 1 / m; what scales the queries (q_norm where there is
/// one, else q_proj) has sqrt(base c / c) as its multiplier.
MupPart mup_part(const ModelConfig& config, const MupOptions& mup, std::string_view parameter);

}  // namespace mainspring
