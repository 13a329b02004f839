#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "mainspring/io/json.h"
#include "mainspring/io/safetensors.h"
#include "mainspring/io/system_error.h"
#include "mainspring/io/write_all.h"

namespace mainspring {
namespace {

constexpr size_t kBufferBytes = 64 * 1024;

struct Header {
  std::string text;
  int64_t data_bytes = 0;
};

Result<Header> make_header(std::span<const SafetensorsSpec> tensors,
                           const std::map<std::string, std::string>& metadata) {
  Json json = Json::object();
  auto& members = json.get_ref<Json::object_t&>();
  if (!metadata.empty()) {
    Json pairs = Json::object();
    for (const auto& [key, value] : metadata) pairs[key] = value;
    members.emplace_back("__metadata__", std::move(pairs));
  }
  Header header;
  std::set<std::string_view> names;
  for (const SafetensorsSpec& tensor : tensors) {
    if (!names.insert(tensor.name).second || tensor.name == "__metadata__") {
      return invalid_argument("tensor '" + tensor.name + "': name is taken");
    }
    MS_ASSIGN_OR_RETURN(const int64_t bytes, safetensors_tensor_bytes(tensor));
    if (header.data_bytes % safetensors_dtype_bytes(tensor.dtype) != 0) {
      return invalid_argument("tensor '" + tensor.name +
                              "': would start unaligned; give wide dtypes first");
    }
    const int64_t begin = header.data_bytes;
    if (__builtin_add_overflow(begin, bytes, &header.data_bytes)) {
      return invalid_argument("tensor '" + tensor.name + "': the file's size overflows");
    }
    members.emplace_back(tensor.name, Json{{"dtype", tensor.dtype},
                                           {"shape", tensor.shape},
                                           {"data_offsets", {begin, header.data_bytes}}});
  }
  header.text = json_text(json);
  header.text.resize((header.text.size() + 7) / 8 * 8, ' ');  // the data starts 8-aligned
  return header;
}

}  // namespace

Result<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::create(
    const std::string& path, std::span<const SafetensorsSpec> tensors,
    const std::map<std::string, std::string>& metadata) {
  Result<Header> header = make_header(tensors, metadata);
  if (!header.ok()) return header.status().with_context(path);
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter());
  writer->path_ = path;
  writer->fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (writer->fd_ < 0) return system_error("create", path, errno);
  const uint64_t length = header->text.size();
  writer->header_bytes_ = static_cast<int64_t>(sizeof(length) + length);
  writer->data_bytes_ = header->data_bytes;
  MS_RETURN_IF_ERROR(write_all(writer->fd_, &length, sizeof(length), path));
  MS_RETURN_IF_ERROR(write_all(writer->fd_, header->text.data(), header->text.size(), path));
  writer->buffer_.reserve(kBufferBytes);
  return writer;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ >= 0) ::close(fd_);
}

Status SafetensorsWriter::flush() {
  MS_RETURN_IF_ERROR(write_all(fd_, buffer_.data(), buffer_.size(), path_));
  buffer_.clear();
  return Status();
}

Status SafetensorsWriter::append(const void* data, int64_t size_bytes) {
  MS_CHECK(fd_ >= 0 && size_bytes >= 0, "append after finish");
  if (size_bytes > data_bytes_ - appended_bytes_) {
    return invalid_argument(path_ + ": more bytes than the " + std::to_string(data_bytes_) +
                            " that its header announces");
  }
  appended_bytes_ += size_bytes;
  const auto size = static_cast<size_t>(size_bytes);
  if (buffer_.size() + size > kBufferBytes) MS_RETURN_IF_ERROR(flush());
  if (size > kBufferBytes) return write_all(fd_, data, size, path_);
  const auto* bytes = static_cast<const uint8_t*>(data);
  buffer_.insert(buffer_.end(), bytes, bytes + size);
  return Status();
}

Status SafetensorsWriter::finish() {
  MS_CHECK(fd_ >= 0, "finish twice");
  if (appended_bytes_ != data_bytes_) {
    return failed_precondition(path_ + ": got " + std::to_string(appended_bytes_) +
                               " bytes, its header announces " + std::to_string(data_bytes_));
  }
  MS_RETURN_IF_ERROR(flush());
  if (::fsync(fd_) != 0) return system_error("sync", path_, errno);
  const int closed = ::close(fd_);
  fd_ = -1;
  if (closed != 0) return system_error("close", path_, errno);
  return Status();
}

}  // namespace mainspring
