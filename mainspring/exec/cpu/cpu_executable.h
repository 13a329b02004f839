// CpuExecutable: a planned graph: steps over bound buffers and one shared arena.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/exec/cpu/memory.h"
#include "mainspring/exec/cpu/steps.h"
#include "mainspring/exec/executor.h"
#include "mainspring/exec/step_timer.h"

namespace mainspring::cpu {

/// The arena of all executables of one executor: one runs at a time, so they share it.
class SharedArena {
 public:
  explicit SharedArena(std::shared_ptr<MemoryPool> pool) : pool_(std::move(pool)) {}
  /// Grows to at least `bytes`; pointers of an older generation are stale. Errors: resource
  /// exhausted.
  Status ensure(int64_t bytes);
  std::byte* data() const { return memory_.data(); }
  uint64_t generation() const { return generation_; }

 private:
  std::shared_ptr<MemoryPool> pool_;
  Memory memory_;
  uint64_t generation_ = 0;
};

class CpuExecutable final : public Executable {
 public:
  /// Runs passes, plans, and grows the arena. `executor` outlives it and says where runs are timed.
  static Result<std::unique_ptr<Executable>> compile(Graph graph, const CompileOptions& options,
                                                     const Context& context,
                                                     std::shared_ptr<SharedArena> arena,
                                                     const Executor& executor);

  Status bind(std::string_view source, Buffer* buffer) override;
  void run(const RunArgs& args) override;
  const void* output(std::string_view name) const override;
  const PlanReport& report() const override { return report_; }

 private:
  CpuExecutable(Graph graph, const Executor& executor)
      : graph_(std::move(graph)), executor_(executor), timer_(graph_) {}

  Status plan(const CompileOptions& options, const Context& context);
  void plan_values();
  void resolve_sources();
  void resolve_arena();
  void refresh_layouts();
  void run_timed(Timeline& timeline, const RunArgs& args);

  Graph graph_;
  const Executor& executor_;
  StepTimer timer_;
  RowCounts capacity_;
  std::shared_ptr<SharedArena> arena_;
  uint64_t generation_ = 0;
  std::vector<Step> steps_;
  size_t late_step_ = 0;  // late inputs are filled before it
  std::vector<LayoutNeed> needs_;
  std::vector<int64_t> offsets_;  // by value; -1: bound or aliased
  std::vector<KeptMemory> kept_;
  std::vector<int64_t> kept_offsets_;
  std::vector<ValueId> alias_of_;  // by value; kNoValue: none
  std::map<std::string, ValueId, std::less<>> sources_;
  int64_t scratch_offset_ = 0;
  int64_t transient_offset_ = 0;
  RunState state_;
  PlanReport report_;
};

}  // namespace mainspring::cpu
