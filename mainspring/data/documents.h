// Documents: text files and JSONL rows, cut into pieces that threads share.
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

namespace mainspring {

struct InputFile {
  std::string path;
  bool is_jsonl = false;  // by its name; else the whole file is one document
  int64_t size_bytes = 0;
  int64_t changed_ns = 0;  // since the epoch
};

/// Part of one file. Of JSONL: the rows whose first byte lies in it.
struct InputSpan {
  size_t file = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct InputPiece {
  std::vector<InputSpan> spans;
  int64_t size_bytes = 0;
};

/// Files as given; of a folder every .txt, .md and .jsonl below it, in the order of their paths.
/// Errors: not found; invalid argument for a folder without any.
Result<std::vector<InputFile>> list_input_files(const std::vector<std::string>& paths);

/// Pieces of about `piece_bytes`, at least one per 2^16 files.
std::vector<InputPiece> cut_into_pieces(const std::vector<InputFile>& files, int64_t piece_bytes);

/// Calls f(text, place) for each document of the piece in order; `field` holds the text of a JSONL
/// row. `place` is "file" or "file:byte". Errors: f's; invalid argument for a row that is no JSON
/// object or lacks the field, and for text that is not UTF-8, with its place.
Status for_each_document(
    const std::vector<InputFile>& files, const InputPiece& piece, const std::string& field,
    const std::function<Status(std::string_view text, const std::string& place)>& f);

}  // namespace mainspring
