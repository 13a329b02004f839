#include "mainspring/io/toml.h"

#include <algorithm>
#include <utility>

// toml++ 3.3 asserts on some malformed keys, and with NDEBUG assumes that they cannot be: here they
// throw.
namespace mainspring {
namespace {
struct TomlAssertion {};
[[noreturn]] void toml_assertion_failed() { throw TomlAssertion(); }
}  // namespace
}  // namespace mainspring
#undef NDEBUG
#define TOML_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::mainspring::toml_assertion_failed())
#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

namespace mainspring {
namespace {

// toml++ bounds the nesting of values but not of dotted keys, and destroys tables recursively.
constexpr int kMaxDots = 64;

/// The index after the string that starts at `at`; counts its lines.
size_t skip_string(std::string_view text, size_t at, int64_t& line) {
  const char quote = text[at];
  const bool is_long = text.substr(at, 3) == std::string(3, quote);
  const std::string mark(is_long ? 3 : 1, quote);
  at += mark.size();
  while (at < text.size() && text.substr(at, mark.size()) != mark) {
    if (quote == '"' && text[at] == '\\') ++at;
    if (at < text.size() && text[at] == '\n') {
      if (!is_long) return at;  // an unfinished string: the parser will say so
      ++line;
    }
    ++at;
  }
  return at + mark.size();
}

/// The line of a key of more than kMaxDots dots; 0 if there is none. Outside strings and comments
/// dots stand only in keys and, one at a time, in numbers; a key ends at a line's end, "=", ",",
/// "{" or "]".
int64_t line_of_deep_key(std::string_view text) {
  int64_t line = 1;
  int dots = 0;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = skip_string(text, i, line);
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '.' && ++dots > kMaxDots) return line;
    if (c == '\n' || c == '=' || c == ',' || c == '{' || c == ']') dots = 0;
    if (c == '\n') ++line;
    ++i;
  }
  return 0;
}

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
    result.push_back({std::string(key.str()), std::move(value)});
  }
  // toml++ sorts by name; a reader's messages should follow the file.
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) {
    return std::pair(a.value.line, a.value.column) < std::pair(b.value.line, b.value.column);
  });
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
  if (const int64_t line = line_of_deep_key(text); line != 0) {
    return invalid_argument(source + ":" + std::to_string(line) + ": a key of more than " +
                            std::to_string(kMaxDots) + " dots");
  }
  try {
    return convert_table(toml::parse(text, source), source);
  } catch (const TomlAssertion&) {
    return invalid_argument(source + ": not valid TOML (a malformed key)");
  } catch (const toml::parse_error& error) {
    const auto& begin = error.source().begin;
    return invalid_argument(source + ":" + std::to_string(begin.line) + ":" +
                            std::to_string(begin.column) + ": " + std::string(error.description()));
  }
}

ConfigValue parse_toml_value_or_string(std::string_view text, const std::string& source) {
  auto table = parse_toml("value = " + std::string(text), source);
  if (table.ok() && table->size() == 1) {
    ConfigValue value = std::move((*table)[0].value);
    value.line = 0;
    return value;
  }
  ConfigValue value;
  value.source = source;
  value.value = std::string(text);
  return value;
}

}  // namespace mainspring
