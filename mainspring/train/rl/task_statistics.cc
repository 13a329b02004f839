#include "mainspring/train/rl/task_statistics.h"

#include "mainspring/io/json.h"

namespace mainspring {

void TaskStatistics::add(const std::vector<RolloutGroup>& groups, double success_reward) {
  for (const RolloutGroup& group : groups) {
    if (counts_.size() >= kMostTasks && !counts_.contains(group.task)) continue;
    Counts& counts = counts_[group.task];
    for (const Trajectory& sample : group.samples) {
      if (!sample.is_ok()) continue;
      ++counts.attempts;
      if (sample.reward >= success_reward) ++counts.successes;
    }
  }
}

double TaskStatistics::uncertainty(const std::string& task) const {
  const auto found = counts_.find(task);
  const Counts counts = found == counts_.end() ? Counts() : found->second;
  const double p =
      static_cast<double>(counts.successes + 1) / static_cast<double>(counts.attempts + 2);
  return p * (1.0 - p);
}

std::string TaskStatistics::text() const {
  Json json = Json::object();
  for (const auto& [task, counts] : counts_) json[task] = {counts.attempts, counts.successes};
  return json_text(json);
}

Status TaskStatistics::restore(const std::string& text) {
  counts_.clear();
  if (text.empty()) return {};
  MS_ASSIGN_OR_RETURN(const Json json, parse_json(text, "task statistics"));
  MS_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::from(json, "task statistics"));
  for (const std::string& task : object.keys()) {
    MS_ASSIGN_OR_RETURN(const auto counts, object.get_ints(task));
    if (counts.size() != 2) return object.error(task, "expected attempts and successes");
    counts_[task] = {counts[0], counts[1]};
  }
  return {};
}

}  // namespace mainspring
