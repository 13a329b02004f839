#include "mainspring/sample/json_schema.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "mainspring/io/json.h"
#include "mainspring/sample/json_grammar.h"
#include "mainspring/sample/schema_shapes.h"

namespace mainspring {
namespace {

constexpr int32_t kMaxNesting = 48;  // calls: of items and properties
constexpr size_t kMaxUnique = 10;    // values of unique items: each set of them is a place

/// Appends the grammar of each shape; a rule for each set of places in the document.
class Compiler : private JsonGrammar {
 public:
  explicit Compiler(const Json& root) : root_(root), shapes_(root) {}

  Result<std::unique_ptr<ByteAutomaton>> compile() {
    call_set({root_, "#"});
    MS_ASSIGN_OR_RETURN(auto automaton, build(kMaxNesting));
    if (automaton->start() != ByteAutomaton::kDead) return automaton;
    if (automaton->needed_depth() >= ByteProgram::kEndless) {
      return invalid_argument(
          "json_schema: no finite value fulfils it: what it requires refers to itself, or "
          "contradicts itself");
    }
    return invalid_argument("json_schema: its least nested value needs " +
                            std::to_string(automaton->needed_depth()) +
                            " levels of items and properties, at most " +
                            std::to_string(kMaxNesting) + " are supported");
  }

 private:
  void call_set(const SchemaSet& set) {
    call_rule("set " + set.key(), [this, set] { return value_of(set); });
  }

  Status value_of(const SchemaSet& set) {
    MS_ASSIGN_OR_RETURN(const std::vector<SchemaShape> shapes, shapes_.shapes_of(set));
    if (shapes.empty()) fail();
    return alternatives(shapes.size(), [&](size_t i) { return one(shapes[i]); });
  }

  Status one(const SchemaShape& shape) {
    switch (shape.kind) {
      case ShapeKind::kNull:
        text("null");
        return {};
      case ShapeKind::kBoolean:
        one_of_texts({"true", "false"});
        return {};
      case ShapeKind::kNumber:
        return number_of(shape);
      case ShapeKind::kString:
        return string_of(shape);
      case ShapeKind::kArray:
        return shape.are_unique && shape.most != 0 && shape.most != 1 ? unique_items(shape)
                                                                      : items(shape);
      case ShapeKind::kObject:
        return properties(shape);
      case ShapeKind::kListed:
        break;
    }
    std::vector<std::string> texts;
    for (const Json& choice : shape.listed) texts.push_back(json_text(choice));
    one_of_texts(texts);
    return {};
  }
  static Status refused(const SchemaShape& shape, const std::string& problem) {
    return invalid_argument("json_schema: " + shape.path + problem);
  }

  Status number_of(const SchemaShape& shape) {
    if (shape.number.is_free()) {
      number(shape.number.is_integer);
      return {};
    }
    const auto automaton = texts_of(shape.number);
    if (!automaton.has_value()) {
      return refused(shape, ".multipleOf: needs more than " + std::to_string(kMaxCharStates) +
                                " states; narrow minimum and maximum, or take a smaller factor");
    }
    texts(*automaton);
    return {};
  }

  Status string_of(const SchemaShape& shape) {
    if (shape.text == nullptr) {
      string(shape.least, shape.most);
      return {};
    }
    const auto automaton = intersect(*shape.text, texts_of_length(shape.least, shape.most));
    if (!automaton.has_value()) {
      return refused(shape, ".pattern: needs more than " + std::to_string(kMaxCharStates) +
                                " states together with minLength and maxLength");
    }
    text("\"");
    texts(*automaton);
    text("\"");
    return {};
  }

  Status items(const SchemaShape& shape) {
    if (shape.first_items.empty()) {
      list(shape.least, shape.most, [&] { call_set(shape.items); });
      return {};
    }
    text("[");
    std::vector<int32_t> ends;
    const auto count = static_cast<int64_t>(shape.first_items.size());
    const int64_t last = shape.most < 0 ? std::max(count, shape.least) : shape.most;
    for (int64_t i = 0; i < last; ++i) {
      if (i >= shape.least) ends.push_back(maybe());
      if (i > 0) comma();
      call_set(item_at(shape, static_cast<size_t>(i)));
    }
    if (shape.most < 0) {
      repeat(0, -1, [&] {
        comma();
        call_set(shape.items);
      });
    }
    arrive(ends);
    text("]");
    return {};
  }

  /// The texts that items can be, if they are few.
  Result<std::vector<std::string>> few_items(const SchemaShape& shape) {
    const Status refusal =
        refused(shape, ".uniqueItems: is supported where items are of at most " +
                           std::to_string(kMaxUnique) +
                           " listed values (const, enum, boolean, null), or maxItems is at most 1");
    if (!shape.first_items.empty()) return refusal;
    MS_ASSIGN_OR_RETURN(const std::vector<SchemaShape> kinds, shapes_.shapes_of(shape.items));
    std::vector<Json> values;
    for (const SchemaShape& kind : kinds) {
      std::vector<Json> more = kind.listed;
      if (kind.kind == ShapeKind::kNull) more = {Json()};
      if (kind.kind == ShapeKind::kBoolean) more = {Json(true), Json(false)};
      if (more.empty()) return refusal;
      for (Json& value : more) {
        if (std::find(values.begin(), values.end(), value) == values.end())
          values.push_back(std::move(value));
      }
    }
    if (values.size() > kMaxUnique) return refusal;
    std::vector<std::string> texts;
    for (const Json& value : values) texts.push_back(json_text(value));
    return texts;
  }

  /// A place for each set of values that came already.
  Status unique_items(const SchemaShape& shape) {
    MS_ASSIGN_OR_RETURN(const std::vector<std::string> values, few_items(shape));
    text("[");
    std::vector<int32_t> starts;
    std::vector<std::pair<int32_t, size_t>> ways;
    std::vector<int32_t> ends;
    for (size_t used = 0; used < size_t{1} << values.size(); ++used) {
      const int64_t count = std::popcount(used);
      starts.push_back(here());
      for (size_t i = 0; i < values.size() && count != shape.most; ++i) {
        if ((used >> i & 1) != 0) continue;
        const int32_t other = maybe();
        if (count > 0) comma();
        call_rule("value " + values[i], [this, value = values[i]]() -> Status {
          text(value);
          return {};
        });
        ways.emplace_back(leave(), used | size_t{1} << i);
        arrive(other);
      }
      count >= shape.least ? ends.push_back(leave()) : fail();
    }
    for (const auto& [way, used] : ways) lead(way, starts[used]);
    arrive(ends);
    text("]");
    return {};
  }

  struct Property {
    std::string name;
    SchemaSet set;
    bool is_required = false;
  };

  /// The named ones, then those that are only required.
  Result<std::vector<Property>> all_properties(const SchemaShape& shape) const {
    std::vector<Property> all;
    for (const auto& [name, set] : shape.properties)
      all.push_back({name, set, shape.required.contains(name)});
    for (const std::string& name : shape.required) {
      const bool is_named = std::any_of(shape.properties.begin(), shape.properties.end(),
                                        [&](const auto& known) { return known.first == name; });
      if (is_named) continue;
      if (shape.has_properties && !shape.offers_further)
        return refused(shape, ".required: \"" + name + "\" is not among the properties");
      all.push_back({name, shape.further, true});
    }
    return all;
  }

  /// In their order; those that are not required may be left out. Others, where they are offered,
  /// come behind them.
  Status properties(const SchemaShape& shape) {
    MS_ASSIGN_OR_RETURN(const std::vector<Property> all, all_properties(shape));
    text("{");
    // Ways that arrive at a property: with nothing before it, and with something.
    std::vector<int32_t> first;
    std::vector<int32_t> later;
    bool is_first_open = true;  // the code before falls through to it
    for (const Property& property : all) {
      std::vector<int32_t> after_first;
      std::vector<int32_t> after_later;
      if (is_first_open || !first.empty()) {
        arrive(first);
        if (!property.is_required) after_first.push_back(maybe());
        pair(property);
        after_later.push_back(leave());
      }
      if (!later.empty()) {
        arrive(later);
        if (!property.is_required) after_later.push_back(maybe());
        comma();
        pair(property);
        after_later.push_back(leave());
      }
      is_first_open = false;
      first = std::move(after_first);
      later = std::move(after_later);
    }
    if (shape.offers_further || !shape.has_properties) {
      further(shape, all, is_first_open || !first.empty(), first, later);
    } else {
      arrive(first);
      arrive(later);
    }
    text("}");
    return {};
  }

  /// Any number of properties of other names. `first`, `later`: as in properties().
  void further(const SchemaShape& shape, const std::vector<Property>& all, bool has_first,
               const std::vector<int32_t>& first, const std::vector<int32_t>& later) {
    std::vector<std::string> names;
    for (const Property& property : all) names.push_back(property.name);
    const auto other_pair = [&] {
      if (names.empty()) {
        string(0, -1);
      } else {
        text("\"");
        texts(texts_other_than(names));
        text("\"");
      }
      colon();
      call_set(shape.further);
    };
    std::vector<int32_t> ends;
    std::vector<int32_t> loops;
    if (has_first) {
      arrive(first);
      ends.push_back(maybe());
      other_pair();
      loops.push_back(leave());
    }
    arrive(later);
    arrive(loops);
    repeat(0, -1, [&] {
      comma();
      other_pair();
    });
    arrive(ends);
  }

  void pair(const Property& property) {
    text(json_text(Json(property.name)));
    colon();
    call_set(property.set);
  }

  const Json& root_;
  SchemaShapes shapes_;
};

}  // namespace

Result<std::unique_ptr<ByteAutomaton>> compile_json_schema(const std::string& schema) {
  MS_ASSIGN_OR_RETURN(const Json root, parse_json(schema, "json_schema"));
  return Compiler(root).compile();
}

}  // namespace mainspring
