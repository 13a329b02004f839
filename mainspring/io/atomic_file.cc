#include "mainspring/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "mainspring/io/system_error.h"
#include "mainspring/io/write_all.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryPrefix = ".tmp-";

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// A name in the same folder that no other writer of this or another process takes.
std::string temporary_name(const std::string& path) {
  static std::atomic<uint64_t> counter{0};  // names only: has no effect on results
  const size_t slash = path.rfind('/');
  const size_t start = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(0, start) + std::string(kTemporaryPrefix) + std::to_string(::getpid()) + "-" +
         std::to_string(counter.fetch_add(1)) + "-" + path.substr(start);
}

Status sync_path(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (fd < 0) return system_error("open", path, errno);
  const int failed = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  return failed != 0 ? system_error("sync", path, error) : Status();
}

/// A trailing slash would put the temporary inside the target.
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

Status write_all(int fd, const void* data, size_t size, const std::string& path) {
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t wrote = ::write(fd, bytes, size);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return system_error("write", path, errno);
    bytes += wrote;
    size -= static_cast<size_t>(wrote);
  }
  return Status();
}

Status sync_directory(const std::string& path) { return sync_path(path, O_DIRECTORY); }

Status write_file_atomically(const std::string& path, std::string_view text) {
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::create(path));
  MS_RETURN_IF_ERROR(file->append(text));
  return file->commit();
}

Result<std::unique_ptr<AtomicFile>> AtomicFile::create(const std::string& path) {
  std::unique_ptr<AtomicFile> file(new AtomicFile());
  file->path_ = path;
  file->temporary_ = temporary_name(path);
  file->fd_ = ::open(file->temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file->fd_ < 0) return system_error("create", path, errno);
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::append(std::string_view bytes) {
  return write_all(fd_, bytes.data(), bytes.size(), path_);
}

Status AtomicFile::commit() {
  MS_CHECK(fd_ >= 0, "commit twice");
  if (::fsync(fd_) != 0) return system_error("sync", path_, errno);
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) return system_error("close", path_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    return system_error("rename to", path_, errno);
  temporary_.clear();
  return sync_directory(parent_of(path_));
}

Result<std::unique_ptr<AtomicDir>> AtomicDir::create(const std::string& target) {
  std::unique_ptr<AtomicDir> folder(new AtomicDir());
  folder->target_ = without_slash(target);
  struct stat info = {};
  if (::lstat(folder->target_.c_str(), &info) == 0)
    return already_exists(folder->target_ + ": already exists");
  const std::string temporary = temporary_name(folder->target_);
  if (::mkdir(temporary.c_str(), 0755) != 0) return system_error("create", folder->target_, errno);
  folder->temporary_ = temporary;
  return folder;
}

AtomicDir::~AtomicDir() {
  if (temporary_.empty()) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

Status AtomicDir::commit() {
  MS_CHECK(!temporary_.empty(), "commit twice");
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(temporary_, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) {
      MS_RETURN_IF_ERROR(sync_directory(it->path().string()));
    } else if (it->is_regular_file(ignored)) {
      MS_RETURN_IF_ERROR(sync_path(it->path().string(), 0));
    }
  }
  if (error) return system_error("list", temporary_, error.value());
  MS_RETURN_IF_ERROR(sync_directory(temporary_));
  // RENAME_NOREPLACE: plain rename would silently replace an empty folder of that name.
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_NOREPLACE) != 0) {
    const bool unsupported = errno == EINVAL || errno == ENOSYS;
    if (!unsupported) return system_error("rename to", target_, errno);
    if (::rename(temporary_.c_str(), target_.c_str()) != 0)
      return system_error("rename to", target_, errno);
  }
  temporary_.clear();
  return sync_directory(parent_of(target_));
}

Result<int64_t> remove_temporaries(const std::string& folder) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) return system_error("list", folder, error.value());
  int64_t removed = 0;
  for (const fs::directory_entry& entry : entries) {
    if (!entry.path().filename().string().starts_with(kTemporaryPrefix)) continue;
    MS_RETURN_IF_ERROR(remove_tree(entry.path().string()));
    ++removed;
  }
  return removed;
}

Status make_directories(const std::string& path) {
  std::error_code error;
  fs::create_directories(without_slash(path), error);
  return error ? system_error("create", path, error.value()) : Status();
}

Status remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return error ? system_error("remove", path, error.value()) : Status();
}

}  // namespace mainspring
