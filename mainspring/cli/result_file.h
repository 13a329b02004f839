// ResultFile: rows of results, one after another, of which a crash loses none that was written.
//
// The one idea: rows go to <path>.partial, each handed to the system when it is written; at the end
// the file takes its name, so whoever reads <path> sees all rows or the file that was there before.
// Resuming keeps the whole rows of <path>.partial if <path>.partial.json says that they were made
// with what this run is made with. A pipe or device is written directly, and so is whatever
// standard output is ("-", /dev/stdout). A link is followed: the file that it names is replaced,
// not it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring::cli {

/// What decides the rows of a file: names and values, for people to read.
using MadeWith = std::vector<std::pair<std::string, std::string>>;

class ResultFile {
 public:
  /// Errors: already exists if <path>.partial holds rows and `resume` is false; invalid argument if
  /// they were made with something else; the system's.
  /// `made_with` is asked only where it is kept: it may be dear.
  static Result<std::unique_ptr<ResultFile>> open(const std::string& path, bool resume,
                                                  const std::function<MadeWith()>& made_with);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  /// True when resuming finds `path` finished: nothing is left of an interrupted run.
  static bool is_finished(const std::string& path);

  /// Rows found when resuming, without their newlines.
  const std::vector<std::string>& kept_rows() const { return kept_rows_; }
  /// Where rows are before commit, for messages.
  const std::string& partial_path() const { return partial_; }

  /// Appends `row` and a newline. Errors: resource exhausted (disk full); the system's.
  Status append(std::string_view row);
  /// Syncs and renames. Errors: the system's; the partial file is left.
  Status commit();

 private:
  ResultFile() = default;
  Status keep_rows();
  Status check_made_with(const MadeWith& made_with) const;
  std::string made_with_path() const { return partial_ + ".json"; }

  std::string path_;
  std::string partial_;  // empty: written directly
  int fd_ = -1;
  bool owns_fd_ = true;
  std::vector<std::string> kept_rows_;
};

/// What --resume finds before any work: true, told on stderr, if `out` is finished. Errors: invalid
/// argument for "-", which cannot be gone on with.
Result<bool> is_nothing_to_resume(std::string_view verb, const std::string& out);

/// What an interrupted command says: cancelled, with what is done and how to go on.
Status stopped_after(size_t done, size_t all, const ResultFile& out);

}  // namespace mainspring::cli
