#include "mainspring/io/gguf.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace mainspring {
namespace {

// Bounds far above any real file; they keep a hostile one from costing many times its own size in
// memory.
constexpr uint64_t kMaxMetadata = 100'000;
constexpr uint64_t kMaxTensors = 1'000'000;
constexpr uint64_t kMaxKeyBytes = 65'535;  // of the format
constexpr uint32_t kMaxDims = 4;
constexpr int kMaxArrayDepth = 4;
constexpr int64_t kMaxNestedArrays = 100'000;
constexpr uint32_t kByteSwappedMagicVersions = 0xffff;

struct TypeRow {
  uint32_t type;
  std::string_view name;
  int64_t block_elements;
  int64_t block_bytes;
};
// ggml's tensor types (ggml.h), to size and to name them; which of them a model may use is not
// decided here.
constexpr TypeRow kTensorTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 40},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
};

struct ValueTypeRow {
  GgufType type;
  std::string_view name;
  size_t bytes;  // 0: of its own length
};
constexpr ValueTypeRow kValueTypes[] = {
    {GgufType::kU8, "u8", 1},       {GgufType::kI8, "i8", 1},     {GgufType::kU16, "u16", 2},
    {GgufType::kI16, "i16", 2},     {GgufType::kU32, "u32", 4},   {GgufType::kI32, "i32", 4},
    {GgufType::kF32, "f32", 4},     {GgufType::kBool, "bool", 1}, {GgufType::kString, "string", 0},
    {GgufType::kArray, "array", 0}, {GgufType::kU64, "u64", 8},   {GgufType::kI64, "i64", 8},
    {GgufType::kF64, "f64", 8},
};

const ValueTypeRow* find_value_type(GgufType type) {
  for (const ValueTypeRow& row : kValueTypes) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

const TypeRow* find_tensor_type(uint32_t type) {
  for (const TypeRow& row : kTensorTypes) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

template <typename T>
T load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

/// Sets the scalar fields of `value` from the packed bytes of one element of `type`.
void read_scalar(GgufType type, const uint8_t* bytes, GgufValue& value) {
  const auto set_unsigned = [&value](uint64_t x) {
    value.unsigned_integer = x;
    value.integer = static_cast<int64_t>(x);
  };
  const auto set_signed = [&value](int64_t x) {
    value.integer = x;
    value.unsigned_integer = static_cast<uint64_t>(x);
  };
  value.type = type;
  switch (type) {
    case GgufType::kU8:
      return set_unsigned(bytes[0]);
    case GgufType::kU16:
      return set_unsigned(load<uint16_t>(bytes));
    case GgufType::kU32:
      return set_unsigned(load<uint32_t>(bytes));
    case GgufType::kU64:
      return set_unsigned(load<uint64_t>(bytes));
    case GgufType::kI8:
      return set_signed(load<int8_t>(bytes));
    case GgufType::kI16:
      return set_signed(load<int16_t>(bytes));
    case GgufType::kI32:
      return set_signed(load<int32_t>(bytes));
    case GgufType::kI64:
      return set_signed(load<int64_t>(bytes));
    case GgufType::kF32:
      value.number = static_cast<double>(load<float>(bytes));
      return;
    case GgufType::kF64:
      value.number = load<double>(bytes);
      return;
    case GgufType::kBool:
      value.boolean = bytes[0] != 0;
      return;
    case GgufType::kString:
    case GgufType::kArray:
      return;
  }
}

bool is_integer(const GgufValue& value) {
  switch (value.type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kU16:
    case GgufType::kI16:
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kI64:
      return true;
    case GgufType::kU64:
      return value.unsigned_integer <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    default:
      return false;
  }
}

bool is_float(const GgufValue& value) {
  return value.type == GgufType::kF32 || value.type == GgufType::kF64;
}

}  // namespace

std::string_view gguf_type_name(GgufType type) {
  const ValueTypeRow* row = find_value_type(type);
  return row == nullptr ? "unknown" : row->name;
}

/// Reads the header front to back; every read checks what is left first.
class GgufParser {
 public:
  explicit GgufParser(GgufFile& out) : out_(out), bytes_(out.file_->bytes()) {}

  Status parse() {
    uint64_t num_tensors = 0;
    uint64_t num_metadata = 0;
    MS_RETURN_IF_ERROR(read_head(num_tensors, num_metadata));
    for (uint64_t i = 0; i < num_metadata; ++i) MS_RETURN_IF_ERROR(read_pair(i));
    MS_RETURN_IF_ERROR(read_alignment());
    std::vector<Placed> placed;
    for (uint64_t i = 0; i < num_tensors; ++i) MS_RETURN_IF_ERROR(read_tensor(i, placed));
    return place_tensors(placed);
  }

 private:
  struct Placed {
    GgufTensor tensor;
    uint64_t offset = 0;
  };

  size_t left() const { return bytes_.size() - at_; }

  Status fail(const std::string& what) const {
    return invalid_argument(out_.path() + ": byte " + std::to_string(at_) + ": " + what);
  }

  Status take(size_t size, std::string_view what, const uint8_t*& data) {
    if (size > left()) return fail("the file ends within " + std::string(what));
    data = bytes_.data() + at_;
    at_ += size;
    return Status();
  }

  template <typename T>
  Status read(T& value, std::string_view what) {
    const uint8_t* data = nullptr;
    MS_RETURN_IF_ERROR(take(sizeof(T), what, data));
    value = load<T>(data);
    return Status();
  }

  Status read_string(std::string_view& value, std::string_view what) {
    uint64_t length = 0;
    MS_RETURN_IF_ERROR(read(length, what));
    if (length > left()) return fail("the file ends within " + std::string(what));
    const uint8_t* data = nullptr;
    MS_RETURN_IF_ERROR(take(length, what, data));
    value = {reinterpret_cast<const char*>(data), length};
    return Status();
  }

  Status read_head(uint64_t& num_tensors, uint64_t& num_metadata) {
    const uint8_t* magic = nullptr;
    if (left() < 4 || std::memcmp(bytes_.data(), "GGUF", 4) != 0) {
      return invalid_argument(out_.path() + ": not a GGUF file (it does not start with 'GGUF')");
    }
    MS_RETURN_IF_ERROR(take(4, "the magic number", magic));
    MS_RETURN_IF_ERROR(read(out_.version_, "the version"));
    if (out_.version_ != 0 && (out_.version_ & kByteSwappedMagicVersions) == 0) {
      return unimplemented(out_.path() + ": a big-endian GGUF file; expected little-endian");
    }
    if (out_.version_ != 2 && out_.version_ != 3) {
      return unimplemented(out_.path() + ": GGUF version " + std::to_string(out_.version_) +
                           "; expected 2 or 3");
    }
    MS_RETURN_IF_ERROR(read(num_tensors, "the tensor count"));
    MS_RETURN_IF_ERROR(read(num_metadata, "the metadata count"));
    if (num_tensors > kMaxTensors)
      return fail("claims " + std::to_string(num_tensors) + " tensors");
    if (num_metadata > kMaxMetadata)
      return fail("claims " + std::to_string(num_metadata) + " metadata entries");
    return Status();
  }

  Status read_pair(uint64_t index) {
    std::string_view key;
    MS_RETURN_IF_ERROR(read_string(key, "the key of metadata entry " + std::to_string(index)));
    if (key.empty() || key.size() > kMaxKeyBytes)
      return fail("a metadata key of " + std::to_string(key.size()) + " bytes");
    GgufValue value;
    const Status status = read_value(value, 0);
    if (!status.ok())
      return status.with_context("metadata '" + std::string(key.substr(0, 100)) + "'");
    if (!out_.metadata_.emplace(std::string(key), std::move(value)).second) {
      return fail("metadata key '" + std::string(key.substr(0, 100)) + "' is given twice");
    }
    return Status();
  }

  Status read_type(GgufType& type) {
    uint32_t raw = 0;
    MS_RETURN_IF_ERROR(read(raw, "a value's type"));
    type = static_cast<GgufType>(raw);
    if (find_value_type(type) == nullptr) return fail("unknown value type " + std::to_string(raw));
    return Status();
  }

  Status read_value(GgufValue& value, int depth) {
    GgufType type = GgufType::kU8;
    MS_RETURN_IF_ERROR(read_type(type));
    return read_value_of(type, value, depth);
  }

  Status read_value_of(GgufType type, GgufValue& value, int depth) {
    value.type = type;
    if (type == GgufType::kString) return read_string(value.string, "a string");
    if (type == GgufType::kArray) return read_array(value, depth + 1);
    const uint8_t* data = nullptr;
    MS_RETURN_IF_ERROR(take(find_value_type(type)->bytes, "a value", data));
    if (type == GgufType::kBool && data[0] > 1)
      return fail("a boolean of value " + std::to_string(data[0]));
    read_scalar(type, data, value);
    return Status();
  }

  Status read_array(GgufValue& value, int depth) {
    if (depth > kMaxArrayDepth)
      return fail("arrays nested deeper than " + std::to_string(kMaxArrayDepth));
    MS_RETURN_IF_ERROR(read_type(value.element));
    uint64_t count = 0;
    MS_RETURN_IF_ERROR(read(count, "an array's length"));
    const size_t width = find_value_type(value.element)->bytes;
    // Strings and arrays take at least their own length or head.
    const size_t least = value.element == GgufType::kString  ? 8
                         : value.element == GgufType::kArray ? 12
                                                             : width;
    if (count > left() / least)
      return fail("an array of " + std::to_string(count) + " values, the file ends before");
    value.count = static_cast<int64_t>(count);
    if (value.element == GgufType::kString) {
      value.strings.reserve(count);
      for (uint64_t i = 0; i < count; ++i) {
        MS_RETURN_IF_ERROR(read_string(value.strings.emplace_back(), "an array's string"));
      }
      return Status();
    }
    if (value.element == GgufType::kArray) {
      num_nested_ += value.count;
      if (num_nested_ > kMaxNestedArrays)
        return fail("more than " + std::to_string(kMaxNestedArrays) + " nested arrays");
      for (uint64_t i = 0; i < count; ++i) {
        MS_RETURN_IF_ERROR(read_value_of(GgufType::kArray, value.arrays.emplace_back(), depth));
      }
      return Status();
    }
    const uint8_t* data = nullptr;
    MS_RETURN_IF_ERROR(take(count * width, "an array", data));
    value.elements = {data, count * width};
    return Status();
  }

  Status read_alignment() {
    constexpr std::string_view kKey = "general.alignment";
    if (!out_.has(kKey)) return Status();
    MS_ASSIGN_OR_RETURN(const int64_t alignment, out_.get_int(kKey));
    if (alignment < 8 || alignment > (int64_t{1} << 20) || (alignment & (alignment - 1)) != 0) {
      return invalid_argument(
          out_.path() + ": general.alignment: expected a power of two from 8 to 1048576, got " +
          std::to_string(alignment));
    }
    out_.alignment_ = alignment;
    return Status();
  }

  Status read_tensor(uint64_t index, std::vector<Placed>& placed) {
    std::string_view name;
    MS_RETURN_IF_ERROR(read_string(name, "the name of tensor " + std::to_string(index)));
    Placed& item = placed.emplace_back();
    item.tensor.name = std::string(name);
    const std::string label = "tensor '" + std::string(name.substr(0, 100)) + "': ";
    uint32_t num_dims = 0;
    MS_RETURN_IF_ERROR(read(num_dims, label + "the number of dimensions"));
    if (num_dims < 1 || num_dims > kMaxDims)
      return fail(label + std::to_string(num_dims) + " dimensions; expected 1 to 4");
    int64_t elements = 1;
    for (uint32_t i = 0; i < num_dims; ++i) {
      int64_t dim = 0;
      MS_RETURN_IF_ERROR(read(dim, label + "a dimension"));
      if (dim < 1 || __builtin_mul_overflow(elements, dim, &elements))
        return fail(label + "dimension " + std::to_string(dim));
      item.tensor.dims.push_back(dim);
    }
    MS_RETURN_IF_ERROR(read(item.tensor.type, label + "the type"));
    const TypeRow* row = find_tensor_type(item.tensor.type);
    if (row == nullptr) return fail(label + "unknown type " + std::to_string(item.tensor.type));
    item.tensor.type_name = row->name;
    if (item.tensor.dims[0] % row->block_elements != 0) {
      return fail(label + "rows of " + std::to_string(item.tensor.dims[0]) +
                  " are no multiple of the " + std::string(row->name) + " block of " +
                  std::to_string(row->block_elements));
    }
    if (__builtin_mul_overflow(elements / row->block_elements, row->block_bytes,
                               &item.tensor.size_bytes)) {
      return fail(label + "its size overflows");
    }
    return read(item.offset, label + "the offset");
  }

  Status place_tensors(std::vector<Placed>& placed) {
    const auto alignment = static_cast<uint64_t>(out_.alignment_);
    const uint64_t start = (at_ + alignment - 1) / alignment * alignment;
    const uint64_t data_bytes = start <= bytes_.size() ? bytes_.size() - start : 0;
    std::sort(placed.begin(), placed.end(),
              [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
    uint64_t end = 0;
    for (Placed& item : placed) {
      GgufTensor& tensor = item.tensor;
      const std::string label = out_.path() + ": tensor '" + tensor.name.substr(0, 100) + "': ";
      const auto size = static_cast<uint64_t>(tensor.size_bytes);
      if (item.offset % alignment != 0) {
        return invalid_argument(label + "offset " + std::to_string(item.offset) +
                                " is not aligned to " + std::to_string(alignment));
      }
      if (item.offset < end) return invalid_argument(label + "overlaps another tensor");
      if (item.offset > data_bytes || size > data_bytes - item.offset) {
        return invalid_argument(label + "needs bytes " + std::to_string(item.offset) + " to " +
                                std::to_string(item.offset + size) + " of the data, the file has " +
                                std::to_string(data_bytes) + " (cut short?)");
      }
      end = item.offset + size;
      tensor.data = bytes_.data() + start + item.offset;
      std::string name = tensor.name;
      if (!out_.tensors_.emplace(std::move(name), std::move(tensor)).second) {
        return invalid_argument(label + "is given twice");
      }
    }
    return Status();
  }

  GgufFile& out_;
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  int64_t num_nested_ = 0;
};

Result<std::shared_ptr<const GgufFile>> GgufFile::open(const std::string& path) {
  std::shared_ptr<GgufFile> out(new GgufFile());
  MS_ASSIGN_OR_RETURN(out->file_, MappedFile::open(path));
  MS_RETURN_IF_ERROR(GgufParser(*out).parse());
  return std::shared_ptr<const GgufFile>(std::move(out));
}

Status GgufFile::wrong(std::string_view key, std::string_view expected) const {
  const auto it = metadata_.find(key);
  const std::string label = path() + ": metadata '" + std::string(key) + "'";
  if (it == metadata_.end())
    return not_found(label + " is missing, expected " + std::string(expected));
  std::string got(gguf_type_name(it->second.type));
  if (it->second.type == GgufType::kArray)
    got += " of " + std::string(gguf_type_name(it->second.element));
  return invalid_argument(label + ": expected " + std::string(expected) + ", got " + got);
}

namespace {

const GgufValue* find_of(const std::map<std::string, GgufValue, std::less<>>& metadata,
                         std::string_view key) {
  const auto it = metadata.find(key);
  return it == metadata.end() ? nullptr : &it->second;
}

/// Element i of an array of numbers.
GgufValue element_at(const GgufValue& array, int64_t i) {
  const auto width = static_cast<int64_t>(find_value_type(array.element)->bytes);
  GgufValue value;
  read_scalar(array.element, array.elements.data() + i * width, value);
  return value;
}

}  // namespace

Result<int64_t> GgufFile::get_int(std::string_view key) const {
  const GgufValue* value = find_of(metadata_, key);
  if (value == nullptr || !is_integer(*value)) return wrong(key, "an integer");
  return value->integer;
}

Result<double> GgufFile::get_number(std::string_view key) const {
  const GgufValue* value = find_of(metadata_, key);
  if (value != nullptr && is_float(*value)) return value->number;
  if (value != nullptr && is_integer(*value)) return static_cast<double>(value->integer);
  return wrong(key, "a number");
}

Result<bool> GgufFile::get_bool(std::string_view key) const {
  const GgufValue* value = find_of(metadata_, key);
  if (value == nullptr || value->type != GgufType::kBool) return wrong(key, "a boolean");
  return value->boolean;
}

Result<std::string> GgufFile::get_string(std::string_view key) const {
  const GgufValue* value = find_of(metadata_, key);
  if (value == nullptr || value->type != GgufType::kString) return wrong(key, "a string");
  return std::string(value->string);
}

Result<std::vector<int64_t>> GgufFile::get_ints(std::string_view key) const {
  const GgufValue* value = find_of(metadata_, key);
  if (value == nullptr || value->type != GgufType::kArray)
    return wrong(key, "an array of integers");
  std::vector<int64_t> out;
  if (value->count > 0 && value->elements.empty()) return wrong(key, "an array of integers");
  out.reserve(static_cast<size_t>(value->count));
  for (int64_t i = 0; i < value->count; ++i) {
    const GgufValue element = element_at(*value, i);
    if (!is_integer(element)) return wrong(key, "an array of integers");
    out.push_back(element.integer);
  }
  return out;
}

Result<std::vector<float>> GgufFile::get_floats(std::string_view key) const {
  const GgufValue* value = find_of(metadata_, key);
  if (value == nullptr || value->type != GgufType::kArray) return wrong(key, "an array of numbers");
  std::vector<float> out;
  if (value->count > 0 && value->elements.empty()) return wrong(key, "an array of numbers");
  out.reserve(static_cast<size_t>(value->count));
  for (int64_t i = 0; i < value->count; ++i) {
    const GgufValue element = element_at(*value, i);
    if (!is_float(element)) return wrong(key, "an array of numbers");
    out.push_back(static_cast<float>(element.number));
  }
  return out;
}

Result<std::vector<std::string>> GgufFile::get_strings(std::string_view key) const {
  const GgufValue* value = find_of(metadata_, key);
  if (value == nullptr || value->type != GgufType::kArray || value->element != GgufType::kString) {
    return wrong(key, "an array of strings");
  }
  return std::vector<std::string>(value->strings.begin(), value->strings.end());
}

}  // namespace mainspring
