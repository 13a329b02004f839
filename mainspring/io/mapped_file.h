// MappedFile: a whole file as read-only memory.
//
// The one idea: weights are used where they lie; whoever holds the shared_ptr keeps the mapping, so
// a tensor's owner is simply the file. Not for files that others shorten while we read: a mapping
// of a truncated file faults (SIGBUS); checkpoints and models are replaced by rename, never
// rewritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "mainspring/base/status.h"

namespace mainspring {

/// Threads: immutable after open.
class MappedFile {
 public:
  /// Maps the file; an empty file gives an empty span.
  /// Errors: not found; invalid argument if it is no regular file; resource exhausted if the
  /// address space is; unavailable for other refusals of the system. Each names the path and the
  /// system's reason.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Lets the whole pages within [data, data + size) go, if these bytes lie in a mapped file: they
  /// no longer count as the process's memory and come back from the file when they are read.
  /// Nothing for other memory.
  static void let_go(const void* data, size_t size);

  const std::string& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  MappedFile(std::string path, const uint8_t* data, size_t size);

  std::string path_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

/// The whole file as a string. Errors: as MappedFile::open; invalid argument if it holds more than
/// `max_bytes`.
Result<std::string> read_text_file(const std::string& path, int64_t max_bytes = int64_t{1} << 31);

bool is_directory(const std::string& path);
bool is_regular_file(const std::string& path);

/// `folder` + "/" + `name`, without doubling the slash.
std::string join_path(std::string_view folder, std::string_view name);

}  // namespace mainspring
