// How a family's files hold the model's parameters: some lie one after another in a fused tensor.
//
// The one idea: the model has one set of parameters whatever the family (config.h); a file tensor
// is a run of them along rows, in GPT-2's folders transposed and under other names. Files are
// checked and cut on the way in, joined on the way out.
#pragma once

#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/models/config.h"
#include "mainspring/models/names.h"
#include "mainspring/weights/stored_tensor.h"

namespace mainspring {

/// Whose files. A GGUF file's tensors go by the names that names.h gives them; a checkpoint's are
/// the parameters themselves.
enum class FileKind { kHuggingFace, kGguf, kCheckpoint };

/// One tensor of a file.
struct FileTensor {
  std::string name;  // Hugging Face's: "model.layers.3.self_attn.qkv_proj.weight"
  std::vector<int64_t> shape;
  std::vector<ParameterSpec> parts;  // rows of the file's tensor in this order
  bool is_transposed = false;        // the file has (in, out): the parts are columns
};

/// Every tensor that the model's files have, in the order of the forward pass.
std::vector<FileTensor> file_tensors(const ModelConfig& config,
                                     FileKind kind = FileKind::kHuggingFace);

NameStyle name_style(const ModelConfig& config);

/// Checks that `files` are exactly the config's tensors and cuts fused ones, without copying but
/// for transposed ones: the parts share their owner. Errors: invalid argument for missing,
/// unexpected or misshapen tensors, by name; unimplemented for a transposed one of a quantised
/// dtype.
Result<TensorSet> parameters_of_files(const ModelConfig& config, FileKind kind,
                                      const TensorSet& files);

/// The file's tensor out of its parts, which have one dtype (kF32 or kBF16): the part itself, or a
/// copy.
StoredTensor join_parts(const FileTensor& file, const std::vector<StoredTensor>& parts);

/// The module that holds `module` in a file: "...self_attn.q_proj" lies in "...self_attn.qkv_proj"
/// where they are fused, else itself under the family's name.
std::string file_module(const ModelConfig& config, const std::string& module,
                        FileKind kind = FileKind::kHuggingFace);

}  // namespace mainspring
