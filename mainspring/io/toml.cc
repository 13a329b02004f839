#include "mainspring/io/toml.h"

#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

namespace mainspring {
namespace {

Result<ConfigValue> convert(const toml::node& node, const std::string& source);

ConfigValue placed(const toml::node& node, const std::string& source) {
  ConfigValue value;
  value.source = source;
  value.line = node.source().begin.line;
  value.column = node.source().begin.column;
  return value;
}

Result<ConfigTable> convert_table(const toml::table& table, const std::string& source) {
  ConfigTable result;
  for (const auto& [key, node] : table) {
    MS_ASSIGN_OR_RETURN(ConfigValue value, convert(node, source));
    result.emplace_back(std::string(key.str()), std::move(value));
  }
  return result;
}

Result<ConfigValue> convert(const toml::node& node, const std::string& source) {
  ConfigValue value = placed(node, source);
  if (const auto* b = node.as_boolean()) {
    value.value = b->get();
  } else if (const auto* i = node.as_integer()) {
    value.value = i->get();
  } else if (const auto* f = node.as_floating_point()) {
    value.value = f->get();
  } else if (const auto* s = node.as_string()) {
    value.value = s->get();
  } else if (const auto* list = node.as_array()) {
    ConfigList items;
    for (const toml::node& item : *list) {
      MS_ASSIGN_OR_RETURN(ConfigValue converted, convert(item, source));
      items.push_back(std::move(converted));
    }
    value.value = std::move(items);
  } else if (const auto* table = node.as_table()) {
    MS_ASSIGN_OR_RETURN(value.value, convert_table(*table, source));
  } else {
    return invalid_argument(value.where() + ": dates and times are not used here");
  }
  return value;
}

}  // namespace

std::string ConfigValue::where() const {
  if (line == 0) return source;
  return source + ":" + std::to_string(line) + ":" + std::to_string(column);
}

std::string_view ConfigValue::type_name() const {
  constexpr std::string_view kNames[] = {"a boolean", "an integer", "a number",
                                         "a string",  "a list",     "a table"};
  return kNames[value.index()];
}

Result<ConfigTable> parse_toml(std::string_view text, const std::string& source) {
  try {
    return convert_table(toml::parse(text, source), source);
  } catch (const toml::parse_error& error) {
    const auto& begin = error.source().begin;
    return invalid_argument(source + ":" + std::to_string(begin.line) + ":" +
                            std::to_string(begin.column) + ": " + std::string(error.description()));
  }
}

ConfigValue parse_toml_value_or_string(std::string_view text, const std::string& source) {
  auto table = parse_toml("value = " + std::string(text), source);
  if (table.ok() && table->size() == 1) {
    ConfigValue value = std::move((*table)[0].second);
    value.line = 0;
    return value;
  }
  ConfigValue value;
  value.source = source;
  value.value = std::string(text);
  return value;
}

}  // namespace mainspring
