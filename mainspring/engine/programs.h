// Programs: compiled graphs of one model, made when first needed and kept.
//
// The one idea: which adapters share a pass and which loss is asked for decide the graph; the
// number of rows decides its capacity, which grows as needed up to the engine's limit. Not for
// state: that is engine/trainable.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/autodiff/grad.h"
#include "mainspring/batch/packer.h"
#include "mainspring/exec/executor.h"
#include "mainspring/losses/losses.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/nn/layers.h"
#include "mainspring/weights/parameter_set.h"

namespace mainspring {

struct Trainable;  // engine/trainable.h

/// A compiled forward or forward-backward graph with its input buffers.
class Program {
 public:
  struct Key {
    std::vector<const Trainable*> models;  // one per slot; null: the base in that slot
    /// A traced one; null: an objective's log-probabilities, and with gradients their derivatives
    /// are a late input.
    const LossInfo* loss = nullptr;
    int64_t num_candidates = 0;  // further targets of each pick, of an objective
    bool with_gradient = false;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  /// Fills the inputs from a packed batch, runs, and leaves results in outputs. `fill_late_inputs`
  /// is called in between and writes the derivatives; null if there is none.
  void run(const Batch& batch, std::span<const PackItem> items,
           const std::function<void()>* fill_late_inputs);

  /// (picked, stride()): of the target, then of the candidates.
  const float* logprob() const;
  size_t stride() const { return static_cast<size_t>(1 + num_candidates_); }
  const float* token_loss() const;         // (picked), of a traced loss
  const float* values(size_t slot) const;  // (picked), of a slot's scalar head; null: it has none
  /// Of an objective with gradients: like logprob(), and (picked) for a slot that has values.
  void write_by_logprob(std::span<const float> derivatives);
  void write_by_value(size_t slot, std::span<const float> derivatives);
  int64_t capacity_rows() const { return capacity_rows_; }
  const PlanReport& report() const { return executable_->report(); }

 private:
  friend class Programs;
  std::unique_ptr<Executable> executable_;
  std::map<std::string, std::unique_ptr<Buffer>> inputs_;  // tokens, targets, per-token inputs
  const LossInfo* loss_ = nullptr;
  int64_t num_candidates_ = 0;
  int64_t capacity_rows_ = 0;
};

class Programs {
 public:
  struct Options {
    DType compute = DType::kBF16;
    PassOptions passes;
    bool transient_packs = false;
    int64_t rope_positions = 0;
  };

  Programs(const LoadedModel& model, Executor& executor, const ParameterSet& base,
           std::shared_ptr<Buffer> rope_table, Options options)
      : model_(model),
        executor_(executor),
        base_(base),
        rope_table_(std::move(rope_table)),
        options_(std::move(options)) {}

  /// The program for `key` with room for `rows`. Errors: resource exhausted, or a broken graph
  /// (internal).
  Result<Program*> get(const Program::Key& key, int64_t rows);

 private:
  Result<std::unique_ptr<Program>> make(const Program::Key& key, int64_t rows);
  Repack repack_for(bool is_full, int64_t rows) const;
  Status bind_sources(Program& program, const Program::Key& key,
                      const std::vector<std::string>& sources);

  const LoadedModel& model_;
  Executor& executor_;
  const ParameterSet& base_;
  std::shared_ptr<Buffer> rope_table_;
  Options options_;
  std::map<Program::Key, std::unique_ptr<Program>> programs_;
};

}  // namespace mainspring
