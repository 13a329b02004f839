#include "mainspring/ckpt/tensor_file.h"

#include <algorithm>
#include <cstring>

#include "mainspring/io/checksum.h"
#include "mainspring/io/json.h"

namespace mainspring {
namespace {

using NamedTensor = std::pair<std::string, const StoredTensor*>;

/// Wide elements first keeps every tensor aligned to its element; among equals the name decides.
std::vector<NamedTensor> file_order(const CheckpointFile& file) {
  std::vector<NamedTensor> order;
  for (const auto& [name, tensor] : file.tensors) order.emplace_back(name, &tensor);
  std::sort(order.begin(), order.end(), [](const NamedTensor& a, const NamedTensor& b) {
    const int64_t width_a = dtype_block_bytes(a.second->dtype);
    const int64_t width_b = dtype_block_bytes(b.second->dtype);
    return width_a != width_b ? width_a > width_b : a.first < b.first;
  });
  return order;
}

}  // namespace

std::string_view safetensors_dtype(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBF16:
      return "BF16";
    case DType::kF16:
      return "F16";
    case DType::kI32:
      return "I32";
    case DType::kU8:
      return "U8";
    default:
      return "";
  }
}

Status check_tensors(const CheckpointFile& file) {
  for (const auto& [name, tensor] : file.tensors) {
    const std::string where = file.file_name + ": tensor '" + name + "': ";
    if (safetensors_dtype(tensor.dtype).empty()) {
      return invalid_argument(where + std::string(dtype_name(tensor.dtype)) + " cannot be saved");
    }
    const int64_t expected = dtype_bytes(tensor.dtype, tensor.num_elements());
    if (tensor.size_bytes != expected) {
      return invalid_argument(where + "expected " + std::to_string(expected) +
                              " bytes for its shape, got " + std::to_string(tensor.size_bytes));
    }
    if (tensor.data == nullptr && expected > 0) return invalid_argument(where + "has no data");
  }
  return {};
}

Result<WrittenFile> write_tensor_file(const CheckpointFile& file, OutputFile& out,
                                      int64_t piece_bytes,
                                      const std::function<Status()>& progress) {
  const std::vector<NamedTensor> order = file_order(file);
  Json header = Json::object();
  auto& members = header.get_ref<Json::object_t&>();
  Json metadata = {{"format", "pt"}};
  for (const auto& [key, value] : file.metadata) metadata[key] = value;
  members.emplace_back("__metadata__", std::move(metadata));
  int64_t offset = 0;
  for (const auto& [name, tensor] : order) {
    const int64_t end = offset + tensor->size_bytes;
    members.emplace_back(name, Json{{"dtype", safetensors_dtype(tensor->dtype)},
                                    {"shape", tensor->shape},
                                    {"data_offsets", {offset, end}}});
    offset = end;
  }
  std::string text = json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins 8-aligned
  const uint64_t length = text.size();
  std::string head(sizeof(length), '\0');
  std::memcpy(head.data(), &length, sizeof(length));  // little-endian, as every x86 machine
  head += text;

  WrittenFile written;
  Checksum128 file_sum;
  const auto put = [&](const void* data, int64_t size) -> Status {
    file_sum.update(data, static_cast<size_t>(size));
    MS_RETURN_IF_ERROR(out.write({static_cast<const uint8_t*>(data), static_cast<size_t>(size)}));
    written.entry.size_bytes += size;
    return progress();
  };
  MS_RETURN_IF_ERROR(put(head.data(), static_cast<int64_t>(head.size())));
  for (const auto& [name, tensor] : order) {
    const auto* bytes = static_cast<const uint8_t*>(tensor->data);
    Checksum128 tensor_sum;
    for (int64_t at = 0; at < tensor->size_bytes; at += piece_bytes) {
      const int64_t size = std::min(piece_bytes, tensor->size_bytes - at);
      tensor_sum.update(bytes + at, static_cast<size_t>(size));
      MS_RETURN_IF_ERROR(put(bytes + at, size));
    }
    written.tensors.push_back({file.role + "/" + name, file.file_name,
                               std::string(dtype_name(tensor->dtype)), tensor->shape,
                               tensor_sum.digest().hex()});
  }
  written.entry.name = file.file_name;
  written.entry.xxh3 = file_sum.digest().hex();
  return written;
}

}  // namespace mainspring
