// Prefetcher: a thread that reads and encodes samples ahead of the trainer.
//
// The one idea: each sample carries the stream's state after it, so what was prefetched and not
// taken leaves no trace in a checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/batch/datum.h"
#include "mainspring/data/sample_stream.h"

namespace mainspring {

/// Rows that were met and left out on the way to a sample.
struct LeftOut {
  int64_t num_empty_mask = 0;
  int64_t num_too_long = 0;
  std::string first_empty_mask;
  std::string first_too_long;

  void add(const ReadRow& row, int64_t max_tokens);
  void add(const LeftOut& other);
};

/// A usable sample with all that the loader keeps of it.
struct Sample {
  std::vector<Datum> datums;  // one, or a pair
  int source = 0;
  LeftOut left_out;
  DataState state;  // of the stream after it
};

/// Reads rows until a usable one. Errors: failed precondition if two epochs of a source have none.
Result<Sample> next_sample(SampleStream& stream, const Corpus& corpus, const RowEncoder& encoder);

/// Threads: one caller.
class Prefetcher {
 public:
  struct Setup {
    std::shared_ptr<const Corpus> corpus;
    std::shared_ptr<const RowEncoder> encoder;
    ReadOptions read_options;
    int64_t num_ahead = 64;
    double stall_timeout_s = 60.0;
  };
  /// Starts from `state`; reads nothing until the first take if num_ahead is 0.
  Prefetcher(const Setup& setup, const DataState& state);
  /// Stops the thread; one that hangs in a read is left behind.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next n samples. Errors: as DataLoader::next; then nothing was taken.
  Result<std::vector<Sample>> take(int64_t n);

 private:
  struct Shared;
  static void run(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;
};

}  // namespace mainspring
