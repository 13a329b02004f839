// Exactness checks: promise 1 on a given model and machine, as bit equality.
//
// The one idea: a check computes something in two ways that must not differ and compares bits; the
// same list serves `mainspring verify` on the user's machine and tests/invariance on tiny models.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/engine/engine.h"

namespace mainspring {

struct ExactnessCheck {
  std::string name;  // "sampler = trainer, 17 sequences"
  bool equal = false;
  std::string detail;  // what was compared, or the first difference
  double seconds = 0.0;
};

struct ExactnessOptions {
  /// Makes an executor for a path ("" = the fastest) and a thread count.
  std::function<Result<std::unique_ptr<Executor>>(const std::string& isa, int threads)>
      make_executor;
  std::vector<std::string> isas;  // paths to compare, fastest first
  DType compute = DType::kBF16;
  int64_t sequence_tokens = 48;  // of each training sequence, about
  int64_t prompt_tokens = 20;
  int64_t sampled_tokens = 8;
  std::vector<int> sequence_counts{1, 3, 17};
  bool full_weights = false;  // also gradients of all weights, not only of adapters
  uint64_t seed = 1;
};

/// Runs every check; `on_check` (may be empty) sees each as it ends. A check that cannot run is not
/// equal, with the reason.
std::vector<ExactnessCheck> run_exactness_checks(
    const std::shared_ptr<const LoadedModel>& model, const ExactnessOptions& options,
    const std::function<void(const ExactnessCheck&)>& on_check);

/// A LoRA adapter with random, non-zero A and B (rank 4, all linears), for checks and tests.
Adapter make_random_adapter(const ModelConfig& config, uint64_t seed, int64_t rank, float dropout);

/// A datum of random tokens of which two thirds are learned.
Datum make_random_datum(int64_t vocabulary, int64_t num_tokens, uint64_t seed);

}  // namespace mainspring
