// Safetensors: reading by memory map, and writing with bounded memory.
//
// The one idea: a file is 8 bytes of header length, a JSON header of name -> dtype, shape, offsets,
// and the bytes; everything is checked before a pointer leaves this file, so hostile bytes cannot
// crash a caller. Format: the `safetensors` library's documented layout. dtype names are the
// format's own ("F32", "BF16"); which of them a caller supports is the caller's matter.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/mapped_file.h"

namespace mainspring {

/// One tensor as it lies in a mapped file. `data` is aligned to the element's size: a tensor that a
/// file places elsewhere (the format allows it) is copied.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32", "F16", "BF16", "I32", ...
  std::vector<int64_t> shape;
  const uint8_t* data = nullptr;
  int64_t size_bytes = 0;
  std::shared_ptr<const void> owner;  // keeps `data`
};

/// The tensors of one file, or of all the files of a sharded model.
struct Safetensors {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;  // "__metadata__"; of the index for a sharded model
};

/// Bytes of an element of a safetensors dtype; 0 if the name is unknown or below one byte.
int64_t safetensors_dtype_bytes(std::string_view dtype);

/// Maps one file and checks its header: length, JSON, every field, sizes against shape and dtype,
/// that the tensors neither overlap nor leave holes nor miss the file's end. Errors: not found;
/// invalid argument with file, tensor and what was expected.
Result<Safetensors> open_safetensors(const std::string& path);

/// Opens a sharded model from its index ("weight_map": tensor -> file in the same folder).
/// Errors: as above; also a shard that lacks a tensor that the index places there, a tensor in a
/// shard that the index does not place there, and file names that leave the folder.
Result<Safetensors> open_safetensors_index(const std::string& path);

/// Opens "model.safetensors" or "model.safetensors.index.json" of a folder. Errors: not found names
/// both.
Result<Safetensors> open_safetensors_folder(const std::string& folder,
                                            std::string_view stem = "model");

/// What a writer must know of a tensor before its bytes.
struct SafetensorsSpec {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
};

/// Bytes of the tensor's data. Errors: unimplemented for an unknown dtype; invalid argument for a
/// negative dimension or a size that overflows.
Result<int64_t> safetensors_tensor_bytes(const SafetensorsSpec& spec);

/// Writes one file: the header from the specs, then the bytes in the specs' order, as they come.
/// Memory: the header and a 64 KiB buffer. The caller makes the file appear atomically
/// (atomic_file.h). Threads: one.
class SafetensorsWriter {
 public:
  /// Creates or truncates `path`. Errors: invalid argument for an unknown dtype, a negative or
  /// overflowing size, a name twice, or a tensor that would start unaligned (give wide dtypes
  /// first); else the system's.
  static Result<std::unique_ptr<SafetensorsWriter>> create(
      const std::string& path, std::span<const SafetensorsSpec> tensors,
      const std::map<std::string, std::string>& metadata = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Appends bytes of the data section; pieces may cut tensors anywhere.
  /// Errors: resource exhausted (disk full); invalid argument if more comes than the header says.
  Status append(const void* data, int64_t size_bytes);
  /// Flushes to the device and closes. Errors: as append; failed precondition if bytes are missing.
  Status finish();

  /// Bytes of the whole file when finished.
  int64_t file_bytes() const { return header_bytes_ + data_bytes_; }

 private:
  SafetensorsWriter() = default;
  Status flush();

  std::string path_;
  int fd_ = -1;
  int64_t header_bytes_ = 0;
  int64_t data_bytes_ = 0;
  int64_t appended_bytes_ = 0;
  std::vector<uint8_t> buffer_;
};

}  // namespace mainspring
