// Executor, Executable, Buffer: what runs a graph. Interfaces only.
//
// The one idea: a graph is compiled once for a capacity (rows, picked), buffers are bound to its
// named sources, and running it cannot fail for shape reasons and allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/exec/kv_view.h"
#include "mainspring/ir/graph.h"
#include "mainspring/ir/passes/pass.h"
#include "mainspring/ir/row_table.h"
#include "mainspring/obs/timeline.h"

namespace mainspring {

/// Memory of one tensor on a device. Host executors give direct access.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual DType dtype() const = 0;
  virtual const std::vector<int64_t>& shape() const = 0;
  virtual int64_t size_bytes() const = 0;
  /// The bytes; writing through it must be followed by mark_changed(). Null for borrowed read-only
  /// data.
  virtual void* data() = 0;
  virtual const void* data() const = 0;
  /// Borrowed memory: takes a copy of the bytes, still read only, and forgets the owner; whoever
  /// bound the buffer reads the same values before and after. Nothing to do for other memory.
  /// Errors: resource exhausted.
  virtual Status own() = 0;
  /// Tells the executor that layouts derived from the bytes (packed weights) are stale.
  virtual void mark_changed() = 0;
};

/// Storage that stays where it is, such as a mapped file.
struct BorrowedTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  const float* aux = nullptr;  // scales of NF4 and int8 (exec/cpu/ops.h)
  std::shared_ptr<const void> owner;
};

/// Which matrices have their derived layouts remade at every use instead of kept: less memory, and
/// a little slower (no bit changes).
enum class Repack {
  kNone,
  kQuantised,  // those stored quantised (QLoRA)
  kAll,        // every one (masters of full weights)
};

struct CompileOptions {
  RowCounts capacity = {};
  PassOptions passes = {};
  Repack repack = Repack::kNone;
  /// Inputs that are filled during a run (RunArgs::fill_late_inputs), from outputs of it.
  std::vector<std::string> late_inputs = {};
};

/// One step of a plan, for people.
struct PlanStep {
  std::string text;    // the printed node
  std::string kernel;  // which implementation was chosen
  std::string why;     // why other candidates refused
  double flops = 0;
  double bytes = 0;
};

struct PlanReport {
  int64_t arena_bytes = 0;
  int64_t scratch_bytes = 0;
  int64_t packed_bytes = 0;  // of derived weight layouts
  std::vector<PlanStep> steps;
  std::vector<std::pair<std::string, double>> pass_ms;
};

class Executable {
 public:
  virtual ~Executable() = default;

  /// Binds a source; the buffer must outlive its last run. Errors: not found; invalid argument for
  /// another dtype or shape (rows and picked: at least the capacity).
  virtual Status bind(std::string_view source, Buffer* buffer) = 0;

  /// Runs with table.num_rows <= capacity.rows and table.picked.size() <= capacity.picked. Every
  /// source is bound. `pick_table`: the picks' own segments (empty when no pick is folded).
  /// Allocates nothing after its first call. Not to be called concurrently for one executor.
  struct RunArgs {
    const RowTable* table = nullptr;
    const RowTable* pick_table = nullptr;
    const KvView* kv = nullptr;
    /// Called once, when all outputs are made and before any step reads a late input: output() is
    /// valid in it, and it writes to the late inputs' buffers. Null: they were filled before.
    const std::function<void()>* fill_late_inputs = nullptr;
  };
  virtual void run(const RunArgs& args) = 0;

  /// A graph output's bytes, valid until the next run of any executable of the same executor.
  virtual const void* output(std::string_view name) const = 0;

  virtual const PlanReport& report() const = 0;
};

/// A source of host-side row operations on logits that must match the graph's (docs/exactness.md,
/// 14, 19).
class RowMath {
 public:
  virtual ~RowMath() = default;
  struct Stats {
    float max = 0.0f;
    float sum = 0.0f;
    float lse = 0.0f;
  };
  /// Maximum, sum of exp(x - max) and log-sum-exp as the head computes them.
  virtual Stats stats(const float* logits, int64_t n) const = 0;
  /// out[i] = exp(logits[i] - max).
  virtual void exp_row(const float* logits, int64_t n, float max, float* out) const = 0;
  virtual float exp(float x) const = 0;
  virtual float log(float x) const = 0;
  /// Calls use(row, thread) for each row in [0, rows), 0 <= thread < num_threads(), on the
  /// executor's threads if it has several: for work on logits between two runs.
  virtual void each_row(int64_t rows, const std::function<void(int64_t, int)>& use) const {
    for (int64_t row = 0; row < rows; ++row) use(row, 0);
  }
  virtual int num_threads() const { return 1; }
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual std::string_view name() const = 0;  // "cpu/avx2"
  virtual int num_threads() const = 0;

  virtual std::unique_ptr<Buffer> allocate(DType dtype, std::vector<int64_t> shape) = 0;  // zeroed
  virtual std::unique_ptr<Buffer> borrow(BorrowedTensor tensor) = 0;  // read only

  /// Runs the passes, plans and checks; the executor outlives what it compiled. Errors: resource
  /// exhausted if the arena cannot be had; unimplemented naming an op without a kernel; those of
  /// steps_before_late_inputs (exec/late_inputs.h).
  virtual Result<std::unique_ptr<Executable>> compile(Graph graph,
                                                      const CompileOptions& options) = 0;

  virtual const RowMath& row_math() const = 0;

  /// Memory that this executor may still take: of the machine, and of the container it runs in.
  virtual int64_t available_bytes() const = 0;

  /// FLOP/s that this executor reaches at best: its own bf16 matrix product on operands in cache,
  /// all threads, measured on first use (some 50 ms).
  virtual double peak_flops() = 0;

  /// Bytes/s between memory and all threads: a[i] = b[i] + s c[i] over arrays larger than any
  /// cache, three moves an element, measured on first use (some 200 ms). Source: McCalpin 1995,
  /// STREAM.
  virtual double memory_bandwidth() = 0;

  /// Bytes held by buffers, packs and arenas now, and the most so far.
  virtual int64_t current_bytes() const = 0;
  virtual int64_t peak_bytes() const = 0;

  /// Where runs of this executor's programs, their steps and what others do around them are timed;
  /// null (the default): nowhere, at the cost of one comparison a run. Changes no bit. The timeline
  /// outlives its last run.
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }
  Timeline* timeline() const { return timeline_; }

 private:
  Timeline* timeline_ = nullptr;
};

}  // namespace mainspring
