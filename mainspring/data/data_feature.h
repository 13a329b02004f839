// Data feature: the two things that only a build with MS_DATA has, Parquet files and remote
// objects, as the rest of this folder sees them.
//
// The one idea: every build has these functions; one without the feature answers with the command
// that builds it (data_feature_absent.cc), one with it does the work (parquet_file.cc,
// object_stream.cc).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

inline constexpr size_t kParquetMagicBytes = 4;
/// Whether a file with this head is Parquet.
inline bool is_parquet(std::string_view head) { return head.starts_with("PAR1"); }

/// Whether the path is of a remote object: s3://, gs://, http:// or https://.
bool is_url(std::string_view path);

/// A Parquet file whose footer has been read. Threads: any.
class ParquetFile {
 public:
  struct Column {
    std::string name;
    std::string type;  // for people
  };
  struct Group {
    int64_t num_rows = 0;
    int64_t begin = 0;  // place in the file of its first page
  };

  /// `path` is opened, `name` heads errors. Errors: failed precondition in a build without the
  /// feature, with the command that makes one; data loss for a file that is cut or damaged.
  static Result<std::shared_ptr<const ParquetFile>> open(const std::string& path,
                                                         const std::string& name);
  virtual ~ParquetFile() = default;

  const std::string& name() const { return name_; }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<Group>& groups() const { return groups_; }
  int64_t num_rows() const;
  bool has_column(std::string_view name) const;
  /// "a, b, c".
  std::string column_names() const;

  using UseLines = std::function<Status(std::string_view lines)>;
  /// Calls `use` with whole lines, a JSON object each, for the rows of groups [first, end) in
  /// order; `wanted` names the columns read, empty: all. A null field is left out. Memory: a page a
  /// column, and about 1 MiB of lines. Errors: those of `use`; data loss "name:row: why" for pages
  /// that are damaged or of a codec that is not read; invalid argument for a value that has no form
  /// in JSON.
  virtual Status read_lines(size_t first, size_t end, const std::vector<std::string>& wanted,
                            const UseLines& use) const = 0;

 protected:
  explicit ParquetFile(std::string name) : name_(std::move(name)) {}
  std::string name_;
  std::vector<Column> columns_;
  std::vector<Group> groups_;
};

/// Of a remote object, as its store says.
struct ObjectVersion {
  int64_t size = 0;
  int64_t modified_ns = 0;
  std::string etag;  // empty if the store names no versions
  bool operator==(const ObjectVersion&) const = default;
};

struct FetchLimits {
  int retries = 5;          // in a row without a new byte
  int first_wait_ms = 200;  // then about twice as long each time
  int timeout_ms = 30'000;  // of a connection, an answer, and between two parts of a body
};

/// The bytes of a remote object in order. Threads: one.
class ObjectStream {
 public:
  enum class Failure { kNone, kOther, kNotFound, kDenied, kChanged, kBroken, kNoRange };

  /// From byte `begin` on; `same_as`: the etag that it must have, empty: any. Errors: failed
  /// precondition in a build without the feature; not found; failed precondition if access is
  /// denied; unavailable else. `failure` gets the kind. No message names the object.
  static Result<std::unique_ptr<ObjectStream>> open(const std::string& url, int64_t begin,
                                                    const std::string& same_as,
                                                    const FetchLimits& limits, Failure& failure);
  virtual ~ObjectStream() = default;
  const ObjectVersion& version() const { return version_; }
  /// Appends the next bytes to `out`; none: the end. Errors: unavailable if the stream broke or
  /// stalled.
  virtual Status read(std::string& out) = 0;

 protected:
  ObjectVersion version_;
};

}  // namespace mainspring
