#include "mainspring/ckpt/file_ops.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "mainspring/io/atomic_file.h"
#include "mainspring/io/system_error.h"
#include "mainspring/io/write_all.h"

namespace mainspring {
namespace {

class SystemFile final : public OutputFile {
 public:
  SystemFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~SystemFile() override { ::close(fd_); }
  Status write(std::span<const uint8_t> bytes) override {
    return write_all(fd_, bytes.data(), bytes.size(), path_);
  }
  Status sync() override {
    return ::fsync(fd_) == 0 ? Status() : system_error("sync", path_, errno);
  }

 private:
  int fd_;
  std::string path_;
};

class SystemFileOps final : public FileOps {
 public:
  Status make_dirs(const std::string& path) override { return make_directories(path); }
  Result<std::unique_ptr<OutputFile>> create(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) return system_error("create", path, errno);
    return std::unique_ptr<OutputFile>(new SystemFile(fd, path));
  }
  Status rename(const std::string& from, const std::string& to) override {
    return std::rename(from.c_str(), to.c_str()) == 0
               ? Status()
               : system_error("rename to " + to, from, errno);
  }
  Status sync_dir(const std::string& path) override { return sync_directory(path); }
  Status remove_all(const std::string& path) override { return remove_tree(path); }
};

}  // namespace

FileOps& system_file_ops() {
  static SystemFileOps ops;
  return ops;
}

}  // namespace mainspring
