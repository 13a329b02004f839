#include "mainspring/data/sample_stream.h"

#include <algorithm>

namespace mainspring {

std::string left_out_note(const ReadRow& row, int64_t max_tokens) {
  if (row.use != RowUse::kTooLong) return row.place.where();
  const size_t longest = std::max(row.row.tokens.size(), row.row.rejected.size());
  return row.place.where() + ": " + std::to_string(longest) + " tokens, at most " +
         std::to_string(max_tokens);
}

SampleStream::SampleStream(std::shared_ptr<const Corpus> corpus,
                           std::shared_ptr<const RowEncoder> encoder, ReadOptions read_options)
    : corpus_(std::move(corpus)),
      encoder_(std::move(encoder)),
      read_options_(std::move(read_options)),
      state_(corpus_->start()),
      draw_(state_.mixture, corpus_->seed()) {}

void SampleStream::set_state(const DataState& state) {
  if (state.mixture != state_.mixture) draw_ = MixtureDraw(state.mixture, corpus_->seed());
  state_ = state;
}

Result<ReadRow> SampleStream::next_row() {
  ReadRow out;
  out.sample = state_.next_sample;
  out.source = draw_(state_.next_sample);
  const int64_t cursor = state_.cursors[out.source];
  out.epoch = corpus_->epoch_of(out.source, cursor);
  const RowList& rows = *corpus_->sources()[out.source].rows;
  MS_ASSIGN_OR_RETURN(out.place, rows.read(corpus_->train_row(out.source, cursor), read_options_));
  MS_ASSIGN_OR_RETURN(out.row, encoder_->encode(out.place.text, out.place.where()));
  out.use = encoder_->use_of(out.row);
  ++state_.cursors[out.source];
  if (out.use == RowUse::kUsed) ++state_.next_sample;
  return out;
}

}  // namespace mainspring
