// Checkpoints: one consistent cut of a training run in a folder of its own.
//
// The one idea: a checkpoint is a folder `step-000123` with tensor files (safetensors), state.json
// and, written last, manifest.json with every file's size and XXH3; it appears by one rename, so it
// is there whole or not at all. The digest is of what the checkpoint means (tensors by name,
// cursors, seed, step), not of how or where or when it was written. Not for when to save: train/
// decides. Design note: mainspring/ckpt/README.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/data/data_loader.h"
#include "mainspring/weights/stored_tensor.h"

namespace mainspring {

/// Everything but tensors that a run needs to go on with the same bits.
struct TrainState {
  int64_t step = 0;  // optimizer steps done
  uint64_t seed =
      0;  // the run's: random numbers are keyed by it, so it is all the RNG state there is
  DataState data;
  std::map<std::string, std::string> extra;  // the trainer's own words, such as skipped-step counts
  /// Held-out loss at this step, if it was measured: retention by best reads it. Not part of the
  /// digest.
  std::optional<double> eval_loss;
};

/// Tensors that share a file. In the digest a tensor is "<role>/<name>", whatever file holds it.
struct CheckpointFile {
  std::string
      file_name;      // "model.safetensors", "adapter_model.safetensors", "optimizer.safetensors"
  std::string role;   // "model", "optimizer"
  TensorSet tensors;  // by the name they get in the file
  std::map<std::string, std::string> metadata;  // of the safetensors file; "format" = "pt" is added
};

/// What one save writes. Tensors are not copied: they must stay unchanged until
/// CheckpointWriter::wait_before_mutation has returned (their owners are held until then).
struct CheckpointContent {
  TrainState state;
  std::vector<CheckpointFile> files;
  std::map<std::string, std::string>
      texts;  // further small files by name, such as adapter_config.json
};

struct CheckpointTensor {
  std::string key;  // "<role>/<name>"
  std::string file_name;
  std::string dtype;  // as dtype_name
  std::vector<int64_t> shape;
  std::string digest;  // XXH3-128 of its bytes, 32 hex digits
};

/// manifest.json as read.
struct Manifest {
  struct File {
    std::string name;
    int64_t size_bytes = 0;
    std::string xxh3;  // XXH3-128, 32 hex digits
  };
  int64_t format_version = 0;
  int64_t step = 0;
  std::string digest;  // of the logical state, 32 hex digits
  std::optional<double> eval_loss;
  std::vector<File> files;
  std::vector<CheckpointTensor> tensors;  // in key order
};

/// A checkpoint whose files have been read and compared with their checksums.
struct Checkpoint {
  std::string path;
  Manifest manifest;
  TrainState state;
  std::vector<CheckpointFile> files;  // tensors point into memory maps that they own
  /// The next step's loss sum as the run computed it after this save, to compare a resumed run
  /// with.
  std::optional<double> next_loss_sum;
};

/// "step-000123".
std::string checkpoint_name(int64_t step);

/// A finished checkpoint in a run's checkpoint folder (its manifest reads; files are not checked).
struct CheckpointEntry {
  std::string path;
  int64_t step = 0;
  std::optional<double> eval_loss;
};

/// Finished checkpoints by increasing step; leftovers of interrupted saves are not listed. A folder
/// that is not there has none.
std::vector<CheckpointEntry> list_checkpoints(const std::string& checkpoints_dir);

/// Reads `path` and verifies sizes, checksums and digest. Errors: not found; data loss names the
/// file with the checksum expected and got; invalid argument for a format version that this build
/// does not know.
Result<Checkpoint> load_checkpoint(const std::string& path);

/// The newest checkpoint that is whole.
struct NewestCheckpoint {
  std::optional<Checkpoint> checkpoint;  // empty: there is none at all
  std::vector<std::string> rejected;     // newer ones that were not used, each with path and reason
};
/// Errors: data loss if there are checkpoints and every one is corrupt (all named).
Result<NewestCheckpoint> load_newest_checkpoint(const std::string& checkpoints_dir);

/// Recomputes the logical digest from the files of a loaded checkpoint.
std::string logical_digest(const TrainState& state, const std::vector<CheckpointTensor>& tensors);

}  // namespace mainspring
