// GgufWriter: a GGUF file (version 3), written a tensor at a time.
//
// The one idea: header first, then the tensors' bytes in the order announced, so memory stays at
// one tensor; the file appears whole, by one rename. Layout: ggml's docs/gguf.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/atomic_file.h"

namespace mainspring {

/// Metadata pairs in the order added, packed as in the file. Keys are not checked for repetition.
class GgufMetadata {
 public:
  void add_u32(std::string_view key, uint32_t value);
  void add_f32(std::string_view key, float value);
  void add_bool(std::string_view key, bool value);
  void add_text(std::string_view key, std::string_view value);
  void add_texts(std::string_view key, std::span<const std::string> values);
  void add_i32s(std::string_view key, std::span<const int32_t> values);
  void add_f32s(std::string_view key, std::span<const float> values);

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void head(std::string_view key, uint32_t type);
  std::string bytes_;
  uint64_t count_ = 0;
};

/// A tensor to come. dims: the fastest-varying first, so a matrix (out, in) has dims {in, out}.
struct GgufTensorSpec {
  std::string name;
  uint32_t type = 0;  // kGgmlF32 ...
  std::vector<int64_t> dims;
  int64_t size_bytes = 0;
};

/// Threads: one.
class GgufWriter {
 public:
  /// Errors: the system's.
  static Result<std::unique_ptr<GgufWriter>> create(const std::string& path,
                                                    const GgufMetadata& metadata,
                                                    std::vector<GgufTensorSpec> tensors);

  /// The next tensor's bytes, all of them. Errors: invalid argument if it has another size than
  /// announced or none is left; the system's (resource exhausted: disk full).
  Status append(const void* data, int64_t size_bytes);
  /// Pads the last tensor and gives the path where the whole file lies before commit.
  /// Errors: failed precondition if tensors are missing; the system's.
  Result<std::string> finish();
  /// After finish: the file takes its name. Errors: the system's.
  Status commit();

 private:
  GgufWriter() = default;
  Status pad();

  std::string path_;
  std::unique_ptr<AtomicFile> file_;
  std::vector<GgufTensorSpec> tensors_;
  size_t next_ = 0;
  int64_t written_ = 0;
};

}  // namespace mainspring
