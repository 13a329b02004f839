// GgufBuilder: small GGUF files made in memory. For tests only.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/io/gguf.h"

namespace mainspring {

class GgufBuilder {
 public:
  explicit GgufBuilder(uint32_t version = 3) : version_(version) {}

  template <typename T>
  static std::string raw(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static std::string text(std::string_view value) {
    return raw(static_cast<uint64_t>(value.size())) + std::string(value);
  }

  /// A key with the packed bytes of its value.
  GgufBuilder& add(std::string_view key, GgufType type, const std::string& value) {
    metadata_ += text(key) + raw(static_cast<uint32_t>(type)) + value;
    ++num_metadata_;
    return *this;
  }
  GgufBuilder& add_u32(std::string_view key, uint32_t value) {
    return add(key, GgufType::kU32, raw(value));
  }
  GgufBuilder& add_f32(std::string_view key, float value) {
    return add(key, GgufType::kF32, raw(value));
  }
  GgufBuilder& add_bool(std::string_view key, bool value) {
    return add(key, GgufType::kBool, raw(static_cast<uint8_t>(value)));
  }
  GgufBuilder& add_text(std::string_view key, std::string_view value) {
    return add(key, GgufType::kString, text(value));
  }
  GgufBuilder& add_texts(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes =
        raw(static_cast<uint32_t>(GgufType::kString)) + raw(static_cast<uint64_t>(values.size()));
    for (const std::string& value : values) bytes += text(value);
    return add(key, GgufType::kArray, bytes);
  }
  template <typename T>
  GgufBuilder& add_numbers(std::string_view key, GgufType element, const std::vector<T>& values) {
    std::string bytes =
        raw(static_cast<uint32_t>(element)) + raw(static_cast<uint64_t>(values.size()));
    for (const T value : values) bytes += raw(value);
    return add(key, GgufType::kArray, bytes);
  }

  /// Dimensions in the file's order: the fastest first.
  GgufBuilder& add_tensor(std::string_view name, uint32_t type, const std::vector<int64_t>& dims,
                          const std::string& data) {
    data_.resize((data_.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
    return add_tensor_at(name, type, dims, data_.size(), data);
  }
  /// The same with an offset that may lie.
  GgufBuilder& add_tensor_at(std::string_view name, uint32_t type, const std::vector<int64_t>& dims,
                             uint64_t offset, const std::string& data) {
    tensors_ += text(name) + raw(static_cast<uint32_t>(dims.size()));
    for (const int64_t dim : dims) tensors_ += raw(dim);
    tensors_ += raw(type) + raw(offset);
    data_ += data;
    ++num_tensors_;
    return *this;
  }
  GgufBuilder& add_f32_tensor(std::string_view name, const std::vector<int64_t>& dims,
                              const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) bytes += raw(value);
    return add_tensor(name, kGgmlF32, dims, bytes);
  }

  std::string build() const {
    std::string head =
        "GGUF" + raw(version_) + raw(num_tensors_) + raw(num_metadata_) + metadata_ + tensors_;
    head.resize((head.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
    return head + data_;
  }

 private:
  static constexpr size_t kAlignment = 32;

  uint32_t version_;
  uint64_t num_tensors_ = 0;
  uint64_t num_metadata_ = 0;
  std::string metadata_;
  std::string tensors_;
  std::string data_;
};

}  // namespace mainspring
