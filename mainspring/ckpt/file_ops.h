// FileOps: the few file-system calls a save is made of.
//
// The one idea: everything a checkpoint writer does to the disk goes through here, so a test can
// fail the nth call, fill the disk or stop the world at any of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

/// A file being written front to back. Closing without sync is allowed; the destructor closes.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  /// Errors: resource exhausted if the disk is full; unavailable for other refusals. Names the
  /// path.
  virtual Status write(std::span<const uint8_t> bytes) = 0;
  /// Waits until the bytes are on the disk.
  virtual Status sync() = 0;
};

/// Errors of all: as system_error.h, with the path. Threads: safe to call from several.
class FileOps {
 public:
  virtual ~FileOps() = default;
  virtual Status make_dirs(const std::string& path) = 0;
  /// A new, empty file; one that exists is replaced.
  virtual Result<std::unique_ptr<OutputFile>> create(const std::string& path) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status sync_dir(const std::string& path) = 0;
  /// Removes a file or a whole folder; nothing there is ok.
  virtual Status remove_all(const std::string& path) = 0;
};

/// The real thing. One object for the process, without state.
FileOps& system_file_ops();

}  // namespace mainspring
