// ParameterSet: named buffers that graphs bind: the base, an adapter, or full trainable weights.
//
// The one idea: a base is borrowed from its file and shared by everybody who computes with it, so
// layouts that an executor derives from it exist once; an adapter is a small set of f32 buffers
// beside it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "mainspring/exec/executor.h"
#include "mainspring/weights/stored_tensor.h"

namespace mainspring {

using ParameterSet = std::map<std::string, std::shared_ptr<Buffer>>;

/// Buffers over the tensors' own memory. The set keeps every owner alive; aux stays with
/// `tensors`, which must outlive the result.
ParameterSet borrow_parameters(Executor& executor, const TensorSet& tensors);

/// Fresh f32 buffers with the tensors' values widened (f32, f16, bf16) or dequantised through bf16.
/// Pages of files that the tensors lie in are let go (MappedFile::let_go).
ParameterSet copy_parameters_f32(Executor& executor, const TensorSet& tensors);

/// Fresh bf16 buffers, values that are not bf16 rounded to it; else the same.
ParameterSet copy_parameters_bf16(Executor& executor, const TensorSet& tensors);

/// The first of `sets` that has `name`, or null.
Buffer* find_parameter(const std::string& name, std::initializer_list<const ParameterSet*> sets);

}  // namespace mainspring
