// Json: the project's one door to a JSON library.
//
// The one idea: everybody includes this header, never nlohmann/json itself; parsing and typed reads
// return a Status that says where (source, line and column, or the field's path) and what was
// expected. Key order is kept. Headers that only name the type include json_fwd.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/json_fwd.h"

namespace mainspring {

/// Parses strict JSON (one value, UTF-8, no comments, no key twice in an object, at most 256
/// levels). Cost: linear in the text, for objects of any size; Json::operator[] and find are linear
/// in the object. Errors: invalid argument, "<source>:<line>:<column>: <reason>".
Result<Json> parse_json(std::string_view text, std::string_view source);

/// Reads and parses a file of at most `max_bytes`.
Result<Json> read_json_file(const std::string& path, int64_t max_bytes = int64_t{1} << 30);

/// Compact text; `indent` >= 0 breaks lines. Bytes that are not UTF-8 become U+FFFD. f64 and i64
/// values read back exactly; numbers that are not finite become null.
std::string json_text(const Json& value, int indent = -1);

/// An f32 as a number that prints short and reads back to the same f32 (0.1, not
/// 0.10000000149011612).
Json json_float(float value);

/// A read-only view of one JSON object that knows its path: field errors read
/// "config.json: rope_scaling.factor: expected a number, got a string". Holds a pointer: `object`
/// must outlive it.
class JsonObject {
 public:
  /// Errors: invalid argument if `value` is not an object.
  static Result<JsonObject> from(const Json& value, std::string_view source,
                                 std::string_view path = "");

  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// The value, or null if absent; JSON null counts as absent.
  const Json* find(std::string_view key) const;

  // Each reads a present field of its type. Errors: invalid argument with the path, what was
  // expected and what was got ("is missing" if absent). Integers that do not fit, and numbers with
  // a fraction where an integer is due, are refused.
  Result<bool> get_bool(std::string_view key) const;
  Result<uint64_t> get_uint(std::string_view key) const;
  Result<int64_t> get_int(std::string_view key) const;
  Result<double> get_number(std::string_view key) const;
  Result<std::string> get_string(std::string_view key) const;
  Result<JsonObject> get_object(std::string_view key) const;
  Result<std::vector<int64_t>> get_ints(std::string_view key) const;
  Result<std::vector<std::string>> get_strings(std::string_view key) const;

  // The same with a value for an absent field; a present one of the wrong type is still refused.
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  Result<int64_t> get_int_or(std::string_view key, int64_t fallback) const;
  Result<double> get_number_or(std::string_view key, double fallback) const;
  Result<std::string> get_string_or(std::string_view key, std::string_view fallback) const;

  /// Keys in file order.
  std::vector<std::string> keys() const;
  /// "<source>: <path>.<key>", the head of every error about a field.
  std::string where(std::string_view key) const;
  /// invalid argument "<where(key)>: <problem>".
  Status error(std::string_view key, std::string_view problem) const;

  const Json& json() const { return *object_; }

 private:
  JsonObject(const Json* object, std::string source, std::string path)
      : object_(object), source_(std::move(source)), path_(std::move(path)) {}
  Status wrong(std::string_view key, std::string_view expected, const Json* got) const;

  const Json* object_;
  std::string source_;
  std::string path_;
};

/// "a string", "an integer", "an object" ...: a value's kind as error texts name it.
std::string_view json_kind(const Json& value);

}  // namespace mainspring
