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
#include "mainspring/data/mixture.h"
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
  uint64_t seed() const { return seed_; }
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
  /// The stream's beginning: no row taken, the shares as they were opened.
  const DataState& start() const { return start_; }
  std::vector<std::string> names() const;

 private:
  Status open_sources(const DataOptions& options, const ReadOptions& read_options);

  std::vector<Source> sources_;
  std::optional<SourceDraw> draw_;
  uint64_t seed_ = 0;
  bool shuffle_ = true;
  DataState start_;
};

}  // namespace mainspring
