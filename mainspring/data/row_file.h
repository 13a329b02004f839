// RowFile: a JSONL file, plain or compressed, or a Parquet file, as a random-access list of rows.
//
// The one idea: one pass finds where rows begin and keeps a place every 32 rows (or 64 KiB); a row
// is read again when it is wanted. Rows are read by pread, not through a mapping: resident memory
// stays flat, and a file that is cut or fails while we read is a Status, not a SIGBUS. A row is a
// line with something on it; blank lines, a final line without newline, CRLF and a byte-order mark
// are fine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/data/activity.h"
#include "mainspring/data/object_cache.h"
#include "mainspring/io/checksum.h"
#include "mainspring/io/decompress.h"

namespace mainspring {

/// How files are read.
struct ReadOptions {
  std::shared_ptr<Activity> activity;                        // told of every read
  double stall_timeout_s = 60.0;                             // of a pipe
  std::function<void(const std::string& file)> before_read;  // for tests; may be empty
  std::vector<std::string> columns;  // read of a Parquet file, those that it has; empty: all
  OnFetch on_fetch;                  // of a URL; may be empty
};

struct FileRow {
  std::string text;  // without its newline
  int64_t line = 0;  // 1 is the first
};

/// Threads: reads may come from several threads.
class RowFile {
 public:
  static constexpr int64_t kMaxRowBytes = int64_t{256} << 20;

  /// Opens and indexes. A pipe (or terminal) is first copied to an unnamed temporary file, and a
  /// file that begins like gzip or zstd is decompressed into one; the rows of a Parquet file are
  /// written into one as lines, row n as line n. A URL is first brought into the cache
  /// (object_cache.h). `digest` gets the rows' bytes (a missing last newline added), so compression
  /// does not change it. Errors: those of object_cache.h and data_feature.h; not found; invalid
  /// argument for a folder, a device without an end or a row over kMaxRowBytes (file:line); data
  /// loss for a compressed file that is cut or damaged; deadline exceeded for a pipe that gives
  /// nothing; resource exhausted if the temporary file does not fit.
  static Result<std::shared_ptr<const RowFile>> open(const std::string& path,
                                                     const ReadOptions& options,
                                                     Checksum128& digest);
  /// The same of standard input, whatever is behind it; its path is "standard input".
  static Result<std::shared_ptr<const RowFile>> standard_input(const ReadOptions& options,
                                                               Checksum128& digest);
  ~RowFile();
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t num_rows() const { return num_rows_; }
  /// `index` in [0, num_rows()). Errors: data loss if the file is shorter than when it was indexed,
  /// or the row is no longer there.
  Result<FileRow> read(int64_t index, const ReadOptions& options) const;

 private:
  struct Anchor {
    int64_t row = 0;     // the first row that begins at or after `offset`
    int64_t offset = 0;  // of a line's beginning
    int64_t line = 1;
  };
  RowFile() = default;
  /// Takes the descriptor.
  static Result<std::shared_ptr<const RowFile>> adopt(int fd, std::string path,
                                                      const ReadOptions& options,
                                                      Checksum128& digest);
  Status spool(int source, const ReadOptions& options);
  /// Puts the lines that a compressed or a Parquet file holds into a temporary file.
  Status unpack(const ReadOptions& options);
  Status decompress_into(Compression kind, int from, int64_t from_bytes,
                         const ReadOptions& options);
  Status unpack_parquet(int from, const ReadOptions& options);
  Status build_index(const ReadOptions& options, Checksum128& digest);
  Result<size_t> read_at(int fd, int64_t offset, char* buffer, size_t size,
                         const ReadOptions& options) const;

  std::string path_;
  int fd_ = -1;
  int64_t size_bytes_ = 0;
  int64_t num_rows_ = 0;
  std::vector<Anchor> anchors_;
};

/// Several files as one list of rows.
class RowList {
 public:
  /// Errors: as RowFile::open; invalid argument if there is no row.
  static Result<std::shared_ptr<const RowList>> open(const std::vector<std::string>& paths,
                                                     const ReadOptions& options);
  int64_t num_rows() const { return ends_.empty() ? 0 : ends_.back(); }
  /// Of the bytes of all files one after another: the same however they are cut into files at line
  /// ends.
  const Digest128& digest() const { return digest_; }

  struct Row {
    std::string text;
    std::string file;
    int64_t line = 0;
    std::string where() const { return file + ":" + std::to_string(line); }
  };
  Result<Row> read(int64_t index, const ReadOptions& options) const;

 private:
  std::vector<std::shared_ptr<const RowFile>> files_;
  std::vector<int64_t> ends_;  // file f owns rows [ends_[f - 1], ends_[f])
  Digest128 digest_;
};

}  // namespace mainspring
