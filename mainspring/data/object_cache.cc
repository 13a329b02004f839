#include "mainspring/data/object_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "mainspring/io/atomic_file.h"
#include "mainspring/io/checksum.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/io/system_error.h"
#include "mainspring/io/write_all.h"

namespace mainspring {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;
constexpr int kMostChanges = 3;  // versions seen on the way before giving up

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "s3://bucket/a/rows.parquet?x" -> "rows.parquet", with what is no plain letter of a name left
// out.
std::string plain_name(const std::string& url) {
  std::string path = url.substr(0, url.find_first_of("?#"));
  path = path.substr(path.rfind('/') + 1);
  std::erase_if(path, [](unsigned char c) {
    return std::isalnum(c) == 0 && c != '.' && c != '-' && c != '_';
  });
  return path.substr(path.size() > 100 ? path.size() - 100 : 0);
}

// A descriptor that is closed, and with it a lock let go.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Json version_json(const std::string& url, const ObjectVersion& version) {
  return {{"url", url},
          {"size", version.size},
          {"modified_ns", version.modified_ns},
          {"etag", version.etag}};
}

// Without an etag or a time nothing says whether two answers are of one version.
bool is_named(const ObjectVersion& version) {
  return !version.etag.empty() || version.modified_ns != 0;
}

Result<Digest128> checksum_of_file(const std::string& path, int64_t size) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return system_error("open", path, errno);
  Checksum128 sum;
  std::vector<char> buffer(kReadBytes);
  int64_t done = 0;
  while (true) {
    const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("read", path, errno);
    if (n == 0) break;
    sum.update(buffer.data(), static_cast<size_t>(n));
    done += n;
  }
  if (done != size) return data_loss(path + ": has another size than was written");
  return sum.digest();
}

// One object on its way into the cache.
class Fetch {
 public:
  Fetch(std::string url, const FetchOptions& options) : url_(std::move(url)), options_(options) {
    const std::string folder = options.folder.empty() ? default_object_folder() : options.folder;
    const std::string key = checksum128(url_.data(), url_.size()).hex().substr(0, 16);
    const std::string name = plain_name(url_);
    path_ = join_path(folder, key + (name.empty() ? "" : "-" + name));
  }

  Result<FetchedObject> run();

 private:
  using Failure = ObjectStream::Failure;

  std::string part() const { return path_ + ".part"; }
  std::string record() const { return path_ + ".json"; }
  std::string part_record() const { return path_ + ".part.json"; }

  Status lock(std::unique_ptr<Descriptor>& held);
  Result<bool> is_current(const ObjectVersion& version) const;
  void find_part();
  Status open_stream();
  Status start_anew();
  Status copy();
  Status keep();
  Status wait_before_retry(int failures) const;
  void touch() const {
    if (options_.touch) options_.touch();
  }
  Status stopped() const {
    if (options_.should_stop && options_.should_stop())
      return cancelled("stopped; what has come is kept");
    return {};
  }

  std::string url_;
  const FetchOptions& options_;
  std::string path_;
  ObjectVersion version_;  // of the part; its size is 0 if there is none
  int64_t have_ = 0;       // bytes of the part
  int num_changes_ = 0;
  std::unique_ptr<ObjectStream> stream_;
  std::unique_ptr<Descriptor> file_;
};

Status Fetch::lock(std::unique_ptr<Descriptor>& held) {
  const std::string path = path_ + ".lock";
  held = std::make_unique<Descriptor>(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (held->get() < 0) return system_error("create", path, errno);
  while (::flock(held->get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return system_error("lock", path, errno);
    MS_RETURN_IF_ERROR(stopped());
    touch();  // the process that holds it is reading
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return {};
}

// Whether the copy is of this version, and whole.
Result<bool> Fetch::is_current(const ObjectVersion& version) const {
  if (!is_named(version) || !is_regular_file(path_) || !is_regular_file(record())) return false;
  const auto read = read_json_file(record());
  if (!read.ok()) return false;
  Json expected = version_json(url_, version);
  const auto sum = checksum_of_file(path_, version.size);
  if (!sum.ok()) return false;
  expected["checksum"] = sum->hex();
  return *read == expected;
}

// What an earlier attempt left, if its version can be asked for again.
void Fetch::find_part() {
  have_ = 0;
  version_ = {};
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(part(), error));
  const auto read = read_json_file(part_record());
  if (error || !read.ok() || !read->is_object()) return;
  ObjectVersion version{read->value("size", int64_t{0}), read->value("modified_ns", int64_t{0}),
                        read->value("etag", std::string())};
  if (*read != version_json(url_, version) || !is_named(version) || size > version.size) return;
  version_ = version;
  have_ = size;
}

Status Fetch::start_anew() {
  have_ = 0;
  version_ = {};
  MS_RETURN_IF_ERROR(remove_tree(part()));
  return remove_tree(part_record());
}

// A stream from where the part ends, of the part's version; the whole object if that is not to be
// had.
Status Fetch::open_stream() {
  while (true) {
    touch();
    Failure failure = Failure::kNone;
    // A part that is whole needs the answer's head only, and a range cannot be empty.
    const int64_t begin = have_ < version_.size ? have_ : 0;
    auto opened =
        ObjectStream::open(url_, begin, begin > 0 ? version_.etag : "", options_.limits, failure);
    if (opened.ok()) {
      stream_ = std::move(opened).value();
      if (have_ == 0 || stream_->version() == version_) {
        version_ = stream_->version();
        return {};
      }
      if (begin == 0) {  // the whole of another version: take it
        MS_RETURN_IF_ERROR(start_anew());
        version_ = stream_->version();
        return {};
      }
      failure = Failure::kChanged;
    } else if (failure != Failure::kChanged && failure != Failure::kNoRange) {
      return opened.status();
    }
    stream_.reset();
    if (failure == Failure::kChanged && ++num_changes_ >= kMostChanges) {
      return data_loss("is changed again and again while it is read");
    }
    MS_RETURN_IF_ERROR(start_anew());
  }
}

// The stream's bytes, behind what the part has.
Status Fetch::copy() {
  file_ = std::make_unique<Descriptor>(
      ::open(part().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (file_->get() < 0) return system_error("create", part(), errno);
  if (::ftruncate(file_->get(), have_) != 0) return system_error("shorten", part(), errno);
  MS_RETURN_IF_ERROR(write_file_atomically(part_record(), json_text(version_json(url_, version_))));
  std::string bytes;
  while (have_ < version_.size) {
    MS_RETURN_IF_ERROR(stopped());
    touch();
    bytes.clear();
    MS_RETURN_IF_ERROR(stream_->read(bytes));
    if (have_ + static_cast<int64_t>(bytes.size()) > version_.size) {
      return data_loss("gave more bytes than its size says");
    }
    MS_RETURN_IF_ERROR(write_all(file_->get(), bytes.data(), bytes.size(), part()));
    have_ += static_cast<int64_t>(bytes.size());
    if (options_.on_fetch) options_.on_fetch(url_, have_, version_.size);
  }
  return {};
}

// The whole part becomes the copy. The record goes first and comes last: a copy without one is
// not used.
Status Fetch::keep() {
  if (::fsync(file_->get()) != 0) return system_error("sync", part(), errno);
  file_.reset();
  MS_ASSIGN_OR_RETURN(const Digest128 sum, checksum_of_file(part(), version_.size));
  MS_RETURN_IF_ERROR(remove_tree(record()));
  if (::rename(part().c_str(), path_.c_str()) != 0) return system_error("rename", part(), errno);
  Json kept = version_json(url_, version_);
  kept["checksum"] = sum.hex();
  MS_RETURN_IF_ERROR(write_file_atomically(record(), json_text(kept)));
  return remove_tree(part_record());
}

Status Fetch::wait_before_retry(int failures) const {
  const int64_t wait_ms =
      std::min<int64_t>(int64_t{options_.limits.first_wait_ms} << (failures - 1), 10'000);
  touch();
  std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
  return stopped();
}

Result<FetchedObject> Fetch::run() {
  MS_RETURN_IF_ERROR(make_directories(std::filesystem::path(path_).parent_path().string()));
  std::unique_ptr<Descriptor> held;
  MS_RETURN_IF_ERROR(lock(held));
  find_part();
  int failures = 0;
  while (true) {
    const int64_t before = have_;
    Status status = open_stream();
    if (status.ok()) {
      MS_ASSIGN_OR_RETURN(const bool current, is_current(stream_->version()));
      if (current) return FetchedObject{path_, stream_->version()};
      status = copy();
      stream_.reset();
      if (status.ok()) {
        MS_RETURN_IF_ERROR(keep());
        return FetchedObject{path_, version_};
      }
      // A stream that broke off is worth another; a full disk is not.
      if (status.code() != StatusCode::kUnavailable) return status;
      if (!is_named(version_)) have_ = 0;  // the next answer may be of another version
    } else if (status.code() != StatusCode::kUnavailable || before == 0) {
      return status;  // the store was asked `retries` times already
    }
    failures = have_ > before ? 1 : failures + 1;
    if (failures > options_.limits.retries) {
      return unavailable("gave no new byte in " + std::to_string(failures) + " attempts after " +
                         std::to_string(have_) + " of " + std::to_string(version_.size) +
                         " bytes: " + std::string(status.message()));
    }
    MS_RETURN_IF_ERROR(wait_before_retry(failures));
  }
}

}  // namespace

std::string default_object_folder() {
  std::string cache = environment("MAINSPRING_CACHE");
  if (cache.empty()) {
    std::string base = environment("XDG_CACHE_HOME");
    if (base.empty()) base = join_path(environment("HOME"), ".cache");
    cache = join_path(base, "mainspring");
  }
  return join_path(cache, "objects");
}

Result<FetchedObject> fetch_object(const std::string& url, const FetchOptions& options) {
  auto fetched = Fetch(url, options).run();
  if (!fetched.ok()) return fetched.status().with_context(url);
  return fetched;
}

}  // namespace mainspring
