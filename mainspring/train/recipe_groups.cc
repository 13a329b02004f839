#include "mainspring/train/recipe_groups.h"

#include "mainspring/base/nearest.h"
#include "mainspring/io/json.h"
#include "mainspring/optim/optimizer.h"
#include "mainspring/train/recipe_text.h"

namespace mainspring {
namespace {

const std::vector<std::string>& group_keys() {
  static const std::vector<std::string> keys{"params", "optimizer", "lr_scale", "weight_decay"};
  return keys;
}

std::string read_names(const ConfigValue& value, std::vector<std::string>& names) {
  if (const auto* one = std::get_if<std::string>(&value.value)) {
    names = {*one};
    return "";
  }
  const auto* list = std::get_if<ConfigList>(&value.value);
  if (list == nullptr || list->empty()) return "a name or a list of names";
  for (const ConfigValue& item : *list) {
    const auto* name = std::get_if<std::string>(&item.value);
    if (name == nullptr) return "a name or a list of names";
    names.push_back(*name);
  }
  return "";
}

std::string read_optimizer(const ConfigValue& value, std::string& optimizer) {
  const auto* name = std::get_if<std::string>(&value.value);
  std::string list;
  for (const std::string& known : optimizer_names()) {
    if (name != nullptr && *name == known) {
      optimizer = *name;
      return "";
    }
    list += (list.empty() ? "\"" : " | \"") + known + "\"";
  }
  const std::string nearest = name == nullptr ? "" : near_name(*name, optimizer_names());
  return nearest.empty() ? list : list + " (nearest is \"" + nearest + "\")";
}

std::string read_factor(const ConfigValue& value, double& factor) {
  double number = -1;
  if (const auto* f = std::get_if<double>(&value.value)) number = *f;
  if (const auto* i = std::get_if<int64_t>(&value.value)) number = static_cast<double>(*i);
  if (!(number >= 0 && number < 1e30)) return "a number >= 0";
  factor = number;
  return "";
}

std::string read_entry(const ConfigEntry& entry, GroupRecipe& group) {
  if (entry.key == "params") return read_names(entry.value, group.params);
  if (entry.key == "optimizer") return read_optimizer(entry.value, group.optimizer);
  if (entry.key == "lr_scale") return read_factor(entry.value, group.lr_scale);
  if (entry.key == "weight_decay") return read_factor(entry.value, group.weight_decay.emplace());
  return "one of params, optimizer, lr_scale, weight_decay (nearest is \"" +
         nearest_name(entry.key, group_keys()) + "\")";
}

std::string place(const ConfigValue& value) {
  return value.line == 0 ? "" : "line " + std::to_string(value.line) + ": ";
}

}  // namespace

std::string read_groups(const ConfigValue& value, std::vector<GroupRecipe>& groups) {
  const std::string kWhat = "a list of tables {params, optimizer, lr_scale, weight_decay}";
  const auto* list = std::get_if<ConfigList>(&value.value);
  if (list == nullptr) return kWhat;
  std::vector<GroupRecipe> read;
  for (const ConfigValue& item : *list) {
    const auto* table = std::get_if<ConfigTable>(&item.value);
    if (table == nullptr) return kWhat;
    GroupRecipe group;
    for (const ConfigEntry& entry : *table) {
      if (const std::string expected = read_entry(entry, group); !expected.empty()) {
        return kWhat + "; " + place(entry.value) + entry.key + ": " + expected;
      }
    }
    if (group.params.empty()) return kWhat + "; " + place(item) + "params is missing";
    read.push_back(std::move(group));
  }
  groups = std::move(read);
  return "";
}

Json groups_json(const std::vector<GroupRecipe>& groups) {
  Json list = Json::array();
  for (const GroupRecipe& group : groups) {
    Json json;
    json["params"] = group.params;
    if (!group.optimizer.empty()) json["optimizer"] = group.optimizer;
    json["lr_scale"] = group.lr_scale;
    if (group.weight_decay.has_value()) json["weight_decay"] = *group.weight_decay;
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace mainspring
