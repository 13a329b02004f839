// ForwardModel: a model as the sampler and the scorer compute it: config, weights and adapters.
//
// The one idea: both trace the trainer's own decoder, ending either in logits (to choose from) or
// in the trainer's log-probability op; so what they return is what the trainer computes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/exec/executor.h"
#include "mainspring/models/config.h"
#include "mainspring/nn/layers.h"
#include "mainspring/weights/parameter_set.h"

namespace mainspring {

/// One adapter served beside the base. `spec.prefix` heads its parameters' names; the slot is its
/// index in ForwardModel::adapters and dropout is off, whatever the spec says.
struct ForwardAdapter {
  nn::AdapterSpec spec;
  const ParameterSet* parameters = nullptr;
  uint64_t weight_version = 0;
};

/// Everything outlives who uses it. A rope table is made unless `base` has one of at least the
/// needed length under kRopeTableParam.
struct ForwardModel {
  DType compute = DType::kBF16;
  ModelConfig config;
  const ParameterSet* base = nullptr;
  std::vector<ForwardAdapter> adapters;
  uint64_t weight_version = 0;  // of the base
};

/// A compiled forward pass with its inputs.
class Forward {
 public:
  enum class Ending { kLogits, kLogprob };

  struct Options {
    Ending ending = Ending::kLogits;
    RowCounts capacity;
    int64_t rope_positions = 0;
  };

  /// Errors: not found for a parameter that no set has; those of compile and bind.
  static Result<std::unique_ptr<Forward>> create(Executor& executor, const ForwardModel& model,
                                                 const Options& options);

  int32_t* tokens() { return static_cast<int32_t*>(tokens_->data()); }  // (capacity.rows)
  int32_t* targets() {
    return static_cast<int32_t*>(targets_->data());
  }  // (capacity.picked), kLogprob

  void run(const RowTable& table, const KvView* kv);

  /// kLogits: f32(picked, v). kLogprob: f32(picked). Valid until the next run.
  const float* result() const;

  const Executable& executable() const { return *executable_; }

 private:
  Forward() = default;

  Ending ending_ = Ending::kLogits;
  std::unique_ptr<Buffer> tokens_;
  std::unique_ptr<Buffer> targets_;
  std::unique_ptr<Buffer> rope_;
  std::unique_ptr<Executable> executable_;
};

}  // namespace mainspring
