#include "mainspring/batch/packer.h"

#include <algorithm>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

constexpr int32_t kFoldPositions = 2048;  // P of docs/exactness.md, rules 7 and 9

void pick_row(Batch& batch, int32_t row, int32_t item, int32_t position, const Datum& datum) {
  batch.picked.push_back(row);
  batch.targets.push_back(datum.targets[static_cast<size_t>(position)]);
  batch.weights.push_back(datum.weights[static_cast<size_t>(position)]);
  batch.origins.push_back({item, position});
}

// Picks of positions [begin, end), a fold of its own that starts on an even pick.
void pick_range(Batch& batch, const Segment& segment, int32_t item, int32_t begin, int32_t end,
                const Datum& datum, bool pick_all) {
  const int32_t first = static_cast<int32_t>(batch.picked.size());
  for (int32_t t = begin; t < end; ++t) {
    if (pick_all || datum.weights[static_cast<size_t>(t)] != 0.0f) {
      pick_row(batch, segment.row_begin + t, item, t, datum);
    }
  }
  const int32_t count = static_cast<int32_t>(batch.picked.size()) - first;
  if (count == 0) return;
  Segment picks = segment;
  picks.row_begin = first;
  picks.num_rows = count;
  picks.position = begin;
  batch.pick_segments.push_back(picks);
  if (count % 2 == 1) {
    batch.picked.push_back(-1);
    batch.targets.push_back(0);
    batch.weights.push_back(0.0f);
    batch.origins.push_back({});
  }
}

}  // namespace

RowTable Batch::row_table() const {
  return {static_cast<int32_t>(tokens.size()), segments, picked};
}

RowTable Batch::pick_table() const {
  return {static_cast<int32_t>(picked.size()), pick_segments, {}};
}

std::vector<size_t> split_into_micro_batches(std::span<const PackItem> items, int64_t max_rows) {
  std::vector<size_t> runs;
  int64_t rows = 0;
  for (const PackItem& item : items) {
    const int64_t needed = rows_of_sequence(static_cast<int64_t>(item.datum->tokens.size()));
    if (runs.empty() || rows + needed > max_rows) {
      runs.push_back(0);
      rows = 0;
    }
    ++runs.back();
    rows += needed;
  }
  return runs;
}

Batch pack(std::span<const PackItem> items, bool pick_all) {
  Batch batch;
  for (size_t i = 0; i < items.size(); ++i) {
    const Datum& datum = *items[i].datum;
    const int32_t length = static_cast<int32_t>(datum.tokens.size());
    if (length == 0) continue;
    const Segment segment{.row_begin = static_cast<int32_t>(batch.tokens.size()),
                          .num_rows = length,
                          .position = 0,
                          .adapter_slot = items[i].slot,
                          .cache_sequence = -1,
                          .epoch = datum.epoch,
                          .sample_index = datum.sample_index};
    batch.segments.push_back(segment);
    batch.tokens.insert(batch.tokens.end(), datum.tokens.begin(), datum.tokens.end());
    if (length % 2 == 1) batch.tokens.push_back(0);
    for (int32_t begin = 0; begin < length; begin += kFoldPositions) {
      pick_range(batch, segment, static_cast<int32_t>(i), begin,
                 std::min(begin + kFoldPositions, length), datum, pick_all);
    }
  }
  return batch;
}

std::vector<int32_t> pack_candidates(const Batch& batch, std::span<const PackItem> items,
                                     int64_t num_candidates) {
  std::vector<int32_t> targets;
  for (size_t i = 0; i < batch.origins.size(); ++i) {
    const auto& origin = batch.origins[i];
    targets.insert(targets.end(), static_cast<size_t>(1 + num_candidates), batch.targets[i]);
    if (origin.item < 0) continue;
    const Datum& datum = *items[static_cast<size_t>(origin.item)].datum;
    const size_t k = datum.candidates.size() / datum.tokens.size();
    const size_t from = static_cast<size_t>(origin.position) * k;
    const size_t to = targets.size() - static_cast<size_t>(num_candidates);
    for (size_t j = 0; j < k; ++j) {
      if (datum.candidates[from + j] >= 0) targets[to + j] = datum.candidates[from + j];
    }
  }
  return targets;
}

std::vector<float> pack_input(const Batch& batch, std::span<const PackItem> items,
                              const std::string& name) {
  std::vector<float> values(batch.origins.size(), 0.0f);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& origin = batch.origins[i];
    if (origin.item < 0) continue;
    const auto& inputs = items[static_cast<size_t>(origin.item)].datum->inputs;
    const auto found = inputs.find(name);
    MS_CHECK(found != inputs.end(), "datum without per-token input " + name);
    values[i] = found->second[static_cast<size_t>(origin.position)];
  }
  return values;
}

}  // namespace mainspring
