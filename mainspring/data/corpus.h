// Corpus: the opened sources, and which row stands at which place of the endless stream.
//
// The one idea: place(source, cursor) is arithmetic; nothing is stored per row.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/data/data_loader.h"
#include "mainspring/data/order.h"
#include "mainspring/data/row_file.h"

namespace mainspring {

/// Threads: immutable once opened.
class Corpus {
 public:
  struct Source {
    std::string name;
    std::shared_ptr<const RowList> rows;
    int64_t num_held_out = 0;
    int64_t num_train() const { return rows->num_rows() - num_held_out; }
  };

  /// Opens and indexes all files; reads no row. Errors: as DataLoader::open.
  static Result<std::shared_ptr<const Corpus>> open(const DataOptions& options,
                                                    const ReadOptions& read_options);

  const std::vector<Source>& sources() const { return sources_; }
  int source_of(uint64_t sample) const { return (*draw_)(sample); }
  double share(int source) const {
    return static_cast<double>(draw_->count(source)) / static_cast<double>(SourceDraw::kCycle);
  }
  uint32_t epoch_of(int source, int64_t cursor) const {
    return static_cast<uint32_t>(cursor / sources_[source].num_train());
  }
  /// The row at `cursor` of the source's endless training stream.
  int64_t train_row(int source, int64_t cursor) const;
  /// The i-th held-out row, i < num_held_out.
  int64_t held_out_row(int source, int64_t i) const;
  /// Names seed, order options, rows and shares.
  uint64_t digest() const { return digest_; }

 private:
  Status open_sources(const DataOptions& options, const ReadOptions& read_options);

  std::vector<Source> sources_;
  std::optional<SourceDraw> draw_;
  uint64_t seed_ = 0;
  bool shuffle_ = true;
  uint64_t digest_ = 0;
};

}  // namespace mainspring
