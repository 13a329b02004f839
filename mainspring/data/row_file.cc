#include "mainspring/data/row_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "mainspring/data/data_feature.h"
#include "mainspring/io/decompress.h"
#include "mainspring/io/system_error.h"
#include "mainspring/io/write_all.h"

namespace mainspring {
namespace {

constexpr int64_t kAnchorRows = 32;
constexpr int64_t kAnchorBytes = 64 * 1024;
constexpr size_t kReadBytes = size_t{1} << 20;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

void touch(const ReadOptions& options, const std::string& path) {
  if (options.activity) options.activity->touch(path);
}

/// Whether reading comes to an end. Of devices only a terminal and the null device do: copying
/// another one would fill the disk.
bool has_end(int fd, const struct stat& info) {
  if (S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) return true;
  return S_ISCHR(info.st_mode) && (::isatty(fd) == 1 || info.st_rdev == ::makedev(1, 3));
}

/// A temporary file without a name: gone when closed.
Result<int> make_unnamed_file() {
  const char* folder = std::getenv("TMPDIR");
  std::string name =
      std::string(folder != nullptr && *folder != 0 ? folder : "/tmp") + "/mainspring-XXXXXX";
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return system_error("create", name, errno);
  ::unlink(name.c_str());
  return fd;
}

}  // namespace

RowFile::~RowFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::shared_ptr<const RowFile>> RowFile::open(const std::string& path,
                                                     const ReadOptions& options,
                                                     Checksum128& digest) {
  touch(options, path);
  if (options.before_read) options.before_read(path);
  // Without O_NONBLOCK, opening a pipe would wait for its writer where no deadline reaches.
  std::string local = path;
  if (is_url(path)) {
    FetchOptions fetch;
    fetch.on_fetch = options.on_fetch;
    fetch.touch = [&] { touch(options, path); };
    MS_ASSIGN_OR_RETURN(const FetchedObject object, fetch_object(path, fetch));
    local = object.path;
  }
  const int fd = ::open(local.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error("open", path, errno);
  return adopt(fd, path, options, digest);
}

Result<std::shared_ptr<const RowFile>> RowFile::standard_input(const ReadOptions& options,
                                                               Checksum128& digest) {
  // By a copy of the descriptor: /dev/stdin cannot be opened where it is a socket.
  const int fd = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return system_error("read", "standard input", errno);
  return adopt(fd, "standard input", options, digest);
}

Result<std::shared_ptr<const RowFile>> RowFile::adopt(int fd, std::string path,
                                                      const ReadOptions& options,
                                                      Checksum128& digest) {
  std::shared_ptr<RowFile> file(new RowFile());
  file->path_ = std::move(path);
  file->fd_ = fd;
  struct stat info{};
  if (::fstat(fd, &info) != 0) return system_error("inspect", file->path_, errno);
  if (S_ISDIR(info.st_mode)) {
    return invalid_argument(file->path_ + ": is a folder; expected a JSONL file");
  }
  if (!has_end(fd, info)) {
    return invalid_argument(file->path_ + ": is a device without an end; expected a JSONL file");
  }
  if (S_ISREG(info.st_mode)) {
    file->size_bytes_ = info.st_size;
  } else {
    file->fd_ = -1;
    const Status spooled = file->spool(fd, options);
    ::close(fd);
    MS_RETURN_IF_ERROR(spooled);
  }
  MS_RETURN_IF_ERROR(file->unpack(options));
  MS_RETURN_IF_ERROR(file->build_index(options, digest));
  return std::shared_ptr<const RowFile>(std::move(file));
}

/// Copies what cannot be read twice to a temporary file, which becomes fd_.
Status RowFile::spool(int source, const ReadOptions& options) {
  MS_ASSIGN_OR_RETURN(fd_, make_unnamed_file());
  std::vector<char> buffer(kReadBytes);
  const int timeout_ms =
      static_cast<int>(std::min(1e9, std::max(1.0, 1e3 * options.stall_timeout_s)));
  while (true) {
    pollfd waiting{source, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, timeout_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return system_error("wait for", path_, errno);
    if (ready == 0) {
      char seconds[32];
      std::snprintf(seconds, sizeof(seconds), "%.3g", options.stall_timeout_s);
      return deadline_exceeded(path_ + ": is a pipe that gave nothing for " + seconds +
                               " s after " + std::to_string(size_bytes_) +
                               " bytes; its writer must write and close");
    }
    const ssize_t n = ::read(source, buffer.data(), buffer.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return system_error("read", path_, errno);
    if (n == 0) return {};
    touch(options, path_);
    MS_RETURN_IF_ERROR(
        write_all(fd_, buffer.data(), static_cast<size_t>(n), path_ + " (its temporary copy)"));
    size_bytes_ += n;
  }
}

/// The temporary file becomes fd_.
Status RowFile::unpack(const ReadOptions& options) {
  char head[std::max(kCompressionMagicBytes, kParquetMagicBytes)];
  MS_ASSIGN_OR_RETURN(const size_t head_bytes, read_at(fd_, 0, head, sizeof(head), options));
  const Compression kind = compression_of({head, head_bytes});
  const bool parquet = is_parquet({head, head_bytes});
  if (kind == Compression::kNone && !parquet) return {};
  MS_ASSIGN_OR_RETURN(const int plain, make_unnamed_file());
  const int packed = std::exchange(fd_, plain);
  const int64_t packed_bytes = std::exchange(size_bytes_, 0);
  const Status status = parquet ? unpack_parquet(packed, options)
                                : decompress_into(kind, packed, packed_bytes, options);
  ::close(packed);
  return status;
}

Status RowFile::unpack_parquet(int from, const ReadOptions& options) {
  // By its descriptor: what came through a pipe has no name.
  MS_ASSIGN_OR_RETURN(const auto file,
                      ParquetFile::open("/proc/self/fd/" + std::to_string(from), path_));
  std::vector<std::string> wanted;
  for (const std::string& column : options.columns) {
    if (file->has_column(column)) wanted.push_back(column);
  }
  if (wanted.empty() && !options.columns.empty()) {
    std::string names;
    for (const std::string& column : options.columns) names += (names.empty() ? "" : ", ") + column;
    return invalid_argument(path_ + ": has the columns " + file->column_names() +
                            "; expected at least one of " + names);
  }
  return file->read_lines(0, file->groups().size(), wanted, [&](std::string_view lines) -> Status {
    touch(options, path_);
    size_bytes_ += static_cast<int64_t>(lines.size());
    return write_all(fd_, lines.data(), lines.size(), path_ + " (the copy of its rows)");
  });
}

Status RowFile::decompress_into(Compression kind, int from, int64_t from_bytes,
                                const ReadOptions& options) {
  const auto stream = Decompressor::create(kind, path_);
  std::vector<char> buffer(kReadBytes);
  int64_t offset = 0;
  while (offset < from_bytes) {
    MS_ASSIGN_OR_RETURN(const size_t n,
                        read_at(from, offset, buffer.data(), buffer.size(), options));
    if (n == 0) return data_loss(path_ + ": was shortened while it was read");
    offset += static_cast<int64_t>(n);
    MS_RETURN_IF_ERROR(stream->push({buffer.data(), n}, [&](std::string_view plain) -> Status {
      size_bytes_ += static_cast<int64_t>(plain.size());
      return write_all(fd_, plain.data(), plain.size(), path_ + " (its decompressed copy)");
    }));
  }
  return stream->finish();
}

Result<size_t> RowFile::read_at(int fd, int64_t offset, char* buffer, size_t size,
                                const ReadOptions& options) const {
  size_t done = 0;
  while (done < size) {
    touch(options, path_);
    if (options.before_read) options.before_read(path_);
    const ssize_t n = ::pread(fd, buffer + done, size - done, offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("read", path_, errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  touch(options, path_);
  return done;
}

Status RowFile::build_index(const ReadOptions& options, Checksum128& digest) {
  std::vector<char> buffer(static_cast<size_t>(std::min<int64_t>(kReadBytes, size_bytes_ + 1)));
  int64_t line_offset = 0;
  int64_t line = 1;
  bool blank = true;
  const auto end_line = [&](int64_t end_offset) -> Status {
    if (end_offset - line_offset > kMaxRowBytes) {
      return invalid_argument(path_ + ":" + std::to_string(line) + ": the row is longer than " +
                              std::to_string(kMaxRowBytes >> 20) + " MiB");
    }
    if (!blank) {
      if (anchors_.empty() || num_rows_ - anchors_.back().row >= kAnchorRows ||
          line_offset - anchors_.back().offset >= kAnchorBytes) {
        anchors_.push_back({num_rows_, line_offset, line});
      }
      ++num_rows_;
    }
    line_offset = end_offset + 1;
    ++line;
    blank = true;
    return {};
  };
  int64_t offset = 0;
  while (offset < size_bytes_) {
    const size_t wanted =
        std::min<size_t>(buffer.size(), static_cast<size_t>(size_bytes_ - offset));
    MS_ASSIGN_OR_RETURN(const size_t n, read_at(fd_, offset, buffer.data(), wanted, options));
    if (n < wanted) return data_loss(path_ + ": was shortened while it was read");
    size_t begin =
        offset == 0 && n >= 3 && std::memcmp(buffer.data(), "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    digest.update(buffer.data() + begin, n - begin);
    if (begin == 3) line_offset = 3;
    while (begin < n) {
      const char* start = buffer.data() + begin;
      const auto* newline = static_cast<const char*>(std::memchr(start, '\n', n - begin));
      const size_t length = newline != nullptr ? static_cast<size_t>(newline - start) : n - begin;
      if (blank) blank = is_blank({start, length});
      begin += length;
      if (newline == nullptr) break;
      MS_RETURN_IF_ERROR(end_line(offset + static_cast<int64_t>(begin)));
      ++begin;
    }
    offset += static_cast<int64_t>(n);
  }
  if (line_offset < size_bytes_) {  // the last line has no newline
    digest.update("\n", 1);
    MS_RETURN_IF_ERROR(end_line(size_bytes_));
  }
  return {};
}

Result<FileRow> RowFile::read(int64_t index, const ReadOptions& options) const {
  MS_CHECK(index >= 0 && index < num_rows_, "row number outside the file");
  const auto after =
      std::upper_bound(anchors_.begin(), anchors_.end(), index,
                       [](int64_t row, const Anchor& anchor) { return row < anchor.row; });
  const Anchor& anchor = *(after - 1);
  int64_t row = anchor.row;
  int64_t line = anchor.line;
  int64_t offset = anchor.offset;
  std::string text;  // of the line that is being gathered
  std::vector<char> buffer(
      static_cast<size_t>(std::min<int64_t>(kAnchorBytes, size_bytes_ - offset)));
  while (offset < size_bytes_) {
    const size_t wanted =
        std::min<size_t>(buffer.size(), static_cast<size_t>(size_bytes_ - offset));
    MS_ASSIGN_OR_RETURN(const size_t n, read_at(fd_, offset, buffer.data(), wanted, options));
    if (n < wanted) return data_loss(path_ + ": is shorter than when the run opened it");
    size_t begin = 0;
    while (begin < n) {
      const char* start = buffer.data() + begin;
      const auto* newline = static_cast<const char*>(std::memchr(start, '\n', n - begin));
      const size_t length = newline != nullptr ? static_cast<size_t>(newline - start) : n - begin;
      text.append(start, length);
      begin += length;
      if (newline == nullptr && offset + static_cast<int64_t>(n) < size_bytes_) break;
      ++begin;
      const bool is_row = !is_blank(text);
      if (is_row && row == index) {
        if (text.back() == '\r') text.pop_back();
        return FileRow{std::move(text), line};
      }
      if (is_row) ++row;
      ++line;
      text.clear();
    }
    offset += static_cast<int64_t>(n);
  }
  return data_loss(path_ + ": has other lines than when the run opened it");
}

Result<std::shared_ptr<const RowList>> RowList::open(const std::vector<std::string>& paths,
                                                     const ReadOptions& options) {
  auto list = std::make_shared<RowList>();
  Checksum128 digest;
  int64_t rows = 0;
  std::string names;
  for (const std::string& path : paths) {
    MS_ASSIGN_OR_RETURN(std::shared_ptr<const RowFile> file, RowFile::open(path, options, digest));
    rows += file->num_rows();
    list->files_.push_back(std::move(file));
    list->ends_.push_back(rows);
    names += (names.empty() ? "" : ", ") + path;
  }
  if (rows == 0) return invalid_argument((names.empty() ? "data" : names) + ": has no rows");
  list->digest_ = digest.digest();
  return std::shared_ptr<const RowList>(std::move(list));
}

Result<RowList::Row> RowList::read(int64_t index, const ReadOptions& options) const {
  const size_t f =
      static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  const int64_t first = f == 0 ? 0 : ends_[f - 1];
  MS_ASSIGN_OR_RETURN(FileRow row, files_[f]->read(index - first, options));
  return Row{std::move(row.text), files_[f]->path(), row.line};
}

}  // namespace mainspring
