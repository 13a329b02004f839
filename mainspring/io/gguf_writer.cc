#include "mainspring/io/gguf_writer.h"

#include <cstring>

#include "mainspring/base/check.h"
#include "mainspring/io/gguf.h"

namespace mainspring {
namespace {

constexpr uint32_t kVersion = 3;
constexpr int64_t kAlignment = 32;  // the format's default, so general.alignment is not written

template <typename T>
void put(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void put_text(std::string& out, std::string_view value) {
  put(out, static_cast<uint64_t>(value.size()));
  out += value;
}

template <typename T>
void put_array(std::string& out, GgufType element, std::span<const T> values) {
  put(out, static_cast<uint32_t>(element));
  put(out, static_cast<uint64_t>(values.size()));
  for (const T value : values) put(out, value);
}

int64_t padded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void GgufMetadata::head(std::string_view key, uint32_t type) {
  put_text(bytes_, key);
  put(bytes_, type);
  ++count_;
}

void GgufMetadata::add_u32(std::string_view key, uint32_t value) {
  head(key, static_cast<uint32_t>(GgufType::kU32));
  put(bytes_, value);
}

void GgufMetadata::add_f32(std::string_view key, float value) {
  head(key, static_cast<uint32_t>(GgufType::kF32));
  put(bytes_, value);
}

void GgufMetadata::add_bool(std::string_view key, bool value) {
  head(key, static_cast<uint32_t>(GgufType::kBool));
  put(bytes_, static_cast<uint8_t>(value ? 1 : 0));
}

void GgufMetadata::add_text(std::string_view key, std::string_view value) {
  head(key, static_cast<uint32_t>(GgufType::kString));
  put_text(bytes_, value);
}

void GgufMetadata::add_texts(std::string_view key, std::span<const std::string> values) {
  head(key, static_cast<uint32_t>(GgufType::kArray));
  put(bytes_, static_cast<uint32_t>(GgufType::kString));
  put(bytes_, static_cast<uint64_t>(values.size()));
  for (const std::string& value : values) put_text(bytes_, value);
}

void GgufMetadata::add_i32s(std::string_view key, std::span<const int32_t> values) {
  head(key, static_cast<uint32_t>(GgufType::kArray));
  put_array(bytes_, GgufType::kI32, values);
}

void GgufMetadata::add_f32s(std::string_view key, std::span<const float> values) {
  head(key, static_cast<uint32_t>(GgufType::kArray));
  put_array(bytes_, GgufType::kF32, values);
}

Result<std::unique_ptr<GgufWriter>> GgufWriter::create(const std::string& path,
                                                       const GgufMetadata& metadata,
                                                       std::vector<GgufTensorSpec> tensors) {
  std::string header = "GGUF";
  put(header, kVersion);
  put(header, static_cast<uint64_t>(tensors.size()));
  put(header, metadata.count());
  header += metadata.bytes();
  int64_t offset = 0;
  for (const GgufTensorSpec& tensor : tensors) {
    put_text(header, tensor.name);
    put(header, static_cast<uint32_t>(tensor.dims.size()));
    for (const int64_t dim : tensor.dims) put(header, dim);
    put(header, tensor.type);
    put(header, static_cast<uint64_t>(offset));
    offset += padded(tensor.size_bytes);
  }
  header.resize(static_cast<size_t>(padded(static_cast<int64_t>(header.size()))), '\0');
  std::unique_ptr<GgufWriter> writer(new GgufWriter());
  writer->path_ = path;
  writer->tensors_ = std::move(tensors);
  MS_ASSIGN_OR_RETURN(writer->file_, AtomicFile::create(path));
  MS_RETURN_IF_ERROR(writer->file_->append(header));
  return writer;
}

Status GgufWriter::pad() {
  const std::string zeros(static_cast<size_t>(padded(written_) - written_), '\0');
  written_ = padded(written_);
  return file_->append(zeros);
}

Status GgufWriter::append(const void* data, int64_t size_bytes) {
  if (next_ == tensors_.size()) return invalid_argument(path_ + ": no further tensor is announced");
  const GgufTensorSpec& tensor = tensors_[next_];
  if (size_bytes != tensor.size_bytes) {
    return invalid_argument(path_ + ": tensor '" + tensor.name + "': expected " +
                            std::to_string(tensor.size_bytes) + " bytes, got " +
                            std::to_string(size_bytes));
  }
  MS_RETURN_IF_ERROR(pad());
  ++next_;
  written_ += size_bytes;
  return file_->append({static_cast<const char*>(data), static_cast<size_t>(size_bytes)});
}

Result<std::string> GgufWriter::finish() {
  if (next_ != tensors_.size()) {
    return failed_precondition(path_ + ": tensor '" + tensors_[next_].name + "' is missing");
  }
  MS_RETURN_IF_ERROR(pad());
  return file_->temporary_path();
}

Status GgufWriter::commit() {
  MS_CHECK(next_ == tensors_.size(), "finish first");
  return file_->commit();
}

}  // namespace mainspring
