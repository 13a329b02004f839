#include "mainspring/run/lines_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "mainspring/io/json.h"
#include "mainspring/io/system_error.h"

namespace mainspring {

LinesFile::~LinesFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status LinesFile::append(const Json& line) {
  if (fd_ < 0) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd_ < 0) return system_error("open", path_, errno);
  }
  struct stat before{};
  if (::fstat(fd_, &before) != 0) return system_error("inspect", path_, errno);
  std::string text = json_text(line);
  text.push_back('\n');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      if (done > 0 && ::ftruncate(fd_, before.st_size) != 0)
        return system_error("cut", path_, errno);
      return system_error("write", path_, error);
    }
    done += static_cast<size_t>(n);
  }
  return {};
}

Status LinesFile::scan(bool cut, const std::function<bool(const Json& json)>& line) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path_.c_str(), "re"),
                                                       std::fclose);
  if (!file) return errno == ENOENT ? Status() : system_error("open", path_, errno);
  char* buffer = nullptr;
  size_t capacity = 0;
  int64_t kept_bytes = 0;
  bool whole = true;
  while (whole) {
    const ssize_t n = ::getline(&buffer, &capacity, file.get());
    if (n <= 0) break;
    whole = buffer[n - 1] == '\n';
    if (whole) {
      const Json json = Json::parse(buffer, buffer + n, nullptr, /*allow_exceptions=*/false);
      whole = !json.is_discarded() && line(json);
    }
    if (whole) kept_bytes += n;
  }
  std::free(buffer);
  if (whole || !cut) return {};
  if (::truncate(path_.c_str(), kept_bytes) != 0) return system_error("cut", path_, errno);
  return {};
}

}  // namespace mainspring
