#include "mainspring/optim/param_groups.h"

#include <algorithm>
#include <cmath>

#include "mainspring/base/nearest.h"

namespace mainspring {
namespace {

// Matrices that look rows up or give logits: their rows are tokens or positions.
bool is_table(std::string_view name) {
  for (const std::string_view end :
       {"embed_tokens.weight", "embed_positions.weight", "lm_head.weight"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

Status check_range(const std::string& what, double value, double low, double high) {
  if (value >= low && value <= high) return {};  // false for NaN
  return invalid_argument(what + ": expected a number from " + std::to_string(low) + " to " +
                          std::to_string(high) + ", got " + std::to_string(value));
}

Status check_settings(const OptimizerPlan& plan) {
  constexpr double kBelowOne = 0.9999999;
  constexpr double kMany = 1e30;
  const auto f64 = [](float x) { return static_cast<double>(x); };
  const OptimizerSettings& s = plan.settings;
  MS_RETURN_IF_ERROR(check_range("muon momentum", f64(s.muon.momentum), 0, kBelowOne));
  MS_RETURN_IF_ERROR(check_range("lion beta1", f64(s.lion.beta1), 0, kBelowOne));
  MS_RETURN_IF_ERROR(check_range("lion beta2", f64(s.lion.beta2), 0, kBelowOne));
  MS_RETURN_IF_ERROR(check_range("adafactor beta2_decay", s.adafactor.beta2_decay, -10, 0));
  MS_RETURN_IF_ERROR(check_range("adafactor eps2", f64(s.adafactor.eps2), 0, kMany));
  MS_RETURN_IF_ERROR(check_range("adafactor clip", f64(s.adafactor.clip), 1, kMany));
  for (size_t i = 0; i <= plan.groups.size(); ++i) {
    const ParamGroup& group = group_of(plan, {.group = i});
    MS_RETURN_IF_ERROR(check_range("lr_scale of a group", group.lr_scale, 0, kMany));
    MS_RETURN_IF_ERROR(
        check_range("weight_decay of a group", f64(group.weight_decay.value_or(0.0f)), 0, kMany));
  }
  return {};
}

bool takes(const ParamGroup& group, std::string_view name) {
  for (const std::string& pattern : group.params) {
    if (matches_pattern(pattern, name)) return true;
  }
  return false;
}

// Every pattern matches a parameter, be it one that an earlier group has taken.
Status check_patterns(const OptimizerPlan& plan,
                      const std::vector<std::pair<std::string, Shape>>& params) {
  for (const ParamGroup& group : plan.groups) {
    if (group.params.empty()) return invalid_argument("a parameter group without names");
    for (const std::string& pattern : group.params) {
      std::vector<std::string> names;
      bool found = false;
      for (const auto& [name, shape] : params) {
        found = found || matches_pattern(pattern, name);
        names.push_back(name);
      }
      if (found) continue;
      return invalid_argument("no parameter is named \"" + pattern + "\", nearest is \"" +
                              nearest_name(pattern, names) + "\"");
    }
  }
  return {};
}

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "\"" : ", \"") + name + "\"";
  return list;
}

// A group behind others that leave it nothing would be without effect.
Status check_shadowed(const OptimizerPlan& plan, const std::vector<ParamPlan>& parts,
                      const std::vector<std::pair<std::string, Shape>>& params) {
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const auto is_own = [g](const ParamPlan& part) { return part.group == g; };
    if (std::any_of(parts.begin(), parts.end(), is_own)) continue;
    size_t taker = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (takes(plan.groups[g], params[i].first)) taker = parts[i].group;
    }
    return invalid_argument("group " + std::to_string(g + 1) + " (params " +
                            list_of(plan.groups[g].params) + ") takes nothing: group " +
                            std::to_string(taker + 1) + " (params " +
                            list_of(plan.groups[taker].params) +
                            ") stands before it and takes all that it names; put the narrower one "
                            "first");
  }
  return {};
}

Result<OptimizerKind> kind_for(const OptimizerPlan& plan, const ParamPlan& part,
                               const std::string& name, const Shape& shape) {
  const OptimizerKind rest = plan.rest.optimizer.value_or(OptimizerKind::kAdamw);
  const bool is_named = part.group < plan.groups.size() && group_of(plan, part).optimizer;
  const OptimizerKind kind = is_named ? *group_of(plan, part).optimizer : rest;
  if (kind == OptimizerKind::kAdamw8bit && shape.num_elements({}) < kFewestCoded) {
    return OptimizerKind::kAdamw;
  }
  if (kind != OptimizerKind::kMuon) return kind;
  if (!is_named) {
    return shape.rank() == 2 && !is_table(name) ? OptimizerKind::kMuon : OptimizerKind::kAdamw;
  }
  if (shape.rank() == 2) return OptimizerKind::kMuon;
  return invalid_argument("muon moves matrices, " + name + " is " + shape.to_string() +
                          ": give it a group of its own");
}

}  // namespace

const ParamGroup& group_of(const OptimizerPlan& plan, const ParamPlan& part) {
  return part.group < plan.groups.size() ? plan.groups[part.group] : plan.rest;
}

Result<std::vector<ParamPlan>> assign_params(
    const OptimizerPlan& plan, const std::vector<std::pair<std::string, Shape>>& params,
    DType dtype) {
  MS_RETURN_IF_ERROR(check_settings(plan));
  MS_RETURN_IF_ERROR(check_patterns(plan, params));
  std::vector<ParamPlan> parts;
  for (const auto& [name, shape] : params) {
    ParamPlan part;
    while (part.group < plan.groups.size() && !takes(plan.groups[part.group], name)) ++part.group;
    MS_ASSIGN_OR_RETURN(part.kind, kind_for(plan, part, name, shape));
    if (dtype == DType::kBF16 && !takes_bf16(part.kind)) {
      return invalid_argument(std::string(optimizer_name(part.kind)) +
                              " needs f32 masters, and the weights are kept in bf16 (" + name +
                              ")");
    }
    if (const auto scale = plan.scales.find(name); scale != plan.scales.end())
      part.scale = scale->second;
    parts.push_back(part);
  }
  MS_RETURN_IF_ERROR(check_shadowed(plan, parts, params));
  return parts;
}

bool matches_pattern(std::string_view pattern, std::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;  // the last '*' met, and the name's place when it was
  size_t mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace mainspring
