// BatchStream: which samples make a step's batch.
//
// The one idea: batches are cut from one stream of samples, whose place before each is known, so
// that a batch can be left out, named and drawn again; how large they are (batch_schedule.h) does
// not change the stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/batch/datum.h"
#include "mainspring/data/sample_source.h"
#include "mainspring/train/batch_schedule.h"
#include "mainspring/train/recipe.h"

namespace mainspring {

/// Samples [begin, end) of the stream.
struct SampleRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Where a batch came from: the stream before it, and how many steps were done.
struct BatchOrigin {
  DataState data;
  SampleRange samples;
  int64_t step = 0;
};

/// A batch and its origin.
struct DrawnBatch {
  std::vector<Datum> datums;
  BatchOrigin origin;
  bool follows_left_out = false;  // a batch between this one and the one before was left out
};

/// As a checkpoint keeps it; `data`, of the same stream, gives the digest that is not in the text.
std::string origin_text(const BatchOrigin& origin);
BatchOrigin parse_origin(const std::string& text, const DataState& data);

/// Threads: one caller.
class BatchStream {
 public:
  /// `source` outlives the stream.
  BatchStream(const TrainRecipe& recipe, SampleSource& source)
      : sizes_(BatchSchedule::of(recipe)), source_(source) {}

  /// The next batch that is not left out, for a run that has done `step` steps. Errors: the
  /// source's.
  Result<DrawnBatch> next(int64_t step);
  /// The batch of `origin` again; the stream stands where it stood. Errors: the source's.
  Result<std::vector<Datum>> again(const BatchOrigin& origin);

  /// The batch that begins where `range` does is left out when its turn comes.
  void leave_out(SampleRange range);
  const std::vector<SampleRange>& left_out() const { return left_out_; }
  /// The ranges left out, as a checkpoint keeps them; those read are added to the ones known.
  std::string left_out_text() const;
  void add_left_out(const std::string& text);

 private:
  /// The batch of `step` from where the stream stands.
  Result<std::vector<Datum>> draw(int64_t step);

  BatchSchedule sizes_;
  SampleSource& source_;
  std::vector<SampleRange> left_out_;
};

}  // namespace mainspring
