#include "mainspring/ckpt/checkpoint.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "mainspring/ckpt/manifest.h"
#include "mainspring/ckpt/tensor_file.h"
#include "mainspring/io/checksum.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/io/safetensors.h"
#include "mainspring/io/system_error.h"

namespace mainspring {
namespace {

/// Steps of the folders named step-NNNNNN, increasing.
std::vector<int64_t> steps_in(const std::string& dir) {
  std::vector<int64_t> steps;
  DIR* handle = ::opendir(dir.c_str());
  if (handle == nullptr) return steps;
  while (const dirent* entry = ::readdir(handle)) {
    const int64_t step = checkpoint_step(entry->d_name);
    if (step >= 0) steps.push_back(step);
  }
  ::closedir(handle);
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// Reads a file once in 4 MiB pieces, not through a mapping, so that checking does not fill memory.
Status verify_file(const std::string& path, const Manifest::File& expected) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return data_loss(path + ": is missing");
  if (fd < 0) return system_error("open", path, errno);
  std::vector<uint8_t> buffer(size_t{4} << 20);
  Checksum128 sum;
  int64_t size = 0;
  Status status;
  while (status.ok()) {
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) status = data_loss(system_error("read", path, errno).message());
    if (n <= 0) break;
    sum.update(buffer.data(), static_cast<size_t>(n));
    size += n;
  }
  ::close(fd);
  MS_RETURN_IF_ERROR(status);
  if (size != expected.size_bytes) {
    return data_loss(path + ": expected " + std::to_string(expected.size_bytes) + " bytes, got " +
                     std::to_string(size));
  }
  const std::string got = sum.digest().hex();
  if (got != expected.xxh3) {
    return data_loss(path + ": checksum differs: expected " + expected.xxh3 + ", got " + got);
  }
  return {};
}

Result<DType> dtype_of(const CheckpointTensor& tensor) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kU8}) {
    if (dtype_name(dtype) == tensor.dtype) return dtype;
  }
  return data_loss("tensor '" + tensor.key + "': unknown dtype '" + tensor.dtype + "'");
}

/// The tensors of one file as the manifest lists them.
Result<CheckpointFile> open_tensor_file(const std::string& path, const std::string& name,
                                        const std::vector<CheckpointTensor>& listed) {
  Result<Safetensors> opened = open_safetensors(path);
  if (!opened.ok()) return data_loss(opened.status().message());
  CheckpointFile file;
  file.file_name = name;
  file.metadata = opened->metadata;
  file.metadata.erase("format");
  for (const CheckpointTensor& tensor : listed) {
    if (tensor.file_name != name) continue;
    const size_t slash = tensor.key.find('/');
    if (slash == std::string::npos)
      return data_loss(path + ": key '" + tensor.key + "' has no role");
    file.role = tensor.key.substr(0, slash);
    const std::string tensor_name = tensor.key.substr(slash + 1);
    const auto found = opened->tensors.find(tensor_name);
    if (found == opened->tensors.end())
      return data_loss(path + ": lacks tensor '" + tensor_name + "'");
    MS_ASSIGN_OR_RETURN(const DType dtype, dtype_of(tensor));
    if (found->second.dtype != safetensors_dtype(dtype) || found->second.shape != tensor.shape) {
      return data_loss(path + ": tensor '" + tensor_name + "' is not what the manifest says");
    }
    StoredTensor& stored = file.tensors[tensor_name];
    stored.name = tensor_name;
    stored.dtype = dtype;
    stored.shape = tensor.shape;
    stored.data = found->second.data;
    stored.size_bytes = found->second.size_bytes;
    stored.owner = found->second.owner;
  }
  return file;
}

Result<std::string> read_small(const std::string& path) {
  Result<std::string> text = read_text_file(path);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound)
    return data_loss(path + ": is missing");
  return text;
}

}  // namespace

std::vector<CheckpointEntry> list_checkpoints(const std::string& checkpoints_dir) {
  std::vector<CheckpointEntry> entries;
  for (const int64_t step : steps_in(checkpoints_dir)) {
    const std::string path = join_path(checkpoints_dir, checkpoint_name(step));
    const std::string manifest_path = join_path(path, kManifestName);
    const Result<std::string> text = read_text_file(manifest_path);
    if (!text.ok()) continue;
    const Result<Manifest> manifest = parse_manifest(*text, manifest_path);
    if (manifest.ok()) entries.push_back({path, step, manifest->eval_loss});
  }
  return entries;
}

Result<Checkpoint> load_checkpoint(const std::string& path) {
  if (!is_directory(path)) return not_found(path + ": there is no checkpoint");
  Checkpoint checkpoint;
  checkpoint.path = path;
  const std::string manifest_path = join_path(path, kManifestName);
  MS_ASSIGN_OR_RETURN(const std::string text, read_small(manifest_path));
  MS_ASSIGN_OR_RETURN(checkpoint.manifest, parse_manifest(text, manifest_path));
  const Manifest& manifest = checkpoint.manifest;
  std::set<std::string> tensor_files;
  for (const CheckpointTensor& tensor : manifest.tensors) tensor_files.insert(tensor.file_name);
  bool has_state = false;
  for (const Manifest::File& file : manifest.files) {
    if (file.name.find('/') != std::string::npos) {
      return data_loss(manifest_path + ": file name '" + file.name + "' leaves the folder");
    }
    MS_RETURN_IF_ERROR(verify_file(join_path(path, file.name), file));
    has_state = has_state || file.name == kStateName;
    if (tensor_files.erase(file.name) == 0) continue;
    MS_ASSIGN_OR_RETURN(CheckpointFile opened,
                        open_tensor_file(join_path(path, file.name), file.name, manifest.tensors));
    checkpoint.files.push_back(std::move(opened));
  }
  if (!has_state || !tensor_files.empty()) {
    return data_loss(manifest_path + ": does not list " +
                     (has_state ? *tensor_files.begin() : std::string(kStateName)));
  }
  const std::string state_path = join_path(path, kStateName);
  MS_ASSIGN_OR_RETURN(const std::string state, read_small(state_path));
  MS_ASSIGN_OR_RETURN(checkpoint.state, parse_state(state, state_path));
  const std::string digest = logical_digest(checkpoint.state, manifest.tensors);
  if (digest != manifest.digest) {
    return data_loss(path + ": digest differs: expected " + manifest.digest + ", got " + digest);
  }
  const std::string loss_path = join_path(path, kNextLossName);
  const Result<std::string> loss_text = read_text_file(loss_path);
  if (loss_text.ok()) {
    const Result<double> loss = parse_next_loss(*loss_text, manifest.step, loss_path);
    if (loss.ok()) checkpoint.next_loss_sum = *loss;  // a damaged one is only a missing comparison
  }
  return checkpoint;
}

Result<NewestCheckpoint> load_newest_checkpoint(const std::string& checkpoints_dir) {
  NewestCheckpoint newest;
  std::vector<int64_t> steps = steps_in(checkpoints_dir);
  std::reverse(steps.begin(), steps.end());
  for (const int64_t step : steps) {
    Result<Checkpoint> loaded = load_checkpoint(join_path(checkpoints_dir, checkpoint_name(step)));
    if (loaded.ok()) {
      newest.checkpoint = std::move(loaded).value();
      return newest;
    }
    newest.rejected.push_back(loaded.status().message());
  }
  if (newest.rejected.empty()) return newest;
  std::string message = checkpoints_dir + ": no checkpoint is whole:";
  for (const std::string& reason : newest.rejected) message += "\n  " + reason;
  return data_loss(message);
}

}  // namespace mainspring
