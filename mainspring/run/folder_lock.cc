#include "mainspring/run/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "mainspring/io/mapped_file.h"
#include "mainspring/io/system_error.h"

namespace mainspring {

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

Status FolderLock::take(const std::string& dir, const std::string& what) {
  const std::string path = join_path(dir, ".lock");
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) return system_error("open", path, errno);
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    char pid[32] = {};
    const ssize_t n = ::pread(fd_, pid, sizeof(pid) - 1, 0);
    return failed_precondition(dir + ": another process is writing to this " + what +
                               (n > 0 ? " (process " + std::string(pid) + ")" : ""));
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(fd_, 0) != 0 ||
      ::pwrite(fd_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return system_error("write", path, errno);
  }
  return {};
}

}  // namespace mainspring
