#include "mainspring/env/rewards/schema_validator.h"

#include <algorithm>
#include <cmath>

#include "mainspring/base/nearest.h"

namespace mainspring {
namespace {

constexpr int kMaxDepth = 100;
constexpr int64_t kMaxSteps = 1000000;

const std::vector<std::string> kTypes = {"null",   "boolean", "integer", "number",
                                         "string", "array",   "object"};
const std::vector<std::string> kAnnotations = {"title",   "description", "default",  "examples",
                                               "$schema", "$id",         "$comment", "$anchor"};
const std::vector<std::string> kCounts = {"minProperties", "maxProperties", "minItems",
                                          "maxItems",      "minLength",     "maxLength"};
const std::vector<std::string> kNumbers = {"minimum", "maximum", "exclusiveMinimum",
                                           "exclusiveMaximum", "multipleOf"};
const std::vector<std::string> kSchemas = {"not", "items", "additionalProperties"};
const std::vector<std::string> kLists = {"allOf", "anyOf", "oneOf", "prefixItems"};
const std::vector<std::string> kTables = {"properties", "$defs", "definitions"};

bool is_one_of(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The schema that "#/..." names; null if there is none.
const Json* resolve(const Json& root, const std::string& reference) {
  if (reference == "#") return &root;
  if (!reference.starts_with("#/")) return nullptr;
  try {
    const Json::json_pointer pointer(reference.substr(1));
    return root.contains(pointer) ? &root.at(pointer) : nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

/// Code points of UTF-8.
int64_t num_characters(const std::string& text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

bool is_multiple(double value, double of) {
  const double quotient = value / of;
  return std::abs(quotient - std::round(quotient)) <= 1e-9 * std::max(1.0, std::abs(quotient));
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "number") return value.is_number();
  return value.is_number_integer() ||
         (value.is_number() && std::floor(value.get<double>()) == value.get<double>());
}

}  // namespace

Status SchemaValidator::check_children(const Json& children, const std::string& path, int depth) {
  for (const auto& [key, child] : children.items()) {
    MS_RETURN_IF_ERROR(check(child, path + "/" + key, depth));
  }
  return {};
}

Status SchemaValidator::check_keyword(const std::string& keyword, const Json& value,
                                      const std::string& path, int depth) {
  const auto wrong = [&](const std::string& expected) {
    return invalid_argument(path + ": expected " + expected + ", got " +
                            std::string(json_kind(value)));
  };
  if (is_one_of(kAnnotations, keyword) || keyword == "const") return {};
  if (is_one_of(kCounts, keyword)) {
    return value.is_number_unsigned() ? Status() : wrong("a count");
  }
  if (is_one_of(kNumbers, keyword)) {
    const bool is_good = value.is_number() && (keyword != "multipleOf" || value > 0);
    return is_good ? Status() : wrong(keyword == "multipleOf" ? "a number above 0" : "a number");
  }
  if (is_one_of(kSchemas, keyword)) return check(value, path, depth);
  if (is_one_of(kLists, keyword)) {
    if (!value.is_array() || value.empty()) return wrong("a list of schemas");
    return check_children(value, path, depth);
  }
  if (is_one_of(kTables, keyword)) {
    if (!value.is_object()) return wrong("an object of schemas");
    return check_children(value, path, depth);
  }
  if (keyword == "type") {
    const Json types = value.is_array() ? value : Json::array({value});
    for (const Json& type : types) {
      if (!type.is_string()) return wrong("a type or a list of types");
      const auto name = type.get<std::string>();
      if (is_one_of(kTypes, name)) continue;
      return invalid_argument(path + ": unknown type \"" + name + "\"; the nearest is \"" +
                              nearest_name(name, kTypes) + "\"");
    }
    return {};
  }
  if (keyword == "enum") return value.is_array() ? Status() : wrong("a list of values");
  if (keyword == "uniqueItems") return value.is_boolean() ? Status() : wrong("true or false");
  if (keyword == "required") {
    const bool is_list =
        value.is_array() &&
        std::all_of(value.begin(), value.end(), [](const Json& each) { return each.is_string(); });
    return is_list ? Status() : wrong("a list of names");
  }
  if (keyword == "$ref") {
    const bool is_known =
        value.is_string() && resolve(*schema_, value.get<std::string>()) != nullptr;
    return is_known ? Status() : invalid_argument(path + ": names no part of the schema");
  }
  if (keyword == "pattern") {
    if (!value.is_string()) return wrong("a pattern");
    Result<TextPattern> pattern = TextPattern::compile(value.get<std::string>());
    if (!pattern.ok()) return pattern.status().with_context(path);
    patterns_[value.get<std::string>()] = std::make_shared<TextPattern>(std::move(pattern).value());
    return {};
  }
  std::vector<std::string> known = {"type",     "enum", "const",  "uniqueItems",
                                    "required", "$ref", "pattern"};
  for (const auto* names : {&kCounts, &kNumbers, &kSchemas, &kLists, &kTables}) {
    known.insert(known.end(), names->begin(), names->end());
  }
  return invalid_argument(path + ": unknown keyword; the nearest is \"" +
                          nearest_name(keyword, known) + "\"");
}

Status SchemaValidator::check(const Json& schema, const std::string& path, int depth) {
  if (schema.is_boolean()) return {};
  if (!schema.is_object()) {
    return invalid_argument(path + ": expected a schema, got " + std::string(json_kind(schema)));
  }
  if (depth > kMaxDepth) return invalid_argument(path + ": nested too deeply");
  for (const auto& [keyword, value] : schema.items()) {
    MS_RETURN_IF_ERROR(check_keyword(keyword, value, path + "/" + keyword, depth + 1));
  }
  return {};
}

Result<SchemaValidator> SchemaValidator::compile(Json schema) {
  SchemaValidator validator;
  validator.schema_ = std::make_shared<const Json>(std::move(schema));
  MS_RETURN_IF_ERROR(validator.check(*validator.schema_, "#", 0));
  return validator;
}

/// One judgement, with what it may still cost.
struct SchemaValidator::Walk {
  const SchemaValidator& validator;
  int64_t steps_left = kMaxSteps;
  int depth = 0;

  bool fulfils(const Json& value, const Json& schema) {
    // A schema that refers to itself without going down in the value would walk for ever.
    if (--steps_left < 0 || depth > kMaxDepth) return false;
    if (schema.is_boolean()) return schema.get<bool>();
    ++depth;
    const bool is_kept = std::all_of(
        schema.items().begin(), schema.items().end(),
        [&](const auto& entry) { return keeps(value, schema, entry.key(), entry.value()); });
    --depth;
    return is_kept;
  }

  int64_t count(const Json& value, const Json& schemas) {
    return std::count_if(schemas.begin(), schemas.end(),
                         [&](const Json& each) { return fulfils(value, each); });
  }

  bool keeps(const Json& value, const Json& schema, const std::string& keyword, const Json& rule) {
    if (keyword == "type") {
      if (rule.is_string()) return has_type(value, rule.get<std::string>());
      return std::any_of(rule.begin(), rule.end(), [&](const Json& type) {
        return has_type(value, type.get<std::string>());
      });
    }
    if (keyword == "enum") return std::find(rule.begin(), rule.end(), value) != rule.end();
    if (keyword == "const") return value == rule;
    if (keyword == "$ref") {
      return fulfils(value, *resolve(*validator.schema_, rule.get<std::string>()));
    }
    if (keyword == "allOf") return count(value, rule) == static_cast<int64_t>(rule.size());
    if (keyword == "anyOf") return count(value, rule) > 0;
    if (keyword == "oneOf") return count(value, rule) == 1;
    if (keyword == "not") return steps_left > 0 && !fulfils(value, rule);
    if (value.is_number()) return keeps_number(value.get<double>(), keyword, rule);
    if (value.is_string()) return keeps_string(value.get<std::string>(), keyword, rule);
    if (value.is_array()) return keeps_array(value, schema, keyword, rule);
    if (value.is_object()) return keeps_object(value, schema, keyword, rule);
    return true;
  }

  static bool keeps_number(double value, const std::string& keyword, const Json& rule) {
    if (keyword == "minimum") return value >= rule.get<double>();
    if (keyword == "maximum") return value <= rule.get<double>();
    if (keyword == "exclusiveMinimum") return value > rule.get<double>();
    if (keyword == "exclusiveMaximum") return value < rule.get<double>();
    if (keyword == "multipleOf") return is_multiple(value, rule.get<double>());
    return true;
  }

  bool keeps_string(const std::string& value, const std::string& keyword, const Json& rule) const {
    if (keyword == "minLength") return num_characters(value) >= rule.get<int64_t>();
    if (keyword == "maxLength") return num_characters(value) <= rule.get<int64_t>();
    if (keyword == "pattern") {
      return validator.patterns_.at(rule.get<std::string>())->occurs_in(value);
    }
    return true;
  }

  bool keeps_array(const Json& value, const Json& schema, const std::string& keyword,
                   const Json& rule) {
    const auto size = static_cast<int64_t>(value.size());
    if (keyword == "minItems") return size >= rule.get<int64_t>();
    if (keyword == "maxItems") return size <= rule.get<int64_t>();
    if (keyword == "prefixItems") {
      for (size_t i = 0; i < std::min(rule.size(), value.size()); ++i) {
        if (!fulfils(value[i], rule[i])) return false;
      }
      return true;
    }
    if (keyword == "items") {
      const size_t first = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
      for (size_t i = first; i < value.size(); ++i) {
        if (!fulfils(value[i], rule)) return false;
      }
      return true;
    }
    if (keyword == "uniqueItems" && rule.get<bool>()) {
      for (size_t i = 0; i < value.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          if (--steps_left < 0 || value[i] == value[j]) return false;
        }
      }
    }
    return true;
  }

  bool keeps_object(const Json& value, const Json& schema, const std::string& keyword,
                    const Json& rule) {
    const auto size = static_cast<int64_t>(value.size());
    if (keyword == "minProperties") return size >= rule.get<int64_t>();
    if (keyword == "maxProperties") return size <= rule.get<int64_t>();
    if (keyword == "required") {
      return std::all_of(rule.begin(), rule.end(),
                         [&](const Json& name) { return value.contains(name.get<std::string>()); });
    }
    if (keyword == "properties") {
      for (const auto& [name, each] : rule.items()) {
        const auto found = value.find(name);
        if (found != value.end() && !fulfils(*found, each)) return false;
      }
      return true;
    }
    if (keyword == "additionalProperties") {
      for (const auto& [name, each] : value.items()) {
        const bool is_named = schema.contains("properties") && schema["properties"].contains(name);
        if (!is_named && !fulfils(each, rule)) return false;
      }
    }
    return true;
  }
};

bool SchemaValidator::fulfils(const Json& value) const {
  return Walk{*this}.fulfils(value, *schema_);
}

bool SchemaValidator::fulfils_text(std::string_view text) const {
  const Result<Json> value = parse_json(text, "reply");
  return value.ok() && fulfils(*value);
}

}  // namespace mainspring
