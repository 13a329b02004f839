#include "mainspring/sample/scorer.h"

#include <algorithm>
#include <limits>
#include <string>

#include "mainspring/batch/packer.h"

namespace mainspring {
namespace {

/// Position t predicts token t + 1.
Datum datum_of(const ScoreRow& row) {
  Datum datum;
  datum.tokens.assign(row.tokens.begin(), row.tokens.end() - 1);
  datum.targets.assign(row.tokens.begin() + 1, row.tokens.end());
  datum.weights.assign(datum.tokens.size(), 1.0f);
  return datum;
}

}  // namespace

Scorer::Scorer(Executor& executor, ForwardModel model, ScorerOptions options)
    : executor_(executor), model_(std::move(model)), options_(options) {
  if (options_.max_sequence_tokens <= 0) {
    options_.max_sequence_tokens = model_.config.context_length;
  }
}

Status Scorer::check(const ScoreRow& row) const {
  const auto size = static_cast<int64_t>(row.tokens.size());
  if (size > options_.max_sequence_tokens) {
    return invalid_argument("tokens: expected at most " +
                            std::to_string(options_.max_sequence_tokens) + ", got " +
                            std::to_string(size));
  }
  for (size_t i = 0; i < row.tokens.size(); ++i) {
    if (row.tokens[i] >= 0 && row.tokens[i] < model_.config.vocabulary) continue;
    return invalid_argument("tokens: token " + std::to_string(i) + " is " +
                            std::to_string(row.tokens[i]) + ", expected 0 to " +
                            std::to_string(model_.config.vocabulary - 1));
  }
  if (row.adapter < -1 || row.adapter >= static_cast<int32_t>(model_.adapters.size())) {
    return invalid_argument("adapter: " + std::to_string(row.adapter) + " of " +
                            std::to_string(model_.adapters.size()) + " adapters");
  }
  return {};
}

Status Scorer::ensure_capacity(int64_t rows) {
  if (rows <= capacity_) return {};
  rows = std::max(rows, options_.max_rows);
  forward_.reset();
  MS_ASSIGN_OR_RETURN(forward_, Forward::create(executor_, model_,
                                                {.ending = Forward::Ending::kLogprob,
                                                 .capacity = {rows, rows},
                                                 .rope_positions = options_.max_sequence_tokens}));
  capacity_ = rows;
  return {};
}

Result<std::vector<std::vector<float>>> Scorer::score(std::span<const ScoreRow> rows) {
  std::vector<std::vector<float>> scores;
  std::vector<Datum> datums;
  std::vector<size_t> row_of_datum;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Status status = check(rows[i]);
    if (!status.ok()) return status.with_context("row " + std::to_string(i));
    scores.emplace_back(rows[i].tokens.size(), std::numeric_limits<float>::quiet_NaN());
    if (rows[i].tokens.size() < 2) continue;
    datums.push_back(datum_of(rows[i]));
    row_of_datum.push_back(i);
  }
  std::vector<PackItem> items;
  for (size_t k = 0; k < datums.size(); ++k) {
    items.push_back({&datums[k], rows[row_of_datum[k]].adapter});
  }
  size_t first = 0;
  for (const size_t count : split_into_micro_batches(items, options_.max_rows)) {
    const Batch batch = pack(std::span(items).subspan(first, count), /*pick_all=*/true);
    MS_RETURN_IF_ERROR(ensure_capacity(static_cast<int64_t>(batch.tokens.size())));
    std::copy(batch.tokens.begin(), batch.tokens.end(), forward_->tokens());
    std::copy(batch.targets.begin(), batch.targets.end(), forward_->targets());
    forward_->run(batch.row_table(), nullptr);
    const float* logprobs = forward_->result();
    for (size_t pick = 0; pick < batch.origins.size(); ++pick) {
      const Batch::PickOrigin& origin = batch.origins[pick];
      if (origin.item < 0) continue;
      const size_t row = row_of_datum[first + static_cast<size_t>(origin.item)];
      scores[row][static_cast<size_t>(origin.position) + 1] = logprobs[pick];
    }
    first += count;
  }
  return scores;
}

}  // namespace mainspring
