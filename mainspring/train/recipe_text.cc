#include "mainspring/train/recipe_text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mainspring/base/nearest.h"
#include "mainspring/io/json.h"

namespace mainspring {
namespace {

constexpr size_t kMaxText = 60;

std::string cut(std::string text) {
  if (text.size() <= kMaxText) return text;
  size_t end = kMaxText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return json_text(Json(number));
}

bool is_whole_number(const std::string& text) {
  const size_t begin = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  return text.size() > begin && text.find_first_not_of("0123456789", begin) == std::string::npos;
}

// "a.b" of "a.b.c", "" of "c".
std::string table_of(const std::string& key) {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

bool is_slip(const std::string& name, const std::string& known) {
  return edit_distance(name, known) <= std::max<size_t>(1, (name.size() + 2) / 3);
}

std::string joined(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return out;
}

std::vector<std::string> keys_below(const std::string& table,
                                    const std::vector<std::string>& keys) {
  std::vector<std::string> below;
  for (const std::string& key : keys) {
    if (key.starts_with(table + ".")) below.push_back(key);
  }
  return below;
}

// By the last part; among equals the one in the nearest table.
std::string near_key(const std::string& name, const std::vector<std::string>& keys) {
  const std::string part = last_part(name);
  const auto distance = [&](const std::string& key) {
    return std::pair(edit_distance(part, last_part(key)),
                     edit_distance(table_of(name), table_of(key)));
  };
  const auto best = std::min_element(
      keys.begin(), keys.end(),
      [&](const std::string& a, const std::string& b) { return distance(a) < distance(b); });
  return best != keys.end() && is_slip(part, last_part(*best)) ? *best : "";
}

}  // namespace

std::string value_text(const ConfigValue& value) {
  if (const auto* b = std::get_if<bool>(&value.value)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<int64_t>(&value.value)) return std::to_string(*i);
  if (const auto* f = std::get_if<double>(&value.value)) return number_text(*f);
  if (const auto* s = std::get_if<std::string>(&value.value)) {
    // On the command line a number that TOML cannot hold has become a string.
    if (value.line == 0 && is_whole_number(*s)) return cut(*s) + ", which does not fit 64 bits";
    return "\"" + cut(*s) + "\"";
  }
  if (const auto* list = std::get_if<ConfigList>(&value.value)) {
    std::vector<std::string> items;
    for (const ConfigValue& item : *list) items.push_back(value_text(item));
    return cut("[" + joined(items) + "]");
  }
  return "a table";
}

std::string near_name(const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(name, known);
  return !nearest.empty() && is_slip(name, nearest) ? nearest : "";
}

std::string unknown_key_hint(const std::string& name, const std::vector<std::string>& keys) {
  if (const auto below = keys_below(name, keys); !below.empty()) {
    return ": it is a table; set one of its keys: " + joined(below);
  }
  if (const std::string nearest = near_key(name, keys); !nearest.empty()) {
    return ", nearest is \"" + nearest + "\"";
  }
  const std::string table = name.substr(0, name.find('.'));
  if (const auto below = keys_below(table, keys); !below.empty()) {
    return "; the keys of this table are " + joined(below);
  }
  std::vector<std::string> tables;
  std::vector<std::string> single;
  for (const std::string& key : keys) {
    const std::string of = table_of(key);
    if (of.empty()) single.push_back(key);
    if (!of.empty() && (tables.empty() || tables.back() != of)) tables.push_back(of);
  }
  return "; there are " + joined(single) + " and the tables " + joined(tables) +
         " (mainspring train --keys)";
}

}  // namespace mainspring
