#include "mainspring/data/shard_set.h"

#include <algorithm>

#include "mainspring/data/data_feature.h"

namespace mainspring {

Result<std::shared_ptr<const ShardSet>> ShardSet::open(const std::string& folder) {
  if (is_url(folder)) {
    return invalid_argument(folder +
                            ": shards are mapped where they lie, so their folder must be on "
                            "this machine: copy it first");
  }
  auto set = std::make_shared<ShardSet>();
  set->folder_ = folder;
  MS_ASSIGN_OR_RETURN(set->index_, read_shard_index(folder));
  for (const ShardSplit split : {ShardSplit::kTrain, ShardSplit::kHeldOut}) {
    for (const ShardEntry& entry : set->entries(split)) {
      if (!is_regular_file(join_path(folder, entry.file))) {
        return data_loss(join_path(folder, entry.file) + ": the index names it, it is not there");
      }
    }
    set->mapped_[static_cast<size_t>(split)].resize(set->entries(split).size());
  }
  return std::shared_ptr<const ShardSet>(std::move(set));
}

Result<std::shared_ptr<const TokenShard>> ShardSet::shard(ShardSplit split, size_t i) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const TokenShard>& mapped = mapped_[static_cast<size_t>(split)][i];
  if (mapped != nullptr) return mapped;
  const ShardEntry& entry = entries(split)[i];
  const std::string path = join_path(folder_, entry.file);
  MS_ASSIGN_OR_RETURN(auto opened, TokenShard::open(path));
  if (opened->num_tokens() != entry.num_tokens || opened->num_documents() != entry.num_documents ||
      opened->checksum().hex() != entry.checksum) {
    return data_loss(path + ": is not the shard that the index describes");
  }
  mapped = std::move(opened);
  return mapped;
}

Status ShardSet::verify() const {
  for (const ShardSplit split : {ShardSplit::kTrain, ShardSplit::kHeldOut}) {
    for (size_t i = 0; i < entries(split).size(); ++i) {
      MS_ASSIGN_OR_RETURN(const auto mapped, shard(split, i));
      MS_RETURN_IF_ERROR(mapped->verify());
    }
  }
  return {};
}

ShardWindows::ShardWindows(std::shared_ptr<const ShardSet> set, ShardSplit split,
                           int64_t window_tokens)
    : set_(std::move(set)), split_(split), tokens_(window_tokens), starts_{0} {
  for (const ShardEntry& entry : set_->entries(split)) {
    // The first token is never predicted; the last window may be short.
    const int64_t windows = (entry.num_tokens - 1 + tokens_ - 1) / tokens_;
    starts_.push_back(starts_.back() + windows);
  }
}

Result<std::vector<std::vector<int32_t>>> ShardWindows::read(int64_t w,
                                                             bool across_documents) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), w);
  const auto index = static_cast<size_t>(after - starts_.begin()) - 1;
  MS_ASSIGN_OR_RETURN(const auto shard, set_->shard(split_, index));
  const int64_t begin = (w - starts_[index]) * tokens_;
  const int64_t end = std::min(shard->num_tokens(), begin + tokens_ + 1);
  std::vector<std::vector<int32_t>> sequences;
  const auto add = [&](int64_t first, int64_t last) {
    if (last - first < 2) return;  // nothing to predict
    shard->read(first, last, sequences.emplace_back());
  };
  if (across_documents) {
    add(begin, end);
    return sequences;
  }
  const auto ends = shard->ends();
  auto document = std::upper_bound(ends.begin(), ends.end(), static_cast<uint64_t>(begin));
  for (int64_t first = begin; first < end; ++document) {
    const int64_t last = std::min(end, static_cast<int64_t>(*document));
    add(first, last);
    first = last;
  }
  return sequences;
}

}  // namespace mainspring
