// Atomic files and folders: a reader sees all of it or none of it, also after a crash at any
// moment.
//
// The one idea: write under a temporary name in the same folder, sync, rename, sync the folder.
// Temporary names start with ".tmp-", so a crash leaves garbage that is told from data and can be
// swept.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "mainspring/base/status.h"

namespace mainspring {

/// Replaces `path` by a file of exactly `text`. On an error the old file is untouched and nothing
/// is left. Errors: not found (the folder); resource exhausted (disk full); else the system's.
Status write_file_atomically(const std::string& path, std::string_view text);

/// A file written in pieces that appears under its name at commit. Threads: one.
class AtomicFile {
 public:
  static Result<std::unique_ptr<AtomicFile>> create(const std::string& path);
  ~AtomicFile();  // without commit: removes the temporary file
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  Status append(std::string_view bytes);
  /// What is written so far, to be looked at before commit.
  const std::string& temporary_path() const { return temporary_; }
  /// Sync, rename, sync the folder. After an error the old file is untouched.
  Status commit();

 private:
  AtomicFile() = default;
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

/// A folder filled under a temporary name that appears under its own at commit. The caller writes
/// files below path(); each must be complete (SafetensorsWriter::finish, write_file_atomically).
/// Threads: one.
class AtomicDir {
 public:
  /// Errors: already exists if `target` does; not found if its parent folder does not.
  static Result<std::unique_ptr<AtomicDir>> create(const std::string& target);
  ~AtomicDir();  // without commit: removes the temporary folder
  AtomicDir(const AtomicDir&) = delete;
  AtomicDir& operator=(const AtomicDir&) = delete;

  /// The temporary folder to write into.
  const std::string& path() const { return temporary_; }
  /// Syncs every file and folder below, renames, syncs the parent. Errors: already exists if
  /// `target` appeared meanwhile; else the system's. After an error nothing has appeared.
  Status commit();

 private:
  AtomicDir() = default;
  std::string target_;
  std::string temporary_;
};

/// Removes what crashed writers left in `folder`: entries whose names start with ".tmp-". Returns
/// how many.
Result<int64_t> remove_temporaries(const std::string& folder);

/// Makes a folder and its missing parents. Errors: the system's.
Status make_directories(const std::string& path);

/// Removes a file or a folder with all it holds; nothing there is fine. Errors: the system's.
Status remove_tree(const std::string& path);

/// Makes the folder's entries durable. Errors: the system's.
Status sync_directory(const std::string& path);

}  // namespace mainspring
