// How a family's files hold the model's parameters: some lie one after another in a fused tensor.
//
// The one idea: the model has one set of parameters whatever the family (config.h); a file tensor
// is a run of them along rows. Files are checked and cut on the way in, joined on the way out.
#pragma once

#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/models/config.h"
#include "mainspring/models/names.h"
#include "mainspring/weights/stored_tensor.h"

namespace mainspring {

/// One tensor of a file.
struct FileTensor {
  std::string name;  // Hugging Face's: "model.layers.3.self_attn.qkv_proj.weight"
  std::vector<int64_t> shape;
  std::vector<ParameterSpec> parts;  // rows of the file's tensor in this order
};

/// Every tensor that a Hugging Face folder of the model has, in the order of the forward pass.
std::vector<FileTensor> file_tensors(const ModelConfig& config);

NameStyle name_style(const ModelConfig& config);

/// Checks that `files` are exactly the config's tensors and cuts fused ones, without copying: the
/// parts share their owner. Errors: invalid argument for missing, unexpected or misshapen tensors,
/// by name.
Result<TensorSet> parameters_of_files(const ModelConfig& config, const TensorSet& files);

/// The module that holds `module` in a file: "...self_attn.q_proj" lies in "...self_attn.qkv_proj"
/// where they are fused, else itself.
std::string file_module(const ModelConfig& config, const std::string& module);

}  // namespace mainspring
