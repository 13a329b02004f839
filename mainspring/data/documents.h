// Documents: text files and JSONL rows, plain or compressed, cut into pieces that threads share.
//
// The one idea: where pieces begin depends on the files alone, so what a build makes of them does
// not depend on threads or on where an earlier build stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/data/object_cache.h"
#include "mainspring/io/decompress.h"

namespace mainspring {

struct InputFile {
  std::string path;         // as given: a URL is brought into the cache first
  std::string local;        // where its bytes lie
  bool is_jsonl = false;    // by its name, .gz or .zst aside; else the whole file is one document
  bool is_parquet = false;  // by its first bytes
  Compression compression = Compression::kNone;  // by its first bytes; else it is one span
  std::string etag;                              // of a URL whose store names versions
  int64_t size_bytes = 0;                        // as it lies
  int64_t changed_ns = 0;                        // since the epoch
};

struct InputList {
  std::vector<InputFile> files;
  int64_t num_skipped = 0;    // files of other kinds in the folders
  std::string first_skipped;  // by path, of the first folder that has one
};

/// Part of one file. Of plain JSONL: the rows whose first byte lies in it; of Parquet: the row
/// groups.
struct InputSpan {
  size_t file = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct InputPiece {
  std::vector<InputSpan> spans;
  int64_t size_bytes = 0;
};

/// Where a document lies; the line is only counted when it is asked for.
struct DocumentPlace {
  std::string_view file;
  std::string_view before;  // bytes of the file whose lines come first
  int64_t line = 0;         // counted from 1 after `before`; 0: the whole file
  /// "file" or "file:line".
  std::string text() const;
};

/// Files as given; of a folder every .txt, .md, .jsonl and .parquet below it, the first three also
/// with .gz or .zst after that, in the order of their paths, without what lies in the folder
/// `except`. Errors: not found; invalid argument for a folder without any, and for a Parquet file
/// without a column `field`; those of object_cache.h and data_feature.h.
Result<InputList> list_input_files(const std::vector<std::string>& paths, const std::string& except,
                                   const std::string& field, const FetchOptions& fetch);

/// Pieces of about `piece_bytes`, at least one per 2^16 files.
std::vector<InputPiece> cut_into_pieces(const std::vector<InputFile>& files, int64_t piece_bytes);

using OnDocument = std::function<Status(std::string_view text, const DocumentPlace& place)>;

/// Calls f for each document of the piece in order; `field` holds the text of a row. Memory:
/// compressed rows one by one, a compressed text whole. Errors: f's; invalid argument for a row
/// that is no JSON object or lacks the field, and for text that is not UTF-8, with its place; data
/// loss for a damaged or cut compressed file.
Status for_each_document(const std::vector<InputFile>& files, const InputPiece& piece,
                         const std::string& field, const OnDocument& f);

}  // namespace mainspring
