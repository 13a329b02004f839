// DataLoader: the endless, resumable stream of training samples.
//
// The one idea: which row is sample number i is a pure function of (seed, data): the source is a
// keyed draw with exact shares, the row a keyed permutation per epoch of that source. So the whole
// state is one integer per source and the next sample's number; threads, prefetch and the cutting
// of a source into files change nothing. Rows stay in their files (an index of one offset per 32
// rows is kept). Not for tokenizing (row_encoder.h) or batching (engine/ packs). Design note:
// docs/exactness.md, rule 18; mainspring/data/README.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/batch/datum.h"
#include "mainspring/data/object_cache.h"
#include "mainspring/data/row_encoder.h"
#include "mainspring/data/sample_source.h"

namespace mainspring {

/// Files that count as one list of rows, in order: cutting it into other files changes nothing.
struct DataSource {
  std::string name;                // for reports; empty: the first file's name
  std::vector<std::string> files;  // JSONL or Parquet; a pipe is copied to a temporary file first
  // Share of samples. 0 in every source: by number of rows; 0 beside a larger one: no sample.
  double weight = 0.0;
};

struct DataOptions {
  std::vector<DataSource> sources;
  uint64_t seed = 0;
  bool shuffle = true;  // false: file order, and the held-out rows are the last ones
  double held_out_fraction =
      0.0;  // of each source's rows, in [0, 1): chosen by the seed, never trained on
  int64_t prefetch_samples = 64;  // encoded ahead of the caller; 0: none ahead, same samples
  double stall_timeout_s = 60.0;  // a file that gives nothing for so long is named
  int64_t check_bytes = int64_t{8}
                        << 20;  // of each source: rows checked when opened, before any work
  /// Called before each read of a file, on the reading thread; tests stall or fail a file with it.
  std::function<void(const std::string& file)> before_read;
  OnFetch on_fetch;  // of files given as URLs, on the reading thread; may be empty
};

/// A row's place and text, as `inspect data` shows it.
struct DescribedRow {
  std::string source;
  std::string file;
  int64_t line = 0;  // 1 is the first
  RowUse use = RowUse::kUsed;
  EncodedRow row;
  std::vector<std::string> pieces;  // per token
  std::vector<std::string> rejected_pieces;
};

/// One line per source for people, such as
/// "chat: 480 rows (20 held out), 400 samples used, 11 left out: 11 too long (first chat.jsonl:7:
/// ...)".
std::string describe(const SourceReport& report);

/// Threads: one caller; a background thread of its own reads and encodes ahead.
class DataLoader final : public SampleSource {
 public:
  /// Opens, indexes and checks every file. Errors: invalid argument for options out of range,
  /// malformed rows (file:line, field, expected) and data without a usable row (first row and why);
  /// not found; deadline exceeded names the file that stalled.
  static Result<std::unique_ptr<DataLoader>> open(DataOptions options,
                                                  std::shared_ptr<const RowEncoder> encoder);
  ~DataLoader() override;
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Errors: invalid argument for a malformed row; deadline exceeded names the file; data loss if a
  /// file was changed; failed precondition if a source has no usable row.
  Result<std::vector<Datum>> next(int64_t n) override;
  DataState state() const override;
  Status restore(const DataState& state) override;
  Result<HeldOut> held_out(int64_t max_rows) const override;

  /// Rows of the training order from the current state on, unusable ones included; the state stays.
  Result<std::vector<DescribedRow>> describe_next(int64_t n) const;

  /// Encodes every row of every source once, in file order, and counts: what one epoch will use.
  struct Survey {
    std::vector<SourceReport> sources;
    int64_t num_tokens = 0;      // of usable rows
    int64_t num_learned = 0;     // of these
    int64_t longest_tokens = 0;  // of all rows
  };
  Result<Survey> survey() const;

  std::vector<SourceReport> report() const override;
  int64_t num_rows() const override;

 private:
  class Impl;
  explicit DataLoader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// All rows of `files` in file order, at most `max_rows` (0: all): a separate evaluation set.
/// Errors: as DataLoader::open and next.
Result<DataLoader::HeldOut> read_rows(const std::vector<std::string>& files,
                                      std::shared_ptr<const RowEncoder> encoder, int64_t max_rows,
                                      double stall_timeout_s = 60.0, OnFetch on_fetch = {});

}  // namespace mainspring
