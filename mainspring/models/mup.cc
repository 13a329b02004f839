#include "mainspring/models/mup.h"

#include <cmath>

namespace mainspring {
namespace {

/// Of queries: scores are q.k / sqrt(c) in the graph and q.k / c in muP, alike at the base.
double query_multiplier(const ModelConfig& config, const MupOptions& mup) {
  if (mup.base_head_dim == 0) return 1.0;
  return std::sqrt(static_cast<double>(mup.base_head_dim) / static_cast<double>(config.head_width));
}

/// Scales the queries: a gain of their norm undoes what comes before it.
bool scales_queries(const ModelConfig& config, std::string_view name) {
  if (config.qk_norm) return name.ends_with(".self_attn.q_norm.weight");
  return name.find(".self_attn.q_proj.") != std::string_view::npos;
}

}  // namespace

MupPart mup_part(const ModelConfig& config, const MupOptions& mup, std::string_view parameter) {
  MupPart part;
  if (mup.base_hidden == 0) return part;
  const double m = static_cast<double>(config.d) / static_cast<double>(mup.base_hidden);
  if (parameter.ends_with("_proj.weight")) part.fan_in = m;
  if (parameter.starts_with("model.norm.")) part.multiplier = 1.0 / m;
  if (scales_queries(config, parameter)) part.multiplier = query_multiplier(config, mup);
  return part;
}

}  // namespace mainspring
