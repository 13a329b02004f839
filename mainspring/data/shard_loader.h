// ShardLoader: the endless, resumable stream of windows of token shards.
//
// The one idea: window number i of the stream is a pure function of (seed, data), as row number i
// is in data_loader.h: a keyed draw of the folder, a keyed permutation of its windows per epoch.
// Reading is a copy from mapped memory, so nothing is prefetched.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/data/mixture.h"
#include "mainspring/data/order.h"
#include "mainspring/data/sample_source.h"
#include "mainspring/data/shard_set.h"

namespace mainspring {

struct ShardLoaderOptions {
  std::vector<std::string> folders;
  std::vector<double> weights;  // share of samples per folder; empty: by number of windows
  uint64_t seed = 0;
  bool shuffle = true;  // false: in the order of the shards
  int64_t window_tokens = 1024;
  bool across_documents = false;  // a window is one sequence; else one per document in it
};

/// A sample is a window; it gives one datum per sequence. Threads: one caller.
class ShardLoader final : public SampleSource {
 public:
  /// Errors: those of the folders; invalid argument for options out of range.
  static Result<std::unique_ptr<ShardLoader>> open(const ShardLoaderOptions& options);

  Result<std::vector<Datum>> next(int64_t n) override;
  DataState state() const override { return state_; }
  Status restore(const DataState& state) override;
  Result<HeldOut> held_out(int64_t max_rows) const override;
  std::vector<SourceReport> report() const override;
  int64_t num_rows() const override;

  const std::vector<std::shared_ptr<const ShardSet>>& sets() const { return sets_; }

 private:
  explicit ShardLoader(ShardLoaderOptions options) : options_(std::move(options)) {}

  ShardLoaderOptions options_;
  std::vector<std::shared_ptr<const ShardSet>> sets_;
  std::vector<ShardWindows> windows_;
  std::optional<SourceDraw> draw_;      // the shares as they were opened
  std::optional<MixtureDraw> mixture_;  // of state_.mixture
  std::vector<int64_t> used_;           // samples given out per folder
  DataState state_;
};

}  // namespace mainspring
