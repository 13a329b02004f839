// LinesFile: a file of JSON lines that is only appended to and survives a kill.
//
// The one idea: a line is one write(2) with O_APPEND; after a kill at most the last line is broken,
// and opening or cutting the file removes it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "mainspring/base/status.h"
#include "mainspring/io/json_fwd.h"

namespace mainspring {

class LinesFile {
 public:
  explicit LinesFile(std::string path) : path_(std::move(path)) {}
  ~LinesFile();
  LinesFile(const LinesFile&) = delete;
  LinesFile& operator=(const LinesFile&) = delete;

  const std::string& path() const { return path_; }

  /// Opens on the first call. A write that the disk refused half-way is taken back.
  /// Errors: resource exhausted for a full disk; else the system's.
  Status append(const Json& line);

  /// Calls `line(json, text)` for each whole line, in order; the first line that is no JSON, or for
  /// which it returns false, ends the walk and, with `cut`, the file: it is truncated there. A
  /// missing file has no lines. Memory: one line.
  Status scan(bool cut, const std::function<bool(const Json& json)>& line);

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace mainspring
