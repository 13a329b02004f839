#include "mainspring/sample/json_schema.h"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "mainspring/io/json.h"
#include "mainspring/sample/json_schema_keywords.h"

namespace mainspring {
namespace {

constexpr int32_t kMaxNesting = 48;   // calls: of $ref, items, properties, any value
constexpr int64_t kMaxRepeat = 1024;  // of minItems, maxItems, minLength, maxLength
constexpr int64_t kMaxDigits = 15;    // so that every reader keeps an integer, and a number ends
constexpr int32_t kOpen = ByteProgram::kOpen;

ByteSet range(int first, int last) {
  ByteSet set;
  for (int b = first; b <= last; ++b) set.set(static_cast<size_t>(b));
  return set;
}

ByteSet any_of(std::string_view bytes) {
  ByteSet set;
  for (const char c : bytes) set.set(static_cast<unsigned char>(c));
  return set;
}

/// Emits code for schemas; rules are called by name and compiled once.
class Compiler {
 public:
  explicit Compiler(const Json& root) : root_(root) {}

  Result<std::unique_ptr<ByteAutomaton>> compile() {
    call_schema(root_, "#");
    program_.end();
    while (!pending_.empty()) {
      const Rule rule = std::move(pending_.back());
      pending_.pop_back();
      start_of_[rule.name] = program_.here();
      MS_RETURN_IF_ERROR(rule.emit());
      program_.end_rule();
    }
    for (const auto& [instruction, name] : calls_) program_.patch(instruction, start_of_.at(name));
    auto automaton = std::make_unique<ByteAutomaton>(std::move(program_), 0, kMaxNesting);
    if (automaton->start() != ByteAutomaton::kDead) return automaton;
    if (automaton->needed_depth() >= ByteProgram::kEndless) {
      return invalid_argument(
          "json_schema: no finite value fulfils it: what it requires refers to itself");
    }
    return invalid_argument("json_schema: its least nested value needs " +
                            std::to_string(automaton->needed_depth()) +
                            " levels of $ref, items and properties, at most " +
                            std::to_string(kMaxNesting) + " are supported");
  }

 private:
  using Emit = std::function<Status()>;
  struct Rule {
    std::string name;
    Emit emit;
  };

  // ---- Building blocks

  void call_rule(const std::string& name, Emit emit) {
    calls_.emplace_back(program_.call(kOpen), name);
    if (!named_.emplace(name, true).second) return;
    pending_.push_back({name, std::move(emit)});
  }
  /// A rule for each place in the document, however it is reached.
  void call_schema(const Json& schema, const std::string& path) {
    call_rule(std::to_string(reinterpret_cast<uintptr_t>(&schema)),
              [this, &schema, path] { return value(schema, path); });
  }
  /// A fork whose second way is open.
  int32_t maybe() { return program_.fork(program_.here() + 1, kOpen); }

  Status alternatives(size_t count, const std::function<Status(size_t)>& emit) {
    std::vector<int32_t> ends;
    for (size_t i = 0; i < count; ++i) {
      const bool is_last = i + 1 == count;
      const int32_t fork = is_last ? 0 : maybe();
      MS_RETURN_IF_ERROR(emit(i));
      if (is_last) break;
      ends.push_back(program_.jump(kOpen));
      program_.patch(fork, program_.here());
    }
    for (const int32_t end : ends) program_.patch(end, program_.here());
    return {};
  }

  void blank() {
    const int32_t skip = maybe();
    program_.text(" ");
    program_.patch(skip, program_.here());
  }

  /// `emit` any number of times from `least` to `most` (-1: no limit).
  void repeat(int64_t least, int64_t most, const std::function<void()>& emit) {
    for (int64_t i = 0; i < least; ++i) emit();
    if (most < 0) {
      const int32_t loop = maybe();
      emit();
      program_.jump(loop);
      program_.patch(loop, program_.here());
      return;
    }
    std::vector<int32_t> skips;
    for (int64_t i = least; i < most; ++i) {
      skips.push_back(maybe());
      emit();
    }
    for (const int32_t skip : skips) program_.patch(skip, program_.here());
  }

  // ---- Values

  /// One character of a string: UTF-8 that needs no escape, or an escape.
  Status character() {
    const ByteSet tail = range(0x80, 0xBF);
    const ByteSet hex = any_of("0123456789abcdefABCDEF");
    ByteSet plain = range(0x20, 0x7F);
    plain.reset('"').reset('\\');
    const std::vector<std::vector<ByteSet>> forms = {
        {plain},
        {range(0xC2, 0xDF), tail},
        {range(0xE0, 0xE0), range(0xA0, 0xBF), tail},
        {range(0xE1, 0xEC) | range(0xEE, 0xEF), tail, tail},
        {range(0xED, 0xED), range(0x80, 0x9F), tail},
        {range(0xF0, 0xF0), range(0x90, 0xBF), tail, tail},
        {range(0xF1, 0xF3), tail, tail, tail},
        {range(0xF4, 0xF4), range(0x80, 0x8F), tail, tail},
        {any_of("\\"), any_of("\"\\/bfnrt")},
        // No halves of surrogate pairs.
        {any_of("\\"), any_of("u"), hex & ~any_of("dD"), hex, hex, hex}};
    return alternatives(forms.size(), [&](size_t i) -> Status {
      for (const ByteSet& set : forms[i]) program_.byte(set);
      return {};
    });
  }
  void string(int64_t least, int64_t most) {
    program_.text("\"");
    repeat(least, most, [this] { call_rule("character", [this] { return character(); }); });
    program_.text("\"");
  }
  void digits(int64_t least, int64_t most) {
    repeat(least, most, [this] { program_.byte(any_of("0123456789")); });
  }
  /// Up to kMaxDigits before and behind the point, and two of the exponent: an f64 holds all.
  void number(bool is_integer) {
    repeat(0, 1, [this] { program_.text("-"); });
    const int32_t other = maybe();
    program_.text("0");
    const int32_t end = program_.jump(kOpen);
    program_.patch(other, program_.here());
    program_.byte(any_of("123456789"));
    digits(0, kMaxDigits - 1);
    program_.patch(end, program_.here());
    if (is_integer) return;
    repeat(0, 1, [this] {
      program_.text(".");
      digits(1, kMaxDigits);
    });
    repeat(0, 1, [this] {
      program_.byte(any_of("eE"));
      repeat(0, 1, [this] { program_.byte(any_of("+-")); });
      digits(1, 2);
    });
  }

  void list(int64_t least, int64_t most, const std::function<void()>& item) {
    program_.text("[");
    const auto further = [&] {
      program_.text(",");
      blank();
      item();
    };
    if (most != 0) {
      const int32_t skip = least == 0 ? maybe() : -1;
      item();
      repeat(std::max<int64_t>(0, least - 1), most < 0 ? -1 : most - 1, further);
      if (skip >= 0) program_.patch(skip, program_.here());
    }
    program_.text("]");
  }

  Status any() {
    const auto call_any = [this] { call_rule("any", [this] { return any(); }); };
    const std::vector<std::function<void()>> kinds = {[this] { string(0, -1); },
                                                      [this] { number(false); },
                                                      [this] { program_.text("true"); },
                                                      [this] { program_.text("false"); },
                                                      [this] { program_.text("null"); },
                                                      [this, call_any] { list(0, -1, call_any); },
                                                      [this, call_any] {
                                                        const auto pair = [this, call_any] {
                                                          string(0, -1);
                                                          program_.text(":");
                                                          blank();
                                                          call_any();
                                                        };
                                                        program_.text("{");
                                                        const int32_t skip = maybe();
                                                        pair();
                                                        repeat(0, -1, [this, pair] {
                                                          program_.text(",");
                                                          blank();
                                                          pair();
                                                        });
                                                        program_.patch(skip, program_.here());
                                                        program_.text("}");
                                                      }};
    return alternatives(kinds.size(), [&](size_t i) -> Status {
      kinds[i]();
      return {};
    });
  }

  // ---- Schemas

  Status value(const Json& schema, const std::string& path) {
    if (schema.is_boolean() && schema.get<bool>()) return any();
    MS_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::from(schema, "json_schema", path));
    MS_RETURN_IF_ERROR(check_keywords(object));
    if (object.has("$ref")) return reference(object);
    if (object.json().contains("const") || object.has("enum")) {
      MS_ASSIGN_OR_RETURN(const std::vector<Json> choices, listed_values(object));
      return alternatives(choices.size(), [&](size_t i) -> Status {
        program_.text(json_text(choices[i]));
        return {};
      });
    }
    if (const Json* options = object.find("anyOf")) {
      if (!options->is_array() || options->empty())
        return object.error("anyOf", "expected a list of at least one schema");
      return alternatives(options->size(), [&](size_t i) {
        return value((*options)[i], path + ".anyOf[" + std::to_string(i) + "]");
      });
    }
    MS_ASSIGN_OR_RETURN(const std::vector<std::string> types, types_of(object));
    if (types.empty()) return any();
    return alternatives(types.size(), [&](size_t i) { return typed(object, types[i], path); });
  }

  Status typed(const JsonObject& object, const std::string& type, const std::string& path) {
    if (type == "object") return properties(object, path);
    if (type == "array") return items(object, path);
    if (type == "string") {
      MS_ASSIGN_OR_RETURN(const auto limits, limits_of(object, "minLength", "maxLength"));
      string(limits.first, limits.second);
      return {};
    }
    if (type == "number" || type == "integer") {
      number(type == "integer");
      return {};
    }
    if (type == "boolean") {
      return alternatives(2, [&](size_t i) -> Status {
        program_.text(i == 0 ? "true" : "false");
        return {};
      });
    }
    program_.text("null");
    return {};
  }

  static Result<std::pair<int64_t, int64_t>> limits_of(const JsonObject& object,
                                                       const char* least_key,
                                                       const char* most_key) {
    MS_ASSIGN_OR_RETURN(const int64_t least, object.get_int_or(least_key, 0));
    MS_ASSIGN_OR_RETURN(const int64_t most, object.get_int_or(most_key, -1));
    if (least < 0 || least > kMaxRepeat)
      return object.error(least_key, "expected 0 to " + std::to_string(kMaxRepeat));
    if (object.has(most_key) && (most < least || most > kMaxRepeat)) {
      return object.error(
          most_key, "expected " + std::to_string(least) + " to " + std::to_string(kMaxRepeat));
    }
    return std::pair{least, most};
  }

  Status items(const JsonObject& object, const std::string& path) {
    MS_ASSIGN_OR_RETURN(const auto limits, limits_of(object, "minItems", "maxItems"));
    const Json* schema = object.find("items");
    list(limits.first, limits.second, [&] {
      if (schema == nullptr) {
        call_rule("any", [this] { return any(); });
      } else {
        call_schema(*schema, path + ".items");
      }
    });
    return {};
  }

  /// In the schema's order; those that are not required may be left out.
  Status properties(const JsonObject& object, const std::string& path) {
    static const Json kNone = Json::object();
    const Json* given = object.find("properties");
    const Json& all = given != nullptr ? *given : kNone;
    if (!all.is_object()) return object.error("properties", "expected an object");
    std::vector<std::string> required;
    if (object.has("required")) {
      MS_ASSIGN_OR_RETURN(required, object.get_strings("required"));
    }
    for (const std::string& name : required) {
      if (!all.contains(name))
        return object.error("required", "\"" + name + "\" is not among the properties");
    }
    if (all.empty() && given == nullptr) {
      return object.error("properties", "is missing: an object without them could be anything");
    }
    program_.text("{");
    // Ways that arrive at a property: with nothing before it, and with something.
    std::vector<int32_t> first;
    std::vector<int32_t> later;
    bool is_first_open = true;  // the code before falls through to it
    for (const auto& [name, schema] : all.items()) {
      const bool is_required = std::find(required.begin(), required.end(), name) != required.end();
      std::string where = path;
      where.append(".properties.").append(name);
      std::vector<int32_t> after_first;
      std::vector<int32_t> after_later;
      const bool has_first = is_first_open || !first.empty();
      if (has_first) {
        for (const int32_t at : first) program_.patch(at, program_.here());
        if (!is_required) after_first.push_back(maybe());
        pair(name, schema, where);
        after_later.push_back(program_.jump(kOpen));
      }
      if (!later.empty()) {
        for (const int32_t at : later) program_.patch(at, program_.here());
        if (!is_required) after_later.push_back(maybe());
        program_.text(",");
        blank();
        pair(name, schema, where);
        after_later.push_back(program_.jump(kOpen));
      }
      is_first_open = false;
      first = std::move(after_first);
      later = std::move(after_later);
    }
    for (const int32_t at : first) program_.patch(at, program_.here());
    for (const int32_t at : later) program_.patch(at, program_.here());
    program_.text("}");
    return {};
  }

  void pair(const std::string& name, const Json& schema, const std::string& where) {
    program_.text(json_text(Json(name)) + ":");
    blank();
    call_schema(schema, where);
  }

  Status reference(const JsonObject& object) {
    MS_ASSIGN_OR_RETURN(const std::string target, object.get_string("$ref"));
    if (target == "#") {
      call_schema(root_, "#");
      return {};
    }
    for (const std::string_view folder : {"$defs", "definitions"}) {
      const std::string head = "#/" + std::string(folder) + "/";
      if (!target.starts_with(head) || !root_.is_object() || !root_.contains(folder)) continue;
      const Json& all = root_.at(std::string(folder));
      const std::string name = target.substr(head.size());
      if (!all.is_object() || !all.contains(name)) continue;
      call_schema(all.at(name), target);
      return {};
    }
    return object.error("$ref", "\"" + target +
                                    "\" is not there; expected \"#\" or a name below "
                                    "\"#/$defs/\" or \"#/definitions/\"");
  }

  const Json& root_;
  ByteProgram program_;
  std::vector<Rule> pending_;
  std::map<std::string, bool> named_;
  std::map<std::string, int32_t> start_of_;
  std::vector<std::pair<int32_t, std::string>> calls_;
};

}  // namespace

Result<std::unique_ptr<ByteAutomaton>> compile_json_schema(const std::string& schema) {
  MS_ASSIGN_OR_RETURN(const Json root, parse_json(schema, "json_schema"));
  return Compiler(root).compile();
}

}  // namespace mainspring
