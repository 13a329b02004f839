#include "mainspring/sample/json_schema_keywords.h"

#include <algorithm>
#include <cmath>

#include "mainspring/base/nearest.h"

namespace mainspring {
namespace {

using Names = std::vector<std::string>;

const Names& annotations() {
  static const Names names = {"$defs",    "definitions", "title",   "description", "default",
                              "examples", "format",      "$schema", "$id",         "$comment"};
  return names;
}

const Names& constraints() {
  static const Names names = {"type",
                              "properties",
                              "required",
                              "items",
                              "minItems",
                              "maxItems",
                              "enum",
                              "const",
                              "minLength",
                              "maxLength",
                              "anyOf",
                              "$ref",
                              "additionalProperties"};
  return names;
}

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A null `const` is a value, not an absent one.
bool has_key(const JsonObject& schema, const std::string& key) {
  return schema.json().contains(key);
}

/// The keyword that decides alone what a value is; empty if there is none.
std::string deciding_keyword(const JsonObject& schema) {
  for (const char* key : {"$ref", "const", "enum", "anyOf"}) {
    if (has_key(schema, key)) return key;
  }
  return "";
}

bool may_stand_beside(const JsonObject& schema, const std::string& deciding,
                      const std::string& key) {
  if (deciding.empty() || key == deciding || has(annotations(), key)) return true;
  if (key == "type") return deciding == "const" || deciding == "enum";
  return key == "additionalProperties" && schema.json().at(key) == true;
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

}  // namespace

Status check_keywords(const JsonObject& schema) {
  const std::string deciding = deciding_keyword(schema);
  for (const std::string& key : schema.keys()) {
    if (!has(constraints(), key) && !has(annotations(), key)) {
      Names known = constraints();
      known.insert(known.end(), annotations().begin(), annotations().end());
      return schema.error(key, "is not supported (nearest is \"" + nearest_name(key, known) +
                                   "\"); what it asks would not be kept");
    }
    if (schema.json().at(key).is_null() && key != "const" && has(constraints(), key)) {
      return schema.error(key, "is null, which says nothing");
    }
    if (!may_stand_beside(schema, deciding, key)) {
      return schema.error(
          key, "is not supported beside \"" + deciding + "\"; what it asks would not be kept");
    }
  }
  if (const Json* more = schema.find("additionalProperties"); more && !more->is_boolean())
    return schema.error("additionalProperties", "expected true or false");
  return {};
}

Result<std::vector<std::string>> types_of(const JsonObject& schema) {
  static const Names known = {"object", "array", "string", "number", "integer", "boolean", "null"};
  if (const Json* type = schema.find("type"); type != nullptr) {
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
    return types;
  }
  if (schema.has("properties") || schema.has("required")) return Names{"object"};
  if (schema.has("items") || schema.has("minItems") || schema.has("maxItems"))
    return Names{"array"};
  if (schema.has("minLength") || schema.has("maxLength")) return Names{"string"};
  if (const Json* more = schema.find("additionalProperties"); more && *more == false)
    return Names{"object"};
  return Names();
}

Result<std::vector<Json>> listed_values(const JsonObject& schema) {
  const bool is_const = has_key(schema, "const");
  std::vector<Json> values;
  if (is_const) {
    values.push_back(schema.json().at("const"));
  } else {
    const Json* choices = schema.find("enum");
    if (choices == nullptr || !choices->is_array() || choices->empty())
      return schema.error("enum", "expected a list of at least one value");
    values.assign(choices->begin(), choices->end());
  }
  MS_ASSIGN_OR_RETURN(const Names types, types_of(schema));
  if (types.empty()) return values;
  std::erase_if(values, [&](const Json& value) {
    return std::none_of(types.begin(), types.end(),
                        [&](const std::string& type) { return is_of_type(value, type); });
  });
  if (!values.empty()) return values;
  return schema.error(is_const ? "const" : "enum", is_const ? "is not of the schema's type"
                                                            : "has no value of the schema's type");
}

}  // namespace mainspring
