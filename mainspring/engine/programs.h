// Programs: compiled graphs of one model, made when first needed and kept.
//
// The one idea: which adapters share a pass and which loss is asked for decide the graph; the
// number of rows decides its capacity, which grows as needed up to the engine's limit. Not for
// state: that is engine/trainable.h.
#pragma once

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

/// What the engine traces in place of an objective (losses/objective.h): the log-probabilities
/// alone, and with gradients the sum of by_logprob_t * logprob_t.
const LossInfo& logprob_loss();
const LossInfo& objective_loss();

/// A compiled forward or forward-backward graph with its input buffers.
class Program {
 public:
  struct Key {
    std::vector<const Trainable*> models;  // one per slot; null: the base in that slot
    const LossInfo* loss = nullptr;
    bool with_gradient = false;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  /// Fills the inputs from a packed batch, runs, and leaves results in outputs. `by_logprob`
  /// (picked): of objective_loss().
  void run(const Batch& batch, std::span<const PackItem> items, std::span<const float> by_logprob);

  const float* logprob() const;     // (picked)
  const float* token_loss() const;  // (picked)
  int64_t capacity_rows() const { return capacity_rows_; }
  const PlanReport& report() const { return executable_->report(); }

 private:
  friend class Programs;
  std::unique_ptr<Executable> executable_;
  std::map<std::string, std::unique_ptr<Buffer>> inputs_;  // tokens, targets, per-token inputs
  const LossInfo* loss_ = nullptr;
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
