// WeightSnapshot: a model's weights at one version, unchanged while the engine trains on.
//
// The one idea: a snapshot has buffers of its own that read the engine's memory until the weights
// are about to change; what is still held then takes a copy. So sampling between two steps costs no
// byte, and a sampler that goes on with old weights keeps them, at the same addresses it was bound
// to. Not for what is on disk: that is ckpt/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "mainspring/exec/executor.h"
#include "mainspring/io/checksum.h"
#include "mainspring/nn/layers.h"
#include "mainspring/weights/parameter_set.h"

namespace mainspring {

/// Threads: as the executor's, one caller.
class WeightSnapshot {
 public:
  /// `live` stays as it is until keep() is called.
  WeightSnapshot(Executor& executor, int64_t version, std::optional<nn::AdapterSpec> adapter,
                 const ParameterSet& live);

  int64_t version() const { return version_; }
  /// The adapter's modules (slot 0); none for the base and for full weights.
  const std::optional<nn::AdapterSpec>& adapter() const { return adapter_; }
  /// By the names of Engine::parameters.
  const ParameterSet& parameters() const { return parameters_; }
  /// Engine::digest of that version. Cost: one pass over the weights at the first call.
  const Digest128& digest() const;
  /// What it holds beside the engine's own memory: 0 until the weights change.
  int64_t copied_bytes() const { return copied_bytes_; }

  /// Takes a copy of what it still shares. Errors: resource exhausted.
  Status keep();

 private:
  int64_t version_;
  std::optional<nn::AdapterSpec> adapter_;
  ParameterSet parameters_;
  int64_t copied_bytes_ = 0;
  mutable std::optional<Digest128> digest_;
};

/// digest_of (weights/digest.h) over all parameters in name order, tied ones once, and an adapter's
/// scales.
Digest128 digest_parameters(const ParameterSet& parameters,
                            const std::optional<nn::AdapterSpec>& adapter);

}  // namespace mainspring
