#include "mainspring/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>

#include "mainspring/io/json.h"

namespace mainspring {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian and used in place");

// The `safetensors` library's own limit.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kMetadataKey = "__metadata__";

struct DtypeRow {
  std::string_view name;
  int64_t bytes;
};
constexpr DtypeRow kDtypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
    {"F32", 4},  {"I64", 8}, {"U64", 8}, {"F64", 8},     {"C64", 8},
};

}  // namespace

int64_t safetensors_dtype_bytes(std::string_view dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.name == dtype) return row.bytes;
  }
  return 0;
}

Result<int64_t> safetensors_tensor_bytes(const SafetensorsSpec& spec) {
  int64_t bytes = safetensors_dtype_bytes(spec.dtype);
  if (bytes == 0) {
    return unimplemented("tensor '" + spec.name + "': dtype '" + spec.dtype + "' is not supported");
  }
  for (const int64_t dim : spec.shape) {
    if (dim < 0) {
      return invalid_argument("tensor '" + spec.name + "': negative dimension " +
                              std::to_string(dim));
    }
    if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      return invalid_argument("tensor '" + spec.name + "': its size overflows");
    }
  }
  return bytes;
}

namespace {

/// A header entry with its place in the data section.
struct Placed {
  SafetensorsSpec spec;
  int64_t begin = 0;
  int64_t end = 0;
};

Result<Placed> read_entry(const std::string& name, const Json& value, const std::string& path) {
  MS_ASSIGN_OR_RETURN(const JsonObject object,
                      JsonObject::from(value, path, "tensor '" + name + "'"));
  Placed placed;
  placed.spec.name = name;
  MS_ASSIGN_OR_RETURN(placed.spec.dtype, object.get_string("dtype"));
  MS_ASSIGN_OR_RETURN(placed.spec.shape, object.get_ints("shape"));
  MS_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, object.get_ints("data_offsets"));
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0]) {
    return object.error("data_offsets", "expected [begin, end] with 0 <= begin <= end");
  }
  placed.begin = offsets[0];
  placed.end = offsets[1];
  const Result<int64_t> bytes = safetensors_tensor_bytes(placed.spec);
  if (!bytes.ok()) return bytes.status().with_context(path);
  if (placed.end - placed.begin != *bytes) {
    return object.error("data_offsets", "span " + std::to_string(placed.end - placed.begin) +
                                            " bytes, dtype and shape need " +
                                            std::to_string(*bytes));
  }
  return placed;
}

/// Tensors in order of place must touch, from 0 to the end of the file.
Status check_places(std::vector<Placed>& tensors, int64_t data_bytes, const std::string& path) {
  std::sort(tensors.begin(), tensors.end(), [](const Placed& a, const Placed& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  int64_t at = 0;
  for (const Placed& tensor : tensors) {
    if (tensor.begin != at) {
      return invalid_argument(
          path + ": tensor '" + tensor.spec.name + "' starts at byte " +
          std::to_string(tensor.begin) + " of the data, expected " + std::to_string(at) +
          (tensor.begin < at ? " (it overlaps another)" : " (there is a hole)"));
    }
    at = tensor.end;
  }
  if (at != data_bytes) {
    return invalid_argument(path + ": the tensors take " + std::to_string(at) +
                            " bytes, the file has " + std::to_string(data_bytes) +
                            (at > data_bytes ? " (cut short?)" : " after its header"));
  }
  return Status();
}

Status read_metadata(const Json& value, const std::string& path,
                     std::map<std::string, std::string>& out) {
  MS_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::from(value, path, kMetadataKey));
  for (const std::string& key : object.keys()) {
    if (!object.has(key)) continue;
    MS_ASSIGN_OR_RETURN(out[key], object.get_string(key));
  }
  return Status();
}

/// Points the entry into the mapping, or copies it if the file places it off its element's
/// alignment.
void place_data(const std::shared_ptr<const MappedFile>& file, int64_t offset,
                SafetensorsEntry& entry) {
  const uint8_t* data = file->bytes().data() + offset;
  const auto width = static_cast<uintptr_t>(safetensors_dtype_bytes(entry.dtype));
  if (reinterpret_cast<uintptr_t>(data) % width == 0) {
    entry.data = data;
    entry.owner = file;
    return;
  }
  auto copy =
      std::make_shared<std::vector<uint64_t>>((static_cast<size_t>(entry.size_bytes) + 7) / 8);
  std::memcpy(copy->data(), data, static_cast<size_t>(entry.size_bytes));
  entry.data = reinterpret_cast<const uint8_t*>(copy->data());
  entry.owner = copy;
}

Result<std::string_view> header_text(const MappedFile& file) {
  const std::span<const uint8_t> bytes = file.bytes();
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) {
    return invalid_argument(file.path() + ": holds " + std::to_string(bytes.size()) +
                            " bytes, too few for a safetensors file");
  }
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kMaxHeaderBytes || length > bytes.size() - sizeof(length)) {
    return invalid_argument(
        file.path() + ": not a safetensors file, or cut short (its header claims " +
        std::to_string(length) + " bytes, the file has " + std::to_string(bytes.size()) + ")");
  }
  return file.text().substr(sizeof(length), length);
}

}  // namespace

Result<Safetensors> open_safetensors(const std::string& path) {
  MS_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  MS_ASSIGN_OR_RETURN(const std::string_view text, header_text(*file));
  MS_ASSIGN_OR_RETURN(const Json header, parse_json(text, path + " (header)"));
  MS_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::from(header, path));
  Safetensors out;
  std::vector<Placed> tensors;
  for (const auto& [name, value] : object.json().get_ref<const Json::object_t&>()) {
    if (name == kMetadataKey) {
      MS_RETURN_IF_ERROR(read_metadata(value, path, out.metadata));
      continue;
    }
    MS_ASSIGN_OR_RETURN(Placed placed, read_entry(name, value, path));
    tensors.push_back(std::move(placed));
  }
  const auto data_start = static_cast<int64_t>(sizeof(uint64_t) + text.size());
  MS_RETURN_IF_ERROR(
      check_places(tensors, static_cast<int64_t>(file->bytes().size()) - data_start, path));
  for (Placed& tensor : tensors) {
    SafetensorsEntry entry;
    entry.name = tensor.spec.name;
    entry.dtype = std::move(tensor.spec.dtype);
    entry.shape = std::move(tensor.spec.shape);
    entry.size_bytes = tensor.end - tensor.begin;
    place_data(file, data_start + tensor.begin, entry);
    out.tensors.emplace(std::move(tensor.spec.name), std::move(entry));
  }
  return out;
}

namespace {

/// tensor -> shard file, checked to stay in the folder.
Result<std::map<std::string, std::string>> read_weight_map(const JsonObject& index) {
  MS_ASSIGN_OR_RETURN(const JsonObject weights, index.get_object("weight_map"));
  std::map<std::string, std::string> places;
  for (const auto& [name, value] : weights.json().get_ref<const Json::object_t&>()) {
    if (!value.is_string()) {
      return weights.error(name, "expected a file name, got " + std::string(json_kind(value)));
    }
    const auto file = value.get<std::string>();
    if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos ||
        file.find('\0') != std::string::npos) {
      return weights.error(name,
                           "expected the name of a file in the same folder, got '" + file + "'");
    }
    places.emplace(name, file);
  }
  return places;
}

}  // namespace

Result<Safetensors> open_safetensors_index(const std::string& path) {
  MS_ASSIGN_OR_RETURN(const Json json, read_json_file(path));
  MS_ASSIGN_OR_RETURN(const JsonObject index, JsonObject::from(json, path));
  MS_ASSIGN_OR_RETURN(const auto places, read_weight_map(index));
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  std::set<std::string> files;
  for (const auto& [name, file] : places) files.insert(file);

  Safetensors out;
  for (const std::string& file : files) {
    const std::string shard_path = join_path(folder, file);
    Result<Safetensors> shard = open_safetensors(shard_path);
    if (!shard.ok()) return shard.status().with_context(path);
    for (auto& [name, entry] : shard->tensors) {
      const auto place = places.find(name);
      if (place == places.end() || place->second != file) {
        return invalid_argument(shard_path + ": holds tensor '" + name + "', which " + path +
                                " places " +
                                (place == places.end() ? "nowhere" : "in " + place->second));
      }
      out.tensors.emplace(name, std::move(entry));
    }
  }
  for (const auto& [name, file] : places) {
    if (!out.tensors.contains(name)) {
      return invalid_argument(join_path(folder, file) + ": lacks tensor '" + name + "', which " +
                              path + " places there");
    }
  }
  return out;
}

Result<Safetensors> open_safetensors_folder(const std::string& folder, std::string_view stem) {
  const std::string single = join_path(folder, std::string(stem) + ".safetensors");
  const std::string index = single + ".index.json";
  if (is_regular_file(single)) return open_safetensors(single);
  if (is_regular_file(index)) return open_safetensors_index(index);
  return not_found(folder + ": has neither " + std::string(stem) + ".safetensors nor " +
                   std::string(stem) + ".safetensors.index.json");
}

}  // namespace mainspring
