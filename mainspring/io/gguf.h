// GGUF: llama.cpp's model files (versions 2 and 3), read by memory map.
//
// The one idea: every count, length, offset and type is checked while opening, and nothing is
// allocated that the file's own size does not bound, so a reader of metadata() and tensors() meets
// no surprise. Strings and arrays point into the mapping. Layout: ggml's docs/gguf.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/mapped_file.h"

namespace mainspring {

/// Types of metadata values, numbered as in the file.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// "u8", "string", "array" ...
std::string_view gguf_type_name(GgufType type);

/// One metadata value; which field is set follows from `type`.
struct GgufValue {
  GgufType type = GgufType::kU8;
  int64_t integer = 0;  // signed types, and unsigned ones that fit
  uint64_t unsigned_integer = 0;
  double number = 0.0;  // kF32, kF64
  bool boolean = false;
  std::string_view string;

  // kArray:
  GgufType element = GgufType::kU8;
  std::span<const uint8_t> elements;      // packed numbers or booleans, unaligned
  std::vector<std::string_view> strings;  // element == kString
  std::vector<GgufValue> arrays;          // element == kArray
  int64_t count = 0;
};

/// One tensor. dims as in the file: the fastest-varying first, so a matrix (out, in) has dims {in,
/// out}.
struct GgufTensor {
  std::string name;
  uint32_t type = 0;
  std::string_view type_name;  // "F32", "Q4_1", "Q6_K" ...
  std::vector<int64_t> dims;
  const uint8_t* data = nullptr;
  int64_t size_bytes = 0;
};

/// Tensor types of interest, numbered as in the file.
inline constexpr uint32_t kGgmlF32 = 0;
inline constexpr uint32_t kGgmlF16 = 1;
inline constexpr uint32_t kGgmlQ4_0 = 2;
inline constexpr uint32_t kGgmlQ4_1 = 3;
inline constexpr uint32_t kGgmlQ5_0 = 6;
inline constexpr uint32_t kGgmlQ5_1 = 7;
inline constexpr uint32_t kGgmlQ8_0 = 8;
inline constexpr uint32_t kGgmlQ4_K = 12;
inline constexpr uint32_t kGgmlQ5_K = 13;
inline constexpr uint32_t kGgmlQ6_K = 14;
inline constexpr uint32_t kGgmlBF16 = 30;

/// Threads: immutable after open.
class GgufFile {
 public:
  /// Errors: not found; invalid argument with the file, the place and what was expected, for
  /// anything that is not a well-formed GGUF file; unimplemented for version 1, other versions and
  /// big-endian files.
  static Result<std::shared_ptr<const GgufFile>> open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  uint32_t version() const { return version_; }
  int64_t alignment() const { return alignment_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const std::map<std::string, GgufTensor, std::less<>>& tensors() const { return tensors_; }
  /// Keeps every pointer of this object valid.
  const std::shared_ptr<const MappedFile>& file() const { return file_; }

  bool has(std::string_view key) const { return metadata_.contains(key); }
  // Typed reads of metadata. Any integer type serves get_int, any number get_number.
  // Errors: not found if absent; invalid argument for another type; each with the path and the key.
  Result<int64_t> get_int(std::string_view key) const;
  Result<double> get_number(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string> get_string(std::string_view key) const;
  Result<std::vector<int64_t>> get_ints(std::string_view key) const;
  Result<std::vector<float>> get_floats(std::string_view key) const;
  Result<std::vector<std::string>> get_strings(std::string_view key) const;

 private:
  GgufFile() = default;
  Status wrong(std::string_view key, std::string_view expected) const;

  std::shared_ptr<const MappedFile> file_;
  uint32_t version_ = 0;
  int64_t alignment_ = 32;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::map<std::string, GgufTensor, std::less<>> tensors_;

  friend class GgufParser;
};

}  // namespace mainspring
