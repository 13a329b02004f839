#include "mainspring/sample/schema_shapes.h"

#include <algorithm>
#include <tuple>

#include "mainspring/sample/json_schema_keywords.h"

namespace mainspring {
namespace {

constexpr size_t kMaxShapes = 256;  // of one place
constexpr int kLookAhead = 6;       // levels in which oneOf's branches must differ

SchemaShape shape_of(ShapeKind kind, const std::string& path) {
  SchemaShape shape;
  shape.kind = kind;
  shape.path = path;
  return shape;
}

constexpr ShapeKind kTypes[] = {ShapeKind::kString, ShapeKind::kNumber, ShapeKind::kBoolean,
                                ShapeKind::kNull,   ShapeKind::kArray,  ShapeKind::kObject};

const char* type_name(ShapeKind kind) {
  switch (kind) {
    case ShapeKind::kNull:
      return "null";
    case ShapeKind::kBoolean:
      return "boolean";
    case ShapeKind::kNumber:
      return "number";
    case ShapeKind::kString:
      return "string";
    case ShapeKind::kArray:
      return "array";
    case ShapeKind::kObject:
      return "object";
    case ShapeKind::kListed:
      break;
  }
  return "";
}

std::vector<SchemaShape> anything(const std::string& path) {
  std::vector<SchemaShape> shapes;
  for (const ShapeKind kind : kTypes) shapes.push_back(shape_of(kind, path));
  return shapes;
}

/// Adds a branch's alternatives. Those that nothing was said about are the same in all branches.
void add_branch(const std::vector<SchemaShape>& branch, std::vector<SchemaShape>& together) {
  for (const SchemaShape& shape : branch) {
    const bool is_there = !shape.is_mentioned &&
                          std::any_of(together.begin(), together.end(), [&](const SchemaShape& s) {
                            return !s.is_mentioned && s.kind == shape.kind;
                          });
    if (!is_there) together.push_back(shape);
  }
}

/// Of two limits where -1 is none.
int64_t nearer(int64_t a, int64_t b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

/// Leaves no value of a type.
void take_away(ShapeKind kind, std::vector<SchemaShape>& shapes) {
  for (SchemaShape& shape : shapes)
    std::erase_if(shape.listed, [kind](const Json& value) { return is_of_kind(value, kind); });
  std::erase_if(shapes, [kind](const SchemaShape& shape) {
    return shape.kind == kind || (shape.kind == ShapeKind::kListed && shape.listed.empty());
  });
}

void merge_arrays(const SchemaShape& a, const SchemaShape& b, SchemaShape& out) {
  out.are_unique = a.are_unique || b.are_unique;
  out.first_items.clear();
  for (size_t i = 0; i < std::max(a.first_items.size(), b.first_items.size()); ++i) {
    SchemaSet item = item_at(a, i);
    item.add(item_at(b, i));
    out.first_items.push_back(std::move(item));
  }
  out.items.add(b.items);
}

/// additionalProperties speaks of what the properties beside it do not name.
void merge_objects(const SchemaShape& a, const SchemaShape& b, SchemaShape& out) {
  for (auto& [name, set] : out.properties) set.add(property_of(b, name));
  for (const auto& [name, set] : b.properties) {
    const bool is_known = std::any_of(a.properties.begin(), a.properties.end(),
                                      [&](const auto& known) { return known.first == name; });
    if (is_known) continue;
    SchemaSet together = set;
    together.add(a.further);
    out.properties.emplace_back(name, std::move(together));
  }
  out.required.insert(b.required.begin(), b.required.end());
  out.further.add(b.further);
  out.has_properties = a.has_properties || b.has_properties;
  out.offers_further = a.offers_further || b.offers_further;
}

Status at_path(const std::string& path, const std::string& problem) {
  return invalid_argument("json_schema: " + path + ": " + problem);
}

}  // namespace

void SchemaSet::add(const SchemaSet& others) {
  for (const Place& place : others.places_) {
    const auto at =
        std::lower_bound(places_.begin(), places_.end(), place.schema,
                         [](const Place& p, const Json* schema) { return p.schema < schema; });
    if (at == places_.end() || at->schema != place.schema) places_.insert(at, place);
  }
}

std::string SchemaSet::key() const {
  std::string key;
  for (const Place& place : places_)
    key += std::to_string(reinterpret_cast<uintptr_t>(place.schema)) + " ";
  return key;
}

Result<std::vector<SchemaShape>> SchemaShapes::shapes_of(const SchemaSet& set) {
  MS_ASSIGN_OR_RETURN(Shapes shapes, all_of(set));
  if (std::any_of(shapes.begin(), shapes.end(),
                  [](const SchemaShape& s) { return s.is_mentioned; }))
    std::erase_if(shapes, [](const SchemaShape& shape) { return !shape.is_mentioned; });
  return shapes;
}

Result<SchemaShapes::Shapes> SchemaShapes::all_of(const SchemaSet& set) {
  Shapes shapes = anything("#");
  for (const auto& [schema, path] : set.places()) {
    MS_ASSIGN_OR_RETURN(const Shapes more, schema_shapes(*schema, path));
    MS_ASSIGN_OR_RETURN(shapes, both(shapes, more, path));
  }
  return shapes;
}

Result<SchemaShapes::Shapes> SchemaShapes::schema_shapes(const Json& schema,
                                                         const std::string& path) {
  if (schema.is_boolean()) return schema.get<bool>() ? anything(path) : Shapes();
  if (!open_.insert(&schema).second) return Shapes();
  const auto object = JsonObject::from(schema, "json_schema", path);
  auto shapes = object.ok() ? keyword_shapes(*object, path) : Result<Shapes>(object.status());
  open_.erase(&schema);
  return shapes;
}

Result<SchemaShapes::Shapes> SchemaShapes::keyword_shapes(const JsonObject& schema,
                                                          const std::string& path) {
  MS_RETURN_IF_ERROR(check_keywords(schema));
  MS_ASSIGN_OR_RETURN(Shapes shapes, typed_shapes(schema, path));
  for (const char* key : {"const", "enum"}) {
    if (!schema.json().contains(key)) continue;  // a null const is a value
    SchemaShape listed = shape_of(ShapeKind::kListed, path);
    listed.is_mentioned = true;
    MS_ASSIGN_OR_RETURN(listed.listed, listed_values(schema, key));
    MS_ASSIGN_OR_RETURN(shapes, both(shapes, {listed}, path));
  }
  if (schema.has("$ref")) {
    MS_ASSIGN_OR_RETURN(const Shapes target, reference(schema));
    MS_ASSIGN_OR_RETURN(shapes, both(shapes, target, path));
  }
  if (schema.has("allOf")) {
    MS_ASSIGN_OR_RETURN(const auto all, branches(schema, "allOf", path));
    for (const Shapes& branch : all) {
      MS_ASSIGN_OR_RETURN(shapes, both(shapes, branch, path));
    }
  }
  if (schema.has("anyOf")) {
    MS_ASSIGN_OR_RETURN(const auto any, branches(schema, "anyOf", path));
    Shapes together;
    for (const Shapes& branch : any) add_branch(branch, together);
    MS_ASSIGN_OR_RETURN(shapes, both(shapes, together, path));
  }
  if (schema.has("oneOf")) return one_of(schema, path, shapes);
  return shapes;
}

Result<std::vector<SchemaShapes::Shapes>> SchemaShapes::branches(const JsonObject& schema,
                                                                 const char* key,
                                                                 const std::string& path) {
  const Json* list = schema.find(key);
  if (!list->is_array() || list->empty())
    return schema.error(key, "expected a list of at least one schema");
  std::vector<Shapes> out;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string where = path + "." + key + "[" + std::to_string(i) + "]";
    MS_ASSIGN_OR_RETURN(Shapes shapes, schema_shapes((*list)[i], where));
    out.push_back(std::move(shapes));
  }
  return out;
}

/// Branches that no value fulfils together are anyOf's; for others there is no way to say "and not
/// the other" in a grammar of the one. A type that two branches say nothing about is forbidden.
Result<SchemaShapes::Shapes> SchemaShapes::one_of(const JsonObject& schema, const std::string& path,
                                                  const Shapes& beside) {
  MS_ASSIGN_OR_RETURN(std::vector<Shapes> all, branches(schema, "oneOf", path));
  for (const ShapeKind kind : kTypes) {
    const auto is_free = [kind](const Shapes& branch) {
      return std::any_of(branch.begin(), branch.end(), [kind](const SchemaShape& s) {
        return s.kind == kind && !s.is_mentioned;
      });
    };
    if (std::count_if(all.begin(), all.end(), is_free) < 2) continue;
    for (Shapes& branch : all) take_away(kind, branch);
  }
  const bool is_judged = !judged_.insert(&schema.json()).second;
  Shapes together;
  for (size_t i = 0; i < all.size(); ++i) {
    MS_ASSIGN_OR_RETURN(const Shapes here, both(beside, all[i], path));
    for (size_t j = 0; j < i && !is_judged; ++j) {
      MS_ASSIGN_OR_RETURN(const Shapes common, both(here, all[j], path));
      MS_RETURN_IF_ERROR(check_apart(schema, common, j, i));
    }
    add_branch(here, together);
  }
  return together;
}

Status SchemaShapes::check_apart(const JsonObject& schema, const Shapes& common, size_t first,
                                 size_t second) {
  for (const SchemaShape& shape : common) {
    MS_ASSIGN_OR_RETURN(const bool is_apart, is_impossible(shape, kLookAhead));
    if (is_apart) continue;
    return schema.error("oneOf",
                        "a value might fulfil both [" + std::to_string(first) + "] and [" +
                            std::to_string(second) +
                            "], which oneOf forbids and this decoder could not; let them differ in "
                            "type, range, or the const of a required property, or write \"anyOf\"");
  }
  return {};
}

Result<SchemaShapes::Shapes> SchemaShapes::reference(const JsonObject& schema) {
  MS_ASSIGN_OR_RETURN(const std::string target, schema.get_string("$ref"));
  if (target == "#") return schema_shapes(root_, "#");
  for (const std::string_view folder : {"$defs", "definitions"}) {
    const std::string head = "#/" + std::string(folder) + "/";
    if (!target.starts_with(head) || !root_.is_object() || !root_.contains(folder)) continue;
    const Json& all = root_.at(std::string(folder));
    const std::string name = target.substr(head.size());
    if (!all.is_object() || !all.contains(name)) continue;
    return schema_shapes(all.at(name), target);
  }
  return schema.error("$ref", "\"" + target +
                                  "\" is not there; expected \"#\" or a name below "
                                  "\"#/$defs/\" or \"#/definitions/\"");
}

Result<SchemaShapes::Shapes> SchemaShapes::typed_shapes(const JsonObject& schema,
                                                        const std::string& path) {
  MS_ASSIGN_OR_RETURN(const TypedKeywords keywords, read_typed_keywords(schema));
  Shapes shapes;
  for (const ShapeKind kind : kTypes) {
    const bool has_type = !keywords.types.empty();
    const bool is_integer = kind == ShapeKind::kNumber && has_type &&
                            !keywords.types.contains("number") &&
                            keywords.types.contains("integer");
    if (has_type && !is_integer && !keywords.types.contains(type_name(kind))) continue;
    SchemaShape shape = shape_of(kind, path);
    shape.is_mentioned = has_type || keywords.spoken.contains(type_name(kind));
    if (kind == ShapeKind::kNumber) {
      shape.number = keywords.number;
      shape.number.is_integer = shape.number.is_integer || is_integer;
    } else if (kind == ShapeKind::kString) {
      std::tie(shape.least, shape.most) = keywords.lengths;
      shape.text = keywords.text;
    } else if (kind == ShapeKind::kArray) {
      std::tie(shape.least, shape.most) = keywords.counts;
      shape.are_unique = keywords.are_unique;
      if (const Json* first = schema.find("prefixItems")) {
        for (size_t i = 0; i < first->size(); ++i)
          shape.first_items.emplace_back((*first)[i],
                                         path + ".prefixItems[" + std::to_string(i) + "]");
      }
      if (const Json* items = schema.find("items")) shape.items = {*items, path + ".items"};
    } else if (kind == ShapeKind::kObject) {
      shape.required = keywords.required;
      if (const Json* named = schema.find("properties")) {
        shape.has_properties = true;
        for (const auto& [name, property] : named->items()) {
          std::string where = path;
          where.append(".properties.").append(name);
          shape.properties.emplace_back(name, SchemaSet(property, where));
        }
      }
      if (const Json* further = schema.find("additionalProperties")) {
        shape.further = {*further, path + ".additionalProperties"};
        shape.offers_further = further->is_object();
      }
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

Result<SchemaShapes::Shapes> SchemaShapes::both(const Shapes& a, const Shapes& b,
                                                const std::string& path) {
  Shapes out;
  for (const SchemaShape& in_a : a) {
    for (const SchemaShape& in_b : b) {
      MS_ASSIGN_OR_RETURN(std::optional<SchemaShape> shape, both(in_a, in_b, path));
      if (shape.has_value()) out.push_back(*std::move(shape));
      if (out.size() > kMaxShapes) {
        return at_path(path, "its anyOf and oneOf multiply to more than " +
                                 std::to_string(kMaxShapes) + " alternatives");
      }
    }
  }
  return out;
}

Result<std::optional<SchemaShape>> SchemaShapes::both(const SchemaShape& a, const SchemaShape& b,
                                                      const std::string& path) {
  SchemaShape out = a;
  out.is_mentioned = a.is_mentioned || b.is_mentioned;
  if (!a.is_mentioned && b.is_mentioned) out.path = b.path;
  if (a.kind == ShapeKind::kListed || b.kind == ShapeKind::kListed) {
    const bool is_a = a.kind == ShapeKind::kListed;
    SchemaShape listed = is_a ? a : b;
    listed.listed.clear();
    for (const Json& value : (is_a ? a : b).listed) {
      MS_ASSIGN_OR_RETURN(const bool is_kept, fulfils(value, is_a ? b : a));
      if (is_kept) listed.listed.push_back(value);
    }
    if (listed.listed.empty()) return std::optional<SchemaShape>();
    return std::optional(std::move(listed));
  }
  if (a.kind != b.kind) return std::optional<SchemaShape>();
  if (a.kind == ShapeKind::kNumber) {
    const auto range = intersect(a.number, b.number);
    if (!range.has_value())
      return at_path(path, "multipleOf: the common multiple is beyond 15 digits");
    out.number = *range;
  }
  out.least = std::max(a.least, b.least);
  out.most = nearer(a.most, b.most);
  if (out.most >= 0 && out.most < out.least) return std::optional<SchemaShape>();
  if (a.text != nullptr && b.text != nullptr && a.text != b.text) {
    auto text = intersect(*a.text, *b.text);
    if (!text.has_value()) return at_path(path, "its patterns need too many states together");
    out.text = std::make_shared<const CharAutomaton>(*std::move(text));
  } else if (a.text == nullptr) {
    out.text = b.text;
  }
  if (a.kind == ShapeKind::kArray) merge_arrays(a, b, out);
  if (a.kind == ShapeKind::kObject) merge_objects(a, b, out);
  return std::optional(std::move(out));
}

}  // namespace mainspring
