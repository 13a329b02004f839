// SchemaShapes: what a JSON schema allows, as a list of alternatives of one type each.
//
// The one idea: all keywords beside each other, allOf and $ref say "and"; anyOf, oneOf and lists of
// types say "or". Multiplied out, a place in a schema is a list of shapes (an integer from 3 to 9;
// an object with these properties), each a conjunction within one type. The schemas of items and
// properties stay sets of places in the document, multiplied out when somebody asks, so schemas may
// refer to themselves. Internal to sample/.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/json.h"
#include "mainspring/sample/char_automaton.h"
#include "mainspring/sample/number_range.h"

namespace mainspring {

/// Schemas a value must fulfil, all of them; none: anything. Places in the document, each once.
class SchemaSet {
 public:
  struct Place {
    const Json* schema = nullptr;
    std::string path;
  };
  SchemaSet() = default;
  SchemaSet(const Json& schema, std::string path) : places_{{&schema, std::move(path)}} {}

  void add(const SchemaSet& others);
  const std::vector<Place>& places() const { return places_; }
  /// The same for the same places.
  std::string key() const;

 private:
  std::vector<Place> places_;  // by address
};

enum class ShapeKind : uint8_t { kNull, kBoolean, kNumber, kString, kArray, kObject, kListed };

struct SchemaShape {
  ShapeKind kind = ShapeKind::kNull;
  std::string path;           // of a schema that made it, for errors
  bool is_mentioned = false;  // by a type, or by a keyword about its type

  std::vector<Json> listed;  // kListed: these values

  NumberRange number;

  int64_t least = 0;                          // characters, or items
  int64_t most = -1;                          // -1: no limit
  std::shared_ptr<const CharAutomaton> text;  // null: any

  std::vector<SchemaSet> first_items;
  SchemaSet items;  // behind those
  bool are_unique = false;

  std::vector<std::pair<std::string, SchemaSet>> properties;  // in the order of their names' places
  std::set<std::string> required;
  SchemaSet further;            // what other properties must fulfil
  bool has_properties = false;  // some schema named them
  bool offers_further = false;  // some schema said what others are
};

class SchemaShapes {
 public:
  explicit SchemaShapes(const Json& root) : root_(root) {}

  /// The shapes of what fulfils all of `set`; without those that no schema mentions if it mentions
  /// others ({"properties": ...} means objects). Errors: invalid argument with the path.
  Result<std::vector<SchemaShape>> shapes_of(const SchemaSet& set);

 private:
  using Shapes = std::vector<SchemaShape>;

  Result<Shapes> all_of(const SchemaSet& set);
  Result<Shapes> schema_shapes(const Json& schema, const std::string& path);
  Result<Shapes> keyword_shapes(const JsonObject& schema, const std::string& path);
  Result<Shapes> typed_shapes(const JsonObject& schema, const std::string& path);
  Result<Shapes> one_of(const JsonObject& schema, const std::string& path, const Shapes& beside);
  Status check_apart(const JsonObject& schema, const Shapes& common, size_t first, size_t second);
  Result<Shapes> reference(const JsonObject& schema);
  Result<std::vector<Shapes>> branches(const JsonObject& schema, const char* key,
                                       const std::string& path);

  Result<Shapes> both(const Shapes& a, const Shapes& b, const std::string& path);
  Result<std::optional<SchemaShape>> both(const SchemaShape& a, const SchemaShape& b,
                                          const std::string& path);
  Result<bool> fulfils(const Json& value, const SchemaShape& shape);
  Result<bool> fulfils(const Json& value, const SchemaSet& set);
  Result<bool> object_fulfils(const Json& value, const SchemaShape& shape);
  /// Whether it is certain that no value has the shape, looking `depth` levels into it.
  Result<bool> is_impossible(const SchemaShape& shape, int depth);
  Result<bool> is_impossible(const SchemaSet& set, int depth);

  const Json& root_;
  std::set<const Json*> open_;  // being multiplied out: a schema that leads to itself adds nothing
  std::set<const Json*> judged_;  // whose oneOf is, or is being, shown to have branches apart
};

/// What an array's shape asks of the item at `place`, an object's of a property.
SchemaSet item_at(const SchemaShape& array, size_t place);
SchemaSet property_of(const SchemaShape& object, const std::string& name);
bool is_of_kind(const Json& value, ShapeKind kind);

}  // namespace mainspring
