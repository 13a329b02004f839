// SampleSource: what a trainer asks of its data, wherever it comes from.
//
// The one idea: an endless stream whose whole state is a few integers; data_loader.h reads rows of
// text, shard_loader.h windows of token shards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/batch/datum.h"

namespace mainspring {

/// Shares of the sources from a sample on, in places of a cycle (order.h). Sources that came later
/// have none.
struct MixtureEntry {
  uint64_t from_sample = 0;
  std::vector<int64_t> shares;
  bool operator==(const MixtureEntry&) const = default;
};
using MixtureHistory = std::vector<MixtureEntry>;

/// Where the stream stands. Equal states of equal data give equal streams.
struct DataState {
  uint64_t next_sample = 0;  // global sample index
  std::vector<int64_t>
      cursors;               // per source: rows taken so far, unusable ones included, all epochs
  uint64_t data_digest = 0;  // of seed, rows and shares as they are now
  std::vector<uint64_t> sources;  // per source: a digest of seed, rows and held-out rows
  MixtureHistory mixture;         // every change of the shares so far (mixture.h)

  bool operator==(const DataState&) const = default;
};

/// What happened to the rows of one source since open or restore.
struct SourceReport {
  std::string name;
  int64_t num_rows = 0;          // in its files
  int64_t num_held_out = 0;      // of these
  double share = 1.0;            // of the samples
  int64_t num_used = 0;          // samples given out
  int64_t num_empty_mask = 0;    // met and left out
  int64_t num_too_long = 0;      // met and left out
  std::string first_empty_mask;  // "file:line", empty if none
  std::string first_too_long;    // "file:line: 812 tokens, at most 512"
  double epoch = 0.0;            // epochs done, with the fraction
};

/// Threads: one caller.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  /// The datums of the next n samples; sample_index and epoch (of the sample's source) are set.
  /// After an error the state is that of the last sample given out. Errors: the source's.
  virtual Result<std::vector<Datum>> next(int64_t n) = 0;

  /// The state after the samples given out so far, whatever was prefetched.
  virtual DataState state() const = 0;
  /// New sources behind those of the state, and other shares, count from the state's next sample
  /// on. Errors: invalid argument if cursors do not match the sources; failed precondition if a
  /// source is not what the state was taken with, or gone (mixture.h).
  virtual Status restore(const DataState& state) = 0;

  /// Held-out data in a fixed order, sources after one another, at most `max_rows` datums (0: all).
  /// Unusable ones are left out and counted. Errors: as next.
  struct HeldOut {
    std::vector<Datum> datums;  // sample_index counts from 0
    int64_t num_left_out = 0;
  };
  virtual Result<HeldOut> held_out(int64_t max_rows) const = 0;

  virtual std::vector<SourceReport> report() const = 0;
  virtual int64_t num_rows() const = 0;  // to train on, of all sources
};

}  // namespace mainspring
