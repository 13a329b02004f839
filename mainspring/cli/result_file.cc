#include "mainspring/cli/result_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "mainspring/io/atomic_file.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/io/system_error.h"
#include "mainspring/io/write_all.h"

namespace mainspring::cli {
namespace {

bool is_stream(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/// True for "-" and every name of what standard output is: /dev/stdout, /proc/self/fd/1, ...
bool is_stdout(const std::string& path) {
  struct stat info;
  struct stat out;
  if (path == "-") return true;
  return std::filesystem::is_symlink(std::filesystem::symlink_status(path)) &&
         stat(path.c_str(), &info) == 0 && fstat(STDOUT_FILENO, &out) == 0 &&
         info.st_dev == out.st_dev && info.st_ino == out.st_ino;
}

/// The file that a chain of links names; `path` itself if there is none.
std::string follow_links(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const auto target = std::filesystem::weakly_canonical(path, error);
  return error ? path : target.string();
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

Result<std::unique_ptr<ResultFile>> ResultFile::open(const std::string& path, bool resume,
                                                     const std::function<MadeWith()>& made_with) {
  std::unique_ptr<ResultFile> file(new ResultFile());
  file->path_ = follow_links(path);
  if (is_stdout(path)) {
    file->fd_ = STDOUT_FILENO;
    file->owns_fd_ = false;
    return file;
  }
  if (is_directory(path)) return invalid_argument(path + ": is a folder, expected a file");
  if (is_stream(path)) {
    file->fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file->fd_ < 0) return system_error("open", path, errno);
    return file;
  }
  file->partial_ = file->path_ + ".partial";
  file->fd_ = ::open(file->partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file->fd_ < 0) return system_error("create", file->partial_, errno);
  MS_RETURN_IF_ERROR(file->keep_rows());
  if (!file->kept_rows_.empty() && !resume) {
    return already_exists(
        file->partial_ + ": holds " + std::to_string(file->kept_rows_.size()) +
        " finished rows of an earlier run; --resume continues it, or remove the file");
  }
  const MadeWith values = made_with();
  if (!file->kept_rows_.empty()) MS_RETURN_IF_ERROR(file->check_made_with(values));
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = value;
  MS_RETURN_IF_ERROR(write_file_atomically(file->made_with_path(), json_text(json) + "\n"));
  return file;
}

bool ResultFile::is_finished(const std::string& path) {
  const std::string file = follow_links(path);
  return !is_stdout(path) && !is_stream(path) && std::filesystem::is_regular_file(file) &&
         !std::filesystem::exists(file + ".partial");
}

Status ResultFile::check_made_with(const MadeWith& made_with) const {
  const std::string path = made_with_path();
  constexpr std::string_view kInstead = "; give what the earlier run had, or remove ";
  auto text = read_text_file(path);
  if (!text.ok()) {
    return text.status().with_context("what the rows of " + partial_ +
                                      " were made with is not known");
  }
  MS_ASSIGN_OR_RETURN(const Json json, parse_json(*text, path));
  MS_ASSIGN_OR_RETURN(const JsonObject before, JsonObject::from(json, path));
  for (const auto& [name, value] : made_with) {
    MS_ASSIGN_OR_RETURN(const std::string was, before.get_string(name));
    if (was == value) continue;
    return invalid_argument(partial_ + ": its rows were made with " + name + " " + was +
                            ", this run has " + value + std::string(kInstead) + partial_);
  }
  return {};
}

/// Reads the whole rows and cuts off what a crash left of another.
Status ResultFile::keep_rows() {
  MS_ASSIGN_OR_RETURN(const std::string text, read_text_file(partial_, int64_t{1} << 36));
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    kept_rows_.push_back(text.substr(begin, end - begin));
  }
  if (ftruncate(fd_, static_cast<off_t>(begin)) != 0) return system_error("cut", partial_, errno);
  if (lseek(fd_, 0, SEEK_END) < 0) return system_error("seek", partial_, errno);
  return {};
}

ResultFile::~ResultFile() {
  if (fd_ < 0 || !owns_fd_) return;
  struct stat info;
  const bool is_empty = !partial_.empty() && fstat(fd_, &info) == 0 && info.st_size == 0;
  close(fd_);
  if (!is_empty) return;
  std::remove(partial_.c_str());
  std::remove(made_with_path().c_str());
}

Status ResultFile::append(std::string_view row) {
  std::string line(row);
  line += '\n';
  return write_all(fd_, line.data(), line.size(), partial_.empty() ? path_ : partial_);
}

Status ResultFile::commit() {
  if (partial_.empty()) return {};
  if (fsync(fd_) != 0) return system_error("sync", partial_, errno);
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) {
    return system_error("rename", partial_, errno);
  }
  std::remove(made_with_path().c_str());
  close(fd_);
  fd_ = -1;
  return sync_directory(folder_of(path_));
}

Result<bool> is_nothing_to_resume(std::string_view verb, const std::string& out) {
  if (out == "-") return invalid_argument("--resume needs a file to go on with, not --out -");
  if (!ResultFile::is_finished(out)) return false;
  std::fprintf(stderr, "%.*s: %s is complete: nothing to resume (remove it to start again)\n",
               static_cast<int>(verb.size()), verb.data(), out.c_str());
  return true;
}

Status stopped_after(size_t done, size_t all, const ResultFile& out) {
  const std::string count = std::to_string(done) + " of " + std::to_string(all) + " rows are ";
  if (out.partial_path().empty()) return cancelled(count + "written");
  return cancelled(count + "in " + out.partial_path() + "; --resume continues");
}

}  // namespace mainspring::cli
