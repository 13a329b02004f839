#include "mainspring/io/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "mainspring/io/mapped_file.h"

namespace mainspring {
namespace {

constexpr size_t kMaxDepth = 256;

/// Builds a Json from parse events. The library's own builder looks up every key while it appends,
/// which is quadratic in an ordered object and silently keeps one of two equal keys; this one
/// appends and compares the keys once, at the object's end.
class Builder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  bool null() { return add(Json(nullptr)); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(number_integer_t value) { return add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) { return add(Json(value)); }
  bool number_float(number_float_t value, const string_t&) { return add(Json(value)); }
  bool string(string_t& value) { return add(Json(std::move(value))); }
  bool binary(binary_t&) { return fail("binary values are not JSON"); }

  bool start_object(size_t) { return open(Json(Json::value_t::object)); }
  bool start_array(size_t) { return open(Json(Json::value_t::array)); }
  bool key(string_t& name) {
    keys_.push_back(std::move(name));
    return true;
  }
  bool end_object() { return check_keys(stack_.back()) && close(); }
  bool end_array() { return close(); }

  template <typename Exception>
  bool parse_error(size_t position, const std::string&, const Exception& error) {
    position_ = position;
    // "[json.exception.parse_error.101] parse error at line 1, column 2: reason": only the reason
    // is new.
    error_ = error.what();
    const size_t colon = error_.find(": ");
    if (colon != std::string::npos) error_.erase(0, colon + 2);
    return false;
  }

  Json take() { return std::move(root_); }
  const std::string& error() const { return error_; }
  size_t position() const { return position_; }  // 0: not known

 private:
  bool fail(std::string reason) {
    error_ = std::move(reason);
    return false;
  }

  bool add(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Json& top = stack_.back();
    if (top.is_array()) {
      top.get_ref<Json::array_t&>().push_back(std::move(value));
    } else {
      top.get_ref<Json::object_t&>().emplace_back(std::move(keys_.back()), std::move(value));
      keys_.pop_back();
    }
    return true;
  }

  bool open(Json value) {
    if (stack_.size() >= kMaxDepth) {
      return fail("nested deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    stack_.push_back(std::move(value));
    return true;
  }

  bool close() {
    Json value = std::move(stack_.back());
    stack_.pop_back();
    return add(std::move(value));
  }

  bool check_keys(const Json& object) {
    const auto& members = object.get_ref<const Json::object_t&>();
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const auto& member : members) names.push_back(member.first);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice == names.end()) return true;
    return fail("key '" + std::string(*twice) + "' is given twice");
  }

  Json root_;
  std::vector<Json> stack_;
  std::vector<std::string> keys_;
  std::string error_;
  size_t position_ = 0;
};

std::string place(std::string_view text, std::string_view source, size_t position) {
  std::string out(source);
  if (position == 0) return out;
  const std::string_view before = text.substr(0, std::min(position - 1, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t newline = before.rfind('\n');
  const size_t column =
      newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return out + ":" + std::to_string(line) + ":" + std::to_string(column);
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view source) {
  Builder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return invalid_argument(place(text, source, builder.position()) + ": " + builder.error());
  }
  return builder.take();
}

Result<Json> read_json_file(const std::string& path, int64_t max_bytes) {
  MS_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, max_bytes));
  return parse_json(text, path);
}

std::string json_text(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json json_float(float value) {
  if (!std::isfinite(value)) return Json(nullptr);
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  double wide = 0.0;
  std::from_chars(digits, end, wide);
  // Reading the digits as f64 and rounding to f32 could, in principle, round twice to a neighbour.
  return Json(static_cast<float>(wide) == value ? wide : static_cast<double>(value));
}

std::string_view json_kind(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "an integer";
    case Json::value_t::number_float:
      return "a number with a fraction";
    default:
      return "an unknown value";
  }
}

namespace {

/// An integer that fits i64; 3.0 is none, as in config files a float is never a count.
bool read_int(const Json& value, int64_t& out) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return false;
  out = value.get<int64_t>();
  return true;
}

}  // namespace

Result<JsonObject> JsonObject::from(const Json& value, std::string_view source,
                                    std::string_view path) {
  JsonObject object(&value, std::string(source), std::string(path));
  if (value.is_object()) return object;
  std::string where(source);
  if (!path.empty()) where += ": " + std::string(path);
  return invalid_argument(where + ": expected an object, got " + std::string(json_kind(value)));
}

const Json* JsonObject::find(std::string_view key) const {
  for (const auto& member : object_->get_ref<const Json::object_t&>()) {
    if (member.first == key) return member.second.is_null() ? nullptr : &member.second;
  }
  return nullptr;
}

std::string JsonObject::where(std::string_view key) const {
  std::string out = source_ + ": ";
  if (!path_.empty()) out += path_ + ".";
  out += key;
  return out;
}

Status JsonObject::error(std::string_view key, std::string_view problem) const {
  return invalid_argument(where(key) + ": " + std::string(problem));
}

Status JsonObject::wrong(std::string_view key, std::string_view expected, const Json* got) const {
  if (got == nullptr) return error(key, "is missing, expected " + std::string(expected));
  const std::string shown = got->is_number() ? json_text(*got) : std::string(json_kind(*got));
  return error(key, "expected " + std::string(expected) + ", got " + shown);
}

Result<bool> JsonObject::get_bool(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_boolean()) return wrong(key, "a boolean", value);
  return value->get<bool>();
}

Result<int64_t> JsonObject::get_int(std::string_view key) const {
  const Json* value = find(key);
  int64_t out = 0;
  if (value == nullptr || !read_int(*value, out)) return wrong(key, "an integer", value);
  return out;
}

Result<uint64_t> JsonObject::get_uint(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_number_unsigned()) {
    return wrong(key, "an integer from 0 to 18446744073709551615", value);
  }
  return value->get<uint64_t>();
}

Result<double> JsonObject::get_number(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_number()) return wrong(key, "a number", value);
  return value->get<double>();
}

Result<std::string> JsonObject::get_string(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_string()) return wrong(key, "a string", value);
  return value->get<std::string>();
}

Result<JsonObject> JsonObject::get_object(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_object()) return wrong(key, "an object", value);
  return JsonObject(value, source_,
                    path_.empty() ? std::string(key) : path_ + "." + std::string(key));
}

Result<std::vector<int64_t>> JsonObject::get_ints(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_array()) return wrong(key, "an array of integers", value);
  std::vector<int64_t> out(value->size());
  for (size_t i = 0; i < out.size(); ++i) {
    const Json& item = (*value)[i];
    if (!read_int(item, out[i])) {
      return wrong(std::string(key) + "[" + std::to_string(i) + "]", "an integer", &item);
    }
  }
  return out;
}

Result<std::vector<std::string>> JsonObject::get_strings(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || !value->is_array()) return wrong(key, "an array of strings", value);
  std::vector<std::string> out;
  for (const Json& item : *value) {
    if (!item.is_string()) {
      return wrong(std::string(key) + "[" + std::to_string(out.size()) + "]", "a string", &item);
    }
    out.push_back(item.get<std::string>());
  }
  return out;
}

Result<bool> JsonObject::get_bool_or(std::string_view key, bool fallback) const {
  return has(key) ? get_bool(key) : Result<bool>(fallback);
}

Result<int64_t> JsonObject::get_int_or(std::string_view key, int64_t fallback) const {
  return has(key) ? get_int(key) : Result<int64_t>(fallback);
}

Result<double> JsonObject::get_number_or(std::string_view key, double fallback) const {
  return has(key) ? get_number(key) : Result<double>(fallback);
}

Result<std::string> JsonObject::get_string_or(std::string_view key,
                                              std::string_view fallback) const {
  return has(key) ? get_string(key) : Result<std::string>(std::string(fallback));
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> out;
  for (const auto& member : object_->get_ref<const Json::object_t&>()) out.push_back(member.first);
  return out;
}

}  // namespace mainspring
