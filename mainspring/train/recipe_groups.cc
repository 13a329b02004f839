#include "mainspring/train/recipe_groups.h"

#include <algorithm>

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
  return read_factor(entry.value, group.weight_decay.emplace());
}

// "recipe.toml:12:3: optim.groups"; a value of --set has the key in its place already.
std::string place(const ConfigValue& value) {
  return value.source.starts_with("--set ") ? value.source : value.where() + ": optim.groups";
}

std::string not_tables(const ConfigValue& value) {
  return place(value) +
         ": expected tables [[optim.groups]] with params, optimizer, lr_scale, "
         "weight_decay, got " +
         value_text(value);
}

std::string unknown_key(const ConfigEntry& entry, const std::string& which) {
  const std::string nearest = near_name(entry.key, group_keys());
  return place(entry.value) + ", " + which + ": unknown key \"" + entry.key + "\"" +
         (nearest.empty() ? "; there are params, optimizer, lr_scale, weight_decay"
                          : ", nearest is \"" + nearest + "\"");
}

// "" or the message.
std::string read_group(const ConfigValue& item, const std::string& which, GroupRecipe& group) {
  for (const ConfigEntry& entry : std::get<ConfigTable>(item.value)) {
    if (std::find(group_keys().begin(), group_keys().end(), entry.key) == group_keys().end())
      return unknown_key(entry, which);
    if (const std::string expected = read_entry(entry, group); !expected.empty()) {
      return place(entry.value) + ", " + which + ": " + entry.key + ": expected " + expected +
             ", got " + value_text(entry.value);
    }
  }
  if (!group.params.empty()) return "";
  return place(item) + ", " + which + ": params is missing: the names of its parameters";
}

}  // namespace

std::string read_groups(const ConfigValue& value, std::vector<GroupRecipe>& groups) {
  const auto* list = std::get_if<ConfigList>(&value.value);
  if (list == nullptr) return not_tables(value);
  std::vector<GroupRecipe> read;
  for (const ConfigValue& item : *list) {
    if (!item.is_table()) return not_tables(item);
    GroupRecipe group;
    const std::string which = "group " + std::to_string(read.size() + 1);
    if (std::string wrong = read_group(item, which, group); !wrong.empty()) return wrong;
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
