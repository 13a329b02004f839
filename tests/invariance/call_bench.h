// Calls of the engine with objectives of a test's own, and the gradients they leave.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/engine/call.h"
#include "mainspring/engine/trainable.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/models/rope_table.h"
#include "tests/support/golden_files.h"

namespace mainspring::test {

using Gradients = std::map<std::string, std::vector<float>>;

inline bool same_bits(const Gradients& a, const Gradients& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, values] : a) {
    const auto& other = b.at(name);
    if (std::memcmp(values.data(), other.data(), values.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

/// How calls are cut and computed.
struct CallCut {
  int64_t micro_batch_rows = 1024;
  RecomputePolicy recompute = RecomputePolicy::kNone;
  int64_t leaf = 0;
  DType compute = DType::kBF16;
};

class CallBench {
 public:
  static constexpr int64_t kPositions = 64;

  CallBench(std::shared_ptr<const LoadedModel> model, const CallCut& cut)
      : model_(std::move(model)),
        executor_(make_executor()),
        base_(borrow_parameters(*executor_, model_->weights)),
        options_{.compute = cut.compute,
                 .gradient_leaf = cut.leaf,
                 .max_micro_batch_rows = cut.micro_batch_rows,
                 .max_sequence_tokens = kPositions} {
    std::shared_ptr<Buffer> rope =
        executor_->allocate(DType::kF32, rope_table_shape(model_->config, kPositions));
    const std::vector<float> table = make_rope_table(model_->config, kPositions);
    std::memcpy(rope->data(), table.data(), table.size() * sizeof(float));
    Programs::Options programs;
    programs.compute = cut.compute;
    programs.passes.recompute = cut.recompute;
    programs.rope_positions = kPositions;
    programs_ = std::make_unique<Programs>(*model_, *executor_, base_, rope, programs);
  }

  Executor& executor() { return *executor_; }
  const ModelConfig& config() const { return model_->config; }

  Trainable& add(std::unique_ptr<Trainable> trainable) {
    trainable->leaves =
        std::make_unique<GradientLeaves>(*executor_, trainable->grads, options_.gradient_leaf);
    models_.push_back(std::move(trainable));
    return *models_.back();
  }

  struct Work {
    Trainable* model;
    std::span<const Datum> datums;
  };
  Result<std::vector<ForwardBackwardResult>> call(const std::vector<Work>& work,
                                                  const LossInfo& loss, bool with_gradient = true) {
    Program::Key key{.models = {}, .with_gradient = with_gradient};
    for (const Work& item : work) key.models.push_back(item.model);
    EngineCall call({*executor_, *programs_, options_, model_->config.vocabulary}, std::move(key),
                    loss, {});
    for (size_t slot = 0; slot < work.size(); ++slot) {
      MS_RETURN_IF_ERROR(call.add(slot, work[slot].datums));
    }
    return call.run();
  }

  static Gradients gradients(const Trainable& model) {
    Gradients out;
    for (const auto& [name, grad] : model.grads) {
      const auto* values = static_cast<const float*>(std::as_const(*grad).data());
      std::vector<float>& sum = out[name];
      sum.assign(values, values + grad->size_bytes() / 4);
      model.leaves->add_closed_leaves(name, sum);
    }
    return out;
  }

 private:
  std::shared_ptr<const LoadedModel> model_;
  std::unique_ptr<Executor> executor_;
  ParameterSet base_;
  EngineOptions options_;
  std::unique_ptr<Programs> programs_;
  std::vector<std::unique_ptr<Trainable>> models_;
};

}  // namespace mainspring::test
