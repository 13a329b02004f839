// SampleStream: the endless stream of samples, one after another, on one thread.
//
// The one idea: state in, sample and state out; the prefetcher in data_loader.cc and every
// inspection run the same code.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/data/corpus.h"
#include "mainspring/data/data_loader.h"
#include "mainspring/data/mixture.h"
#include "mainspring/data/row_encoder.h"

namespace mainspring {

/// A row that was read and encoded.
struct ReadRow {
  int source = 0;
  RowList::Row place;
  EncodedRow row;
  RowUse use = RowUse::kUsed;
  uint32_t epoch = 0;
  uint64_t sample = 0;  // the sample it is, or would have been
};

/// "chat.jsonl:7: 812 tokens, at most 512" or "chat.jsonl:7".
std::string left_out_note(const ReadRow& row, int64_t max_tokens);

/// Threads: one.
class SampleStream {
 public:
  SampleStream(std::shared_ptr<const Corpus> corpus, std::shared_ptr<const RowEncoder> encoder,
               ReadOptions read_options);

  /// The next row, usable or not; only a usable one advances the sample's number. After an error
  /// nothing has moved.
  Result<ReadRow> next_row();

  const DataState& state() const { return state_; }
  /// Of the corpus's sources (mixture.h, continued).
  void set_state(const DataState& state);

 private:
  std::shared_ptr<const Corpus> corpus_;
  std::shared_ptr<const RowEncoder> encoder_;
  ReadOptions read_options_;
  DataState state_;
  MixtureDraw draw_;  // of state_.mixture
};

}  // namespace mainspring
