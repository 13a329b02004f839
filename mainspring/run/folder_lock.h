// FolderLock: one process writes to a folder at a time; the lock goes with the process, however it
// ends.
#pragma once

#include <string>

#include "mainspring/base/status.h"

namespace mainspring {

class FolderLock {
 public:
  FolderLock() = default;
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Takes `dir`/.lock, which is made. `what` names the folder's content: "run". Errors: failed
  /// precondition if another process holds it, with that process's id; else the system's.
  Status take(const std::string& dir, const std::string& what);

 private:
  int fd_ = -1;
};

}  // namespace mainspring
