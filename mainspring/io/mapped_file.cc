#include "mainspring/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "mainspring/io/system_error.h"

namespace mainspring {
namespace {

/// Closes a descriptor on every way out.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Result<int64_t> open_regular(const std::string& path, Descriptor& file) {
  file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.fd < 0) return system_error("open", path, errno);
  struct stat info = {};
  if (::fstat(file.fd, &info) != 0) return system_error("stat", path, errno);
  if (S_ISDIR(info.st_mode)) return invalid_argument(path + ": is a folder, expected a file");
  if (!S_ISREG(info.st_mode)) return invalid_argument(path + ": is not a regular file");
  return static_cast<int64_t>(info.st_size);
}

/// The live mappings: begin to end.
struct Mappings {
  std::mutex mutex;
  std::map<uintptr_t, uintptr_t> ends;
};
Mappings& mappings() {
  static auto* all = new Mappings();  // outlives static files
  return *all;
}

}  // namespace

MappedFile::MappedFile(std::string path, const uint8_t* data, size_t size)
    : path_(std::move(path)), data_(data), size_(size) {
  if (size_ == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(data_);
  const std::lock_guard lock(mappings().mutex);
  mappings().ends[begin] = begin + size_;
}

void MappedFile::let_go(const void* data, size_t size) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const std::lock_guard lock(mappings().mutex);
  const auto after = mappings().ends.upper_bound(begin);
  if (after == mappings().ends.begin() || std::prev(after)->second < begin + size) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + size) / page * page;
  if (first >= last) return;
  // A hint: if the system refuses it, the pages merely stay.
  ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  Descriptor file;
  MS_ASSIGN_OR_RETURN(const int64_t size, open_regular(path, file));
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(path, nullptr, 0));
  void* data = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) return system_error("map", path, errno);
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, static_cast<const uint8_t*>(data), static_cast<size_t>(size)));
}

MappedFile::~MappedFile() {
  if (size_ == 0) return;
  const std::lock_guard lock(mappings().mutex);
  mappings().ends.erase(reinterpret_cast<uintptr_t>(data_));
  ::munmap(const_cast<uint8_t*>(data_), size_);
}

Result<std::string> read_text_file(const std::string& path, int64_t max_bytes) {
  Descriptor file;
  MS_ASSIGN_OR_RETURN(const int64_t size, open_regular(path, file));
  if (size > max_bytes) {
    return invalid_argument(path + ": holds " + std::to_string(size) + " bytes, at most " +
                            std::to_string(max_bytes) + " are read");
  }
  // A file may grow while it is read (a log); what it held when opened is returned.
  std::string text(static_cast<size_t>(size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::read(file.fd, text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read", path, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

bool is_directory(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool is_regular_file(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  path += name;
  return path;
}

}  // namespace mainspring
