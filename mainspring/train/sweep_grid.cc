#include "mainspring/train/sweep_grid.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include "mainspring/io/checksum.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/run/run_folder.h"
#include "mainspring/train/recipe_text.h"

namespace mainspring {
namespace {

constexpr size_t kMaxFolderBytes = 90;
constexpr size_t kMaxLabel = 40;

const std::vector<std::string>& grid_keys() {
  static const std::vector<std::string> keys{"recipe", "title", "metric", "set", "grid", "zip"};
  return keys;
}

// One key of an axis with its values.
struct Column {
  std::string key;
  std::vector<ConfigValue> values;
  ConfigValue list;  // for its place
};

// The columns of an axis are equally long.
using Axis = std::vector<Column>;

struct Grid {
  std::string recipe;
  std::string title;
  std::string metric = "eval_loss";
  ConfigTable fixed;  // of [set], keys as "optim.lr"
  std::vector<Axis> axes;
};

Status wrong(const ConfigValue& value, const std::string& what) {
  return invalid_argument(value.where() + ": " + what);
}

// "a.b.c" for the values of nested tables.
void flatten(const ConfigTable& table, const std::string& prefix, ConfigTable& flat) {
  for (const auto& [name, value] : table) {
    if (value.is_table())
      flatten(std::get<ConfigTable>(value.value), prefix + name + ".", flat);
    else
      flat.push_back({prefix + name, value});
  }
}

bool is_number(const ConfigValue& value) {
  return std::holds_alternative<int64_t>(value.value) ||
         std::holds_alternative<double>(value.value);
}

double number_of(const ConfigValue& value) {
  const auto* i = std::get_if<int64_t>(&value.value);
  return i != nullptr ? static_cast<double>(*i) : std::get<double>(value.value);
}

// 1 and 1.0 are one value.
bool is_same(const ConfigValue& a, const ConfigValue& b) {
  if (is_number(a) && is_number(b)) return number_of(a) == number_of(b);
  if (a.value.index() != b.value.index()) return false;
  if (const auto* list = std::get_if<ConfigList>(&a.value)) {
    const auto& other = std::get<ConfigList>(b.value);
    return std::equal(list->begin(), list->end(), other.begin(), other.end(), is_same);
  }
  if (const auto* table = std::get_if<ConfigTable>(&a.value)) {
    const auto& other = std::get<ConfigTable>(b.value);
    return std::equal(table->begin(), table->end(), other.begin(), other.end(),
                      [](const ConfigEntry& x, const ConfigEntry& y) {
                        return x.key == y.key && is_same(x.value, y.value);
                      });
  }
  return value_text(a) == value_text(b);
}

Result<Column> read_column(const ConfigEntry& entry, const std::string& where) {
  const auto* list = std::get_if<ConfigList>(&entry.value.value);
  if (list == nullptr) {
    return wrong(entry.value, where + entry.key + ": expected a list of values, got " +
                                  value_text(entry.value) +
                                  "; one value for all points belongs into [set]");
  }
  if (list->empty()) {
    return wrong(entry.value, where + entry.key +
                                  ": the list is empty; give it a value, or leave "
                                  "the key out");
  }
  return Column{entry.key, *list, entry.value};
}

Status check_distinct(const Axis& axis) {
  const size_t n = axis[0].values.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < i; ++j) {
      const bool same = std::all_of(axis.begin(), axis.end(), [&](const Column& column) {
        return is_same(column.values[i], column.values[j]);
      });
      if (!same) continue;
      std::string text;
      for (const Column& column : axis) {
        text += (text.empty() ? "" : ", ") + column.key + " = " + value_text(column.values[i]);
      }
      return wrong(axis[0].values[i], text + " stands there twice, as values " +
                                          std::to_string(j + 1) + " and " + std::to_string(i + 1));
    }
  }
  return {};
}

Result<Axis> read_zip(const ConfigValue& table) {
  ConfigTable flat;
  flatten(std::get<ConfigTable>(table.value), "", flat);
  if (flat.empty()) return wrong(table, "[[zip]]: has no keys");
  Axis axis;
  for (const ConfigEntry& entry : flat) {
    MS_ASSIGN_OR_RETURN(Column column, read_column(entry, "[[zip]] "));
    if (!axis.empty() && column.values.size() != axis[0].values.size()) {
      return wrong(entry.value, "[[zip]] " + column.key + ": has " +
                                    std::to_string(column.values.size()) + " values, " +
                                    axis[0].key + " has " + std::to_string(axis[0].values.size()) +
                                    "; keys that change together need equally many");
    }
    axis.push_back(std::move(column));
  }
  return axis;
}

Status read_axes(const ConfigEntry& entry, Grid& grid) {
  if (entry.key == "grid") {
    if (!entry.value.is_table()) return wrong(entry.value, "grid: expected a table [grid]");
    ConfigTable flat;
    flatten(std::get<ConfigTable>(entry.value.value), "", flat);
    for (const ConfigEntry& key : flat) {
      MS_ASSIGN_OR_RETURN(Column column, read_column(key, "[grid] "));
      grid.axes.push_back({std::move(column)});
    }
    return {};
  }
  const auto* list = std::get_if<ConfigList>(&entry.value.value);
  const bool are_tables =
      list != nullptr && std::all_of(list->begin(), list->end(),
                                     [](const ConfigValue& item) { return item.is_table(); });
  if (!are_tables) return wrong(entry.value, "zip: expected tables [[zip]]");
  for (const ConfigValue& item : *list) {
    MS_ASSIGN_OR_RETURN(Axis axis, read_zip(item));
    grid.axes.push_back(std::move(axis));
  }
  return {};
}

Status read_text(const ConfigEntry& entry, std::string& text) {
  const auto* s = std::get_if<std::string>(&entry.value.value);
  if (s == nullptr || s->empty()) {
    return wrong(entry.value, entry.key + ": expected a string, got " + value_text(entry.value));
  }
  text = *s;
  return {};
}

Status read_entry(const ConfigEntry& entry, Grid& grid) {
  if (entry.key == "recipe") return read_text(entry, grid.recipe);
  if (entry.key == "title") return read_text(entry, grid.title);
  if (entry.key == "metric") {
    MS_RETURN_IF_ERROR(read_text(entry, grid.metric));
    const auto metric = find_sweep_metric(grid.metric);
    return metric.ok() ? Status() : metric.status().with_context(entry.value.where());
  }
  if (entry.key == "grid" || entry.key == "zip") return read_axes(entry, grid);
  if (entry.key == "set") {
    if (!entry.value.is_table()) return wrong(entry.value, "set: expected a table [set]");
    flatten(std::get<ConfigTable>(entry.value.value), "", grid.fixed);
    return {};
  }
  const std::string nearest = near_name(entry.key, grid_keys());
  return wrong(entry.value, "unknown key \"" + entry.key + "\"" +
                                (nearest.empty() ? "; there are recipe, title, metric and the "
                                                   "tables [set], [grid], [[zip]]"
                                                 : ", nearest is \"" + nearest + "\""));
}

// No key in two places.
Status check_keys(const Grid& grid, const std::vector<std::string>& sets) {
  std::map<std::string, std::string> places;
  const auto add = [&places](const std::string& key, const std::string& where) -> Status {
    if (key == "title") {
      return invalid_argument(where +
                              ": title: each point is named by its values; title at the top "
                              "of the file names the sweep");
    }
    const auto [found, is_new] = places.try_emplace(key, where);
    if (is_new) return {};
    return invalid_argument(where + ": " + key + ": stands in " + found->second + " too");
  };
  for (const ConfigEntry& entry : grid.fixed) {
    MS_RETURN_IF_ERROR(add(entry.key, entry.value.where()));
  }
  std::vector<std::string> axis_keys;
  for (const Axis& axis : grid.axes) {
    for (const Column& column : axis) {
      MS_RETURN_IF_ERROR(add(column.key, column.list.where()));
      axis_keys.push_back(column.key);
    }
  }
  for (const std::string& set : sets) {
    const std::string key = set.substr(0, set.find('='));
    if (key == "title") MS_RETURN_IF_ERROR(add(key, "--set"));
    if (std::find(axis_keys.begin(), axis_keys.end(), key) == axis_keys.end()) continue;
    return invalid_argument("--set " + key + ": is an axis of the grid (" + places[key] +
                            "); --only chooses among its values");
  }
  return {};
}

Status check_size(const Grid& grid, const std::string& path) {
  if (grid.axes.empty()) {
    return invalid_argument(path +
                            ": no axes: [grid] with a list of values for at least one key, "
                            "such as optim.lr = [1e-3, 3e-3]");
  }
  int64_t points = 1;
  std::string text;
  for (const Axis& axis : grid.axes) {
    MS_RETURN_IF_ERROR(check_distinct(axis));
    const auto values = std::ssize(axis[0].values);
    points = std::min(points, int64_t{1} << 40) * values;
    text += (text.empty() ? "" : " x ") + std::to_string(values);
  }
  if (points <= kMaxSweepPoints) return {};
  return invalid_argument(path + ": the grid has " + text + " points, more than " +
                          std::to_string(kMaxSweepPoints) + ": shorten a list, or cut it in two");
}

Result<Grid> read_grid(const std::string& path, const std::vector<std::string>& sets) {
  Grid grid;
  MS_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  MS_ASSIGN_OR_RETURN(const ConfigTable table, parse_toml(file->text(), path));
  for (const ConfigEntry& entry : table) MS_RETURN_IF_ERROR(read_entry(entry, grid));
  if (grid.recipe.empty()) {
    return invalid_argument(path +
                            ": recipe is missing: the file that every point starts from, "
                            "such as recipe = \"recipes/pretrain_text.toml\"");
  }
  // TOML's dotted keys gather by table: a reader's table should follow the file.
  std::stable_sort(grid.axes.begin(), grid.axes.end(), [](const Axis& a, const Axis& b) {
    return std::pair(a[0].list.line, a[0].list.column) <
           std::pair(b[0].list.line, b[0].list.column);
  });
  if (grid.title.empty()) grid.title = std::filesystem::path(path).stem().string();
  MS_RETURN_IF_ERROR(check_keys(grid, sets));
  MS_RETURN_IF_ERROR(check_size(grid, path));
  return grid;
}

// The last part of a key, unless another key ends in it too.
std::map<std::string, std::string> short_names(const Grid& grid) {
  const auto last = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  std::map<std::string, int> count;
  for (const Axis& axis : grid.axes) {
    for (const Column& column : axis) ++count[last(column.key)];
  }
  std::map<std::string, std::string> names;
  for (const Axis& axis : grid.axes) {
    for (const Column& column : axis) {
      const std::string name = last(column.key);
      names[column.key] = count[name] == 1 ? name : column.key;
    }
  }
  return names;
}

std::string value_of(const Recipe& recipe, const std::string& key) {
  for (const RecipeValue& value : recipe.values) {
    if (value.key == key) return value.json;
  }
  return "null";
}

// A value as a person would write it; long ones keep their ends, where paths differ.
std::string label_of(const std::string& json) {
  const Json value = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  std::string text = value.is_string() ? value.get<std::string>() : json;
  if (text.empty()) return "\"\"";
  if (text.size() <= kMaxLabel) return text;
  size_t from = text.size() - kMaxLabel;
  while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80) ++from;
  return "..." + text.substr(from);
}

// A function of the point's values alone, so that a longer grid finds the points of a shorter one.
std::string folder_of(const std::vector<std::pair<std::string, std::string>>& named,
                      const std::string& all_values) {
  std::string name;
  for (const auto& [key, label] : named) name += (name.empty() ? "" : "_") + key + "-" + label;
  std::string folder = folder_name(name);
  if (folder == name && folder.size() <= kMaxFolderBytes) return "points/" + folder;
  folder.resize(std::min(folder.size(), kMaxFolderBytes - 9));
  return "points/" + folder + "-" +
         checksum128(all_values.data(), all_values.size()).hex().substr(0, 8);
}

class Planner {
 public:
  Planner(const Grid& grid, const std::vector<std::string>& sets)
      : grid_(grid), sets_(sets), names_(short_names(grid)) {}

  Result<SweepPlan> plan();

 private:
  void add_axis(const Axis& axis);
  Status add_point(const std::vector<size_t>& at);
  // Of a point, before its recipe is read.
  std::string raw_name(const std::vector<size_t>& at) const;

  const Grid& grid_;
  const std::vector<std::string>& sets_;
  std::map<std::string, std::string> names_;
  SweepPlan plan_;
};

void Planner::add_axis(const Axis& axis) {
  SweepAxis made;
  made.labels.resize(axis[0].values.size());
  for (const Column& column : axis) {
    made.keys.push_back(column.key);
    made.title += (made.title.empty() ? "" : "/") + names_[column.key];
  }
  const auto& first = axis[0].values;
  if (std::all_of(first.begin(), first.end(), is_number)) {
    for (const ConfigValue& value : first) made.numbers.push_back(number_of(value));
  }
  plan_.record.axes.push_back(std::move(made));
}

std::string Planner::raw_name(const std::vector<size_t>& at) const {
  std::string name;
  for (size_t a = 0; a < grid_.axes.size(); ++a) {
    for (const Column& column : grid_.axes[a]) {
      name += (name.empty() ? "" : " ") + names_.at(column.key) + "=" +
              value_text(column.values[at[a]]);
    }
  }
  return name;
}

Status Planner::add_point(const std::vector<size_t>& at) {
  ConfigTable values = grid_.fixed;
  for (size_t a = 0; a < grid_.axes.size(); ++a) {
    for (const Column& column : grid_.axes[a]) values.push_back({column.key, column.values[at[a]]});
  }
  Result<Recipe> recipe = load_recipe(grid_.recipe, values, sets_);
  if (!recipe.ok()) return recipe.status().with_context("point " + raw_name(at));
  SweepPoint point{.at = at};
  std::vector<std::pair<std::string, std::string>> named;
  std::string all_values;
  for (size_t a = 0; a < grid_.axes.size(); ++a) {
    std::string axis_label;
    for (const Column& column : grid_.axes[a]) {
      point.values.push_back(value_of(*recipe, column.key));
      const std::string label = label_of(point.values.back());
      const std::string& name = names_[column.key];
      named.emplace_back(name, label);
      point.name += (point.name.empty() ? "" : " ") + name + "=" + label;
      axis_label += (axis_label.empty() ? "" : "/") + label;
      all_values += column.key + "=" + point.values.back() + "\n";
    }
    plan_.record.axes[a].labels[at[a]] = axis_label;
  }
  point.folder = folder_of(named, all_values);
  recipe->title = grid_.title + ": " + point.name;
  for (RecipeValue& value : recipe->values) {
    if (value.key == "title") value = {"title", json_text(Json(recipe->title)), "sweep"};
  }
  plan_.record.points.push_back(std::move(point));
  plan_.recipes.push_back(std::move(*recipe));
  return {};
}

Result<SweepPlan> Planner::plan() {
  plan_.record.title = grid_.title;
  plan_.record.recipe = grid_.recipe;
  MS_ASSIGN_OR_RETURN(plan_.record.metric, find_sweep_metric(grid_.metric));
  for (const Axis& axis : grid_.axes) add_axis(axis);
  // Like a counter: the last axis turns fastest.
  std::vector<size_t> at(grid_.axes.size(), 0);
  while (true) {
    MS_RETURN_IF_ERROR(add_point(at));
    size_t a = at.size();
    while (a > 0 && ++at[a - 1] == grid_.axes[a - 1][0].values.size()) at[--a] = 0;
    if (a == 0) return std::move(plan_);
  }
}

// A number or a range "2-5" of points, from 1.
bool add_numbers(std::string_view text, size_t num_points, std::set<size_t>& chosen) {
  size_t first = 0;
  const char* end = text.data() + text.size();
  auto [next, error] = std::from_chars(text.data(), end, first);
  if (error != std::errc()) return false;
  size_t last = first;
  if (next != end) {
    if (*next != '-') return false;
    const auto [after, bad] = std::from_chars(next + 1, end, last);
    if (bad != std::errc() || after != end) return false;
  }
  if (first < 1 || last < first || last > num_points) return false;
  for (size_t i = first; i <= last; ++i) chosen.insert(i - 1);
  return true;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (true) {
    const size_t comma = text.find(',', at);
    parts.push_back(text.substr(at, comma == std::string::npos ? comma : comma - at));
    if (comma == std::string::npos) return parts;
    at = comma + 1;
  }
}

// Which of the point's values are those of `key`, and what they are called on its axis.
Result<std::set<size_t>> points_with(const SweepRecord& sweep, const std::string& key,
                                     const std::vector<std::string>& wanted) {
  std::vector<std::string> known;
  size_t column = 0;
  for (const SweepAxis& axis : sweep.axes) {
    for (const std::string& full : axis.keys) {
      const std::string last = full.substr(full.rfind('.') + 1);
      known.push_back(full);
      if (key != full && key != last) {
        ++column;
        continue;
      }
      std::set<size_t> chosen;
      std::string labels;
      std::set<std::string> seen;
      std::set<std::string> found;
      for (size_t i = 0; i < sweep.points.size(); ++i) {
        const std::string label = label_of(sweep.points[i].values[column]);
        if (seen.insert(label).second) labels += (labels.empty() ? "" : ", ") + label;
        for (const std::string& text : wanted) {
          const ConfigValue asked = parse_toml_value_or_string(text, "--only");
          const ConfigValue has =
              parse_toml_value_or_string(sweep.points[i].values[column], "--only");
          if (label != text && !is_same(asked, has)) continue;
          chosen.insert(i);
          found.insert(text);
        }
      }
      for (const std::string& text : wanted) {
        if (found.contains(text)) continue;
        return invalid_argument("--only " + key + "=" + text + ": no such value; there are " +
                                labels);
      }
      return chosen;
    }
  }
  const std::string nearest = near_name(key, known);
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  return invalid_argument(
      "--only " + key + ": no such axis" +
      (nearest.empty() ? "; there are " + list : ", nearest is \"" + nearest + "\""));
}

Result<std::set<size_t>> points_of(const SweepRecord& sweep, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals != std::string::npos) {
    return points_with(sweep, text.substr(0, equals), split(text.substr(equals + 1)));
  }
  std::set<size_t> chosen;
  for (const std::string& part : split(text)) {
    if (add_numbers(part, sweep.points.size(), chosen)) continue;
    return invalid_argument("--only " + text + ": expected numbers from 1 to " +
                            std::to_string(sweep.points.size()) +
                            " (\"3\", \"2-5\", \"1,4\"; --list shows them) or key=value");
  }
  return chosen;
}

}  // namespace

Result<SweepPlan> load_sweep(const std::string& path, const std::vector<std::string>& sets) {
  MS_ASSIGN_OR_RETURN(const Grid grid, read_grid(path, sets));
  return Planner(grid, sets).plan();
}

Result<std::vector<size_t>> chosen_points(const SweepRecord& sweep,
                                          const std::vector<std::string>& only) {
  std::vector<size_t> chosen(sweep.points.size());
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = i;
  std::string all;
  for (const std::string& text : only) {
    MS_ASSIGN_OR_RETURN(const std::set<size_t> fit, points_of(sweep, text));
    std::erase_if(chosen, [&](size_t i) { return !fit.contains(i); });
    all += (all.empty() ? "--only " : " --only ") + text;
  }
  if (chosen.empty()) return invalid_argument(all + ": no point fits all of them");
  return chosen;
}

}  // namespace mainspring
