// CheckpointWriter: saves while training goes on.
//
// The one idea: a snapshot without a copy. start() returns at once and a thread of its own streams
// the live tensors to disk; the trainer runs the next forward_backward meanwhile and calls
// wait_before_mutation() right before optim_step, the only call that changes them. Extra memory is
// one file's header. Not for reading (checkpoint.h).
//
//   writer.start(content);                    // after optim_step n
//   auto result = engine.forward_backward(...);   // step n + 1; tensors only read
//   writer.note_next_loss(result.loss_sum);
//   writer.wait_before_mutation();
//   engine.optim_step(...);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/ckpt/file_ops.h"

namespace mainspring {

struct CheckpointWriterOptions {
  std::string checkpoints_dir;  // made if missing; leftovers of interrupted saves are removed
  int64_t keep_last = 3;        // newest ones kept, at least 1
  int64_t keep_best = 1;        // with the lowest eval_loss, kept besides; 0: none
  int64_t piece_bytes = int64_t{16} << 20;  // of one write
  double stall_timeout_s = 600.0;           // a save that makes no progress for so long is given up
  FileOps* file_ops = nullptr;              // null: system_file_ops()
};

/// How a save ended.
struct SaveReport {
  int64_t step = 0;
  Status status;
  std::string path;    // of the finished checkpoint
  std::string digest;  // as in its manifest
  int64_t size_bytes = 0;
  double seconds = 0.0;              // start to finish, in the background
  double waited_seconds = 0.0;       // that the trainer spent in waits for it
  std::vector<std::string> removed;  // older checkpoints that retention removed
};

/// Threads: one caller, and a background thread of its own.
class CheckpointWriter {
 public:
  /// Touches nothing yet.
  explicit CheckpointWriter(CheckpointWriterOptions options);
  /// Finishes the save in flight.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Begins a save; waits for one in flight first. Errors: invalid argument if the content cannot
  /// be written (a file name with a slash or twice, no files, a negative step). A failed write is
  /// not an error here: it comes back from wait() and take_reports(), and leaves older checkpoints
  /// as they are. Deadline exceeded once a save was given up: the disk hangs, and no later save is
  /// tried.
  Status start(CheckpointContent content);

  /// Returns when the tensors of the save in flight are no longer read; at once if there is none. A
  /// save that makes no progress for stall_timeout_s is given up: it never appears, and wait() says
  /// so.
  void wait_before_mutation();

  /// Returns when the save in flight is finished, with its status (ok if there was none, or if its
  /// failure was returned before).
  Status wait();

  bool busy() const;

  /// Puts the loss sum of the step after the last started save beside that checkpoint
  /// (next_loss.json), in the background. Precondition: a save was started.
  void note_next_loss(double loss_sum);

  /// Saves that ended since the last call, oldest first.
  std::vector<SaveReport> take_reports();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace mainspring
