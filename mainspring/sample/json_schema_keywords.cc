#include "mainspring/sample/json_schema_keywords.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "mainspring/base/nearest.h"
#include "mainspring/sample/char_pattern.h"
#include "mainspring/sample/string_formats.h"

namespace mainspring {
namespace {

using Names = std::vector<std::string>;

const Names& annotations() {
  static const Names names = {"$defs",    "definitions", "title", "description", "default",
                              "examples", "$schema",     "$id",   "$comment"};
  return names;
}

/// A keyword, the type it speaks of ("" for none), and the kinds of value it may have.
struct Keyword {
  const char* name;
  const char* type;
  const char* expected;
  bool (*is_good)(const Json&);
};

bool is_schema(const Json& value) { return value.is_boolean() || value.is_object(); }
bool is_integer(const Json& value) { return value.is_number(); }  // read with its limits later
bool is_any(const Json&) { return true; }

constexpr Keyword kKeywords[] = {
    {"type", "", "a name or a list of names",
     [](const Json& v) { return v.is_string() || v.is_array(); }},
    {"enum", "", "a list of at least one value", [](const Json& v) { return v.is_array(); }},
    {"const", "", "", is_any},
    {"$ref", "", "a string", [](const Json& v) { return v.is_string(); }},
    {"allOf", "", "a list of at least one schema", [](const Json& v) { return v.is_array(); }},
    {"anyOf", "", "a list of at least one schema", [](const Json& v) { return v.is_array(); }},
    {"oneOf", "", "a list of at least one schema", [](const Json& v) { return v.is_array(); }},
    {"properties", "object", "an object", [](const Json& v) { return v.is_object(); }},
    {"required", "object", "a list of names", [](const Json& v) { return v.is_array(); }},
    {"additionalProperties", "object", "a schema, true or false", is_schema},
    {"items", "array", "a schema, true or false", is_schema},
    {"prefixItems", "array", "a list of schemas", [](const Json& v) { return v.is_array(); }},
    {"minItems", "array", "an integer", is_integer},
    {"maxItems", "array", "an integer", is_integer},
    {"uniqueItems", "array", "true or false", [](const Json& v) { return v.is_boolean(); }},
    {"minLength", "string", "an integer", is_integer},
    {"maxLength", "string", "an integer", is_integer},
    {"pattern", "string", "a regular expression", [](const Json& v) { return v.is_string(); }},
    {"format", "string", "a name", [](const Json& v) { return v.is_string(); }},
    {"minimum", "number", "a number", [](const Json& v) { return v.is_number(); }},
    {"maximum", "number", "a number", [](const Json& v) { return v.is_number(); }},
    {"exclusiveMinimum", "number", "a number (beside it no minimum is needed)",
     [](const Json& v) { return v.is_number(); }},
    {"exclusiveMaximum", "number", "a number (beside it no maximum is needed)",
     [](const Json& v) { return v.is_number(); }},
    {"multipleOf", "number", "a number above 0",
     [](const Json& v) { return v.is_number() && v.get<double>() > 0.0; }},
};

const Keyword* find_keyword(const std::string& name) {
  for (const Keyword& keyword : kKeywords) {
    if (name == keyword.name) return &keyword;
  }
  return nullptr;
}

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (value.is_number_integer()) return true;
  if (!value.is_number()) return false;
  const auto number = value.get<double>();
  return std::trunc(number) == number;  // 1.0 is an integer too
}

/// The names in `type`; empty without it.
Result<std::set<std::string>> types_of(const JsonObject& schema) {
  static const Names known = {"object", "array", "string", "number", "integer", "boolean", "null"};
  const Json* type = schema.find("type");
  if (type == nullptr) return std::set<std::string>();
  Names types;
  if (type->is_string()) {
    types = {type->get<std::string>()};
  } else {
    MS_ASSIGN_OR_RETURN(types, schema.get_strings("type"));
  }
  if (types.empty()) return schema.error("type", "expected at least one name");
  for (const std::string& name : types) {
    if (has(known, name)) continue;
    return schema.error("type", "no type is named \"" + name + "\", nearest is \"" +
                                    nearest_name(name, known) + "\"");
  }
  return std::set<std::string>(types.begin(), types.end());
}

Result<std::pair<int64_t, int64_t>> limits_of(const JsonObject& object, const char* least_key,
                                              const char* most_key) {
  MS_ASSIGN_OR_RETURN(const int64_t least, object.get_int_or(least_key, 0));
  MS_ASSIGN_OR_RETURN(const int64_t most, object.get_int_or(most_key, -1));
  if (least < 0 || least > kMaxRepeat)
    return object.error(least_key, "expected 0 to " + std::to_string(kMaxRepeat));
  if (object.has(most_key) && (most < least || most > kMaxRepeat)) {
    return object.error(most_key,
                        "expected " + std::to_string(least) + " to " + std::to_string(kMaxRepeat));
  }
  return std::pair{least, most};
}

/// Multiples of an integer are integers. Others have a meaning for integers only: as f64, 0.3 is
/// no multiple of 0.1.
Status read_multiple(const JsonObject& schema, const std::set<std::string>& types,
                     NumberRange& range) {
  const Decimal factor = decimal_of(*schema.find("multipleOf"));
  const bool is_integer = types.contains("integer") && !types.contains("number");
  if (!factor.is_integer() && !is_integer) {
    return schema.error("multipleOf",
                        "a fraction has no exact meaning for numbers that are read as binary "
                        "fractions; count in integers (cents), or let the type be integer");
  }
  const auto multiple = integer_multiple_of(factor);
  if (!multiple.has_value())
    return schema.error("multipleOf", "more than " + std::to_string(kMaxDigits) + " digits");
  range.is_integer = true;
  range.multiple = *multiple;
  return {};
}

Result<NumberRange> range_of(const JsonObject& schema, const std::set<std::string>& types) {
  NumberRange range;
  const auto bound = [&](const char* key) { return decimal_of(*schema.find(key)); };
  if (schema.has("minimum")) range.least = bound("minimum");
  if (schema.has("maximum")) range.most = bound("maximum");
  NumberRange exclusive;
  exclusive.excludes_least = exclusive.excludes_most = true;
  if (schema.has("exclusiveMinimum")) exclusive.least = bound("exclusiveMinimum");
  if (schema.has("exclusiveMaximum")) exclusive.most = bound("exclusiveMaximum");
  range = *intersect(range, exclusive);  // neither has a multiple
  if (range.is_provably_empty()) {
    return schema.error(schema.has("maximum") ? "maximum" : "exclusiveMaximum",
                        "no number is between it and the minimum");
  }
  if (range.least && !range.least->is_negative && range.least->exponent > kMaxDigits) {
    return schema.error(
        schema.has("minimum") ? "minimum" : "exclusiveMinimum",
        "numbers of more than " + std::to_string(kMaxDigits) + " digits are not written");
  }
  if (range.most && range.most->is_negative && range.most->exponent > kMaxDigits) {
    return schema.error(
        schema.has("maximum") ? "maximum" : "exclusiveMaximum",
        "numbers of more than " + std::to_string(kMaxDigits) + " digits are not written");
  }
  if (schema.has("multipleOf")) MS_RETURN_IF_ERROR(read_multiple(schema, types, range));
  return range;
}

Result<std::shared_ptr<const CharAutomaton>> text_of(const JsonObject& schema) {
  std::shared_ptr<const CharAutomaton> text;
  if (schema.has("format")) {
    MS_ASSIGN_OR_RETURN(const std::string name, schema.get_string("format"));
    if (!has(format_names(), name)) {
      std::string list;
      for (const std::string& known : format_names()) list += (list.empty() ? "" : ", ") + known;
      return schema.error("format", "\"" + name + "\" is not supported (nearest is \"" +
                                        nearest_name(name, format_names()) + "\"; there are " +
                                        list + "); what it asks would not be kept");
    }
    MS_ASSIGN_OR_RETURN(CharAutomaton automaton, compile_pattern(pattern_of_format(name)));
    text = std::make_shared<const CharAutomaton>(std::move(automaton));
  }
  if (schema.has("pattern")) {
    MS_ASSIGN_OR_RETURN(const std::string pattern, schema.get_string("pattern"));
    auto compiled = compile_pattern(pattern);
    if (!compiled.ok()) return schema.error("pattern", compiled.status().message());
    std::optional<CharAutomaton> automaton = *std::move(compiled);
    if (text != nullptr) automaton = intersect(*automaton, *text);
    if (!automaton.has_value())
      return schema.error("pattern", "needs too many states together with format");
    if (automaton->is_empty()) return schema.error("pattern", "no text has it");
    text = std::make_shared<const CharAutomaton>(*std::move(automaton));
  }
  return text;
}

}  // namespace

Status check_keywords(const JsonObject& schema) {
  for (const std::string& key : schema.keys()) {
    if (has(annotations(), key)) continue;
    const Keyword* keyword = find_keyword(key);
    if (keyword == nullptr) {
      Names known = annotations();
      for (const Keyword& other : kKeywords) known.emplace_back(other.name);
      return schema.error(key, "is not supported (nearest is \"" + nearest_name(key, known) +
                                   "\"); what it asks would not be kept");
    }
    const Json& value = schema.json().at(key);
    if (value.is_null() && key != "const") return schema.error(key, "is null, which says nothing");
    if (!keyword->is_good(value)) {
      return schema.error(key, std::string("expected ") + keyword->expected + ", got " +
                                   std::string(json_kind(value)));
    }
  }
  return {};
}

Result<TypedKeywords> read_typed_keywords(const JsonObject& schema) {
  TypedKeywords out;
  MS_ASSIGN_OR_RETURN(out.types, types_of(schema));
  for (const std::string& key : schema.keys()) {
    const Keyword* keyword = find_keyword(key);
    const bool says_nothing = key == "additionalProperties" && schema.json().at(key) == true;
    if (keyword != nullptr && *keyword->type != '\0' && !says_nothing)
      out.spoken.insert(keyword->type);
  }
  MS_ASSIGN_OR_RETURN(out.number, range_of(schema, out.types));
  MS_ASSIGN_OR_RETURN(out.lengths, limits_of(schema, "minLength", "maxLength"));
  MS_ASSIGN_OR_RETURN(out.text, text_of(schema));
  MS_ASSIGN_OR_RETURN(out.counts, limits_of(schema, "minItems", "maxItems"));
  MS_ASSIGN_OR_RETURN(out.are_unique, schema.get_bool_or("uniqueItems", false));
  if (schema.has("required")) {
    MS_ASSIGN_OR_RETURN(const Names names, schema.get_strings("required"));
    out.required.insert(names.begin(), names.end());
  }
  return out;
}

namespace {

/// Whether a number in it is beyond 64 bits: the parser has rounded what was written.
bool has_rounded_number(const Json& value) {
  constexpr double kBeyond = 9.2e18;
  if (value.is_number_float()) return std::abs(value.get<double>()) >= kBeyond;
  return (value.is_array() || value.is_object()) &&
         std::any_of(value.begin(), value.end(), has_rounded_number);
}

}  // namespace

Result<std::vector<Json>> listed_values(const JsonObject& schema, const std::string& key) {
  const Json& listed = schema.json().at(key);
  std::vector<Json> values;
  if (key == "const") {
    values.push_back(listed);
  } else {
    for (const Json& value : listed) values.push_back(value);
    if (values.empty()) return schema.error("enum", "expected a list of at least one value");
  }
  if (std::any_of(values.begin(), values.end(), has_rounded_number)) {
    return schema.error(key,
                        "has a number beyond 64 bits, which would not be kept to its last digit");
  }
  MS_ASSIGN_OR_RETURN(const std::set<std::string> types, types_of(schema));
  if (types.empty()) return values;
  std::erase_if(values, [&](const Json& value) {
    return std::none_of(types.begin(), types.end(),
                        [&](const std::string& type) { return is_of_type(value, type); });
  });
  if (!values.empty()) return values;
  return schema.error(
      key, key == "const" ? "is not of the schema's type" : "has no value of the schema's type");
}

}  // namespace mainspring
