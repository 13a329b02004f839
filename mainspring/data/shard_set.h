// ShardSet: a folder of token shards, and its tokens as windows of a fixed length.
//
// The one idea: window w of a split is arithmetic over the shards' sizes; a shard is mapped when a
// window of it is read, and stays mapped.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/data/shard_index.h"
#include "mainspring/data/token_shard.h"

namespace mainspring {

enum class ShardSplit { kTrain, kHeldOut };

/// Threads: any.
class ShardSet {
 public:
  /// Reads the index and looks for the files; maps none. Cost: some 10 us a shard. Errors: as
  /// read_shard_index; data loss naming a shard that is not there.
  static Result<std::shared_ptr<const ShardSet>> open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const ShardIndex& index() const { return index_; }
  const std::vector<ShardEntry>& entries(ShardSplit split) const {
    return split == ShardSplit::kTrain ? index_.train : index_.held_out;
  }
  /// Errors: as TokenShard::open; data loss if it is not the index's.
  Result<std::shared_ptr<const TokenShard>> shard(ShardSplit split, size_t i) const;
  /// Reads every shard. Errors: data loss with the file.
  Status verify() const;

 private:
  std::string folder_;
  ShardIndex index_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const TokenShard>> mapped_[2];  // under mutex_
};

/// The windows of one split: window w predicts tokens [w T + 1, (w + 1) T] of its shard.
class ShardWindows {
 public:
  ShardWindows(std::shared_ptr<const ShardSet> set, ShardSplit split, int64_t window_tokens);

  int64_t count() const { return starts_.back(); }
  /// The token sequences of window w, each of two tokens or more: one per document in it, or a
  /// single one across documents. Errors: as ShardSet::shard.
  Result<std::vector<std::vector<int32_t>>> read(int64_t w, bool across_documents) const;

 private:
  std::shared_ptr<const ShardSet> set_;
  ShardSplit split_;
  int64_t tokens_;
  std::vector<int64_t> starts_;  // first window of each shard, then the count
};

}  // namespace mainspring
