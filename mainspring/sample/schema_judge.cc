// Whether a value has a shape, and whether any can: the judging half of SchemaShapes.
#include <algorithm>
#include <utility>

#include "mainspring/sample/schema_shapes.h"

namespace mainspring {
namespace {

bool has_equal_items(const Json& list) {
  for (size_t i = 0; i < list.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (list[i] == list[j]) return true;
    }
  }
  return false;
}

bool is_within(size_t size, const SchemaShape& shape) {
  const auto count = static_cast<int64_t>(size);
  return count >= shape.least && (shape.most < 0 || count <= shape.most);
}

}  // namespace

SchemaSet item_at(const SchemaShape& array, size_t place) {
  return place < array.first_items.size() ? array.first_items[place] : array.items;
}

SchemaSet property_of(const SchemaShape& object, const std::string& name) {
  for (const auto& [known, set] : object.properties) {
    if (known == name) return set;
  }
  return object.further;
}

bool is_of_kind(const Json& value, ShapeKind kind) {
  switch (kind) {
    case ShapeKind::kNull:
      return value.is_null();
    case ShapeKind::kBoolean:
      return value.is_boolean();
    case ShapeKind::kNumber:
      return value.is_number();
    case ShapeKind::kString:
      return value.is_string();
    case ShapeKind::kArray:
      return value.is_array();
    case ShapeKind::kObject:
      return value.is_object();
    case ShapeKind::kListed:
      return true;
  }
  return false;
}

Result<bool> SchemaShapes::fulfils(const Json& value, const SchemaShape& shape) {
  if (!is_of_kind(value, shape.kind)) return false;
  switch (shape.kind) {
    case ShapeKind::kListed:
      return std::find(shape.listed.begin(), shape.listed.end(), value) != shape.listed.end();
    case ShapeKind::kNumber:
      return shape.number.contains(decimal_of(value));
    case ShapeKind::kString: {
      const auto text = value.get<std::string>();
      return is_within(characters_of(text).size(), shape) &&
             (shape.text == nullptr || shape.text->accepts(text));
    }
    case ShapeKind::kArray:
      if (!is_within(value.size(), shape) || (shape.are_unique && has_equal_items(value)))
        return false;
      for (size_t i = 0; i < value.size(); ++i) {
        MS_ASSIGN_OR_RETURN(const bool is_good, fulfils(value[i], item_at(shape, i)));
        if (!is_good) return false;
      }
      return true;
    case ShapeKind::kObject:
      return object_fulfils(value, shape);
    case ShapeKind::kNull:
    case ShapeKind::kBoolean:
      break;
  }
  return true;
}

Result<bool> SchemaShapes::object_fulfils(const Json& value, const SchemaShape& shape) {
  for (const std::string& name : shape.required) {
    if (!value.contains(name)) return false;
  }
  for (const auto& [name, property] : value.items()) {
    MS_ASSIGN_OR_RETURN(const bool is_good, fulfils(property, property_of(shape, name)));
    if (!is_good) return false;
  }
  return true;
}

Result<bool> SchemaShapes::fulfils(const Json& value, const SchemaSet& set) {
  // A value is finite: what is being multiplied out further up may come again below it.
  const std::set<const Json*> above = std::exchange(open_, {});
  auto shapes = all_of(set);
  open_ = above;
  MS_RETURN_IF_ERROR(shapes.status());
  for (const SchemaShape& shape : *shapes) {
    MS_ASSIGN_OR_RETURN(const bool is_good, fulfils(value, shape));
    if (is_good) return true;
  }
  return false;
}

Result<bool> SchemaShapes::is_impossible(const SchemaShape& shape, int depth) {
  switch (shape.kind) {
    case ShapeKind::kListed:
      return shape.listed.empty();
    case ShapeKind::kNumber:
      return shape.number.is_provably_empty();
    case ShapeKind::kString: {
      if (shape.text == nullptr) return false;
      const auto within = intersect(*shape.text, texts_of_length(shape.least, shape.most));
      return within.has_value() && within->is_empty();
    }
    case ShapeKind::kArray:
      for (size_t i = 0; i < static_cast<size_t>(shape.least); ++i) {
        MS_ASSIGN_OR_RETURN(const bool is_none, is_impossible(item_at(shape, i), depth - 1));
        if (is_none) return true;
        if (i >= shape.first_items.size()) break;  // the others are the same
      }
      return false;
    case ShapeKind::kObject:
      for (const std::string& name : shape.required) {
        MS_ASSIGN_OR_RETURN(const bool is_none, is_impossible(property_of(shape, name), depth - 1));
        if (is_none) return true;
      }
      return false;
    case ShapeKind::kNull:
    case ShapeKind::kBoolean:
      break;
  }
  return false;
}

Result<bool> SchemaShapes::is_impossible(const SchemaSet& set, int depth) {
  if (depth <= 0) return false;
  const std::set<const Json*> above = std::exchange(open_, {});
  auto shapes = all_of(set);
  open_ = above;
  MS_RETURN_IF_ERROR(shapes.status());
  for (const SchemaShape& shape : *shapes) {
    MS_ASSIGN_OR_RETURN(const bool is_none, is_impossible(shape, depth));
    if (!is_none) return false;
  }
  return true;
}

}  // namespace mainspring
