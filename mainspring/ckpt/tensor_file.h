// tensor_file: a safetensors file written from live tensors through FileOps. Internal to ckpt/.
//
// The one idea: header first, then each tensor's own memory in pieces; bytes go from where they
// live to the file and through two checksums (the file's, the tensor's), and nothing is copied.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/ckpt/file_ops.h"

namespace mainspring {

/// "F32" for kF32 ...; empty for a dtype that safetensors has no name for.
std::string_view safetensors_dtype(DType dtype);

/// Errors: invalid argument for a quantised dtype, a size that does not match the shape, or null
/// data.
Status check_tensors(const CheckpointFile& file);

struct WrittenFile {
  Manifest::File entry;
  std::vector<CheckpointTensor> tensors;  // in file order: wide elements first, then names
};

/// Writes into `out`; `progress` is called after each piece and may end the writing by an error.
Result<WrittenFile> write_tensor_file(const CheckpointFile& file, OutputFile& out,
                                      int64_t piece_bytes, const std::function<Status()>& progress);

}  // namespace mainspring
