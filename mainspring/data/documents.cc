#include "mainspring/data/documents.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "mainspring/data/data_feature.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

// The ending that tells the kind of text: ".jsonl" of x.jsonl and of x.jsonl.gz.
std::string text_ending(fs::path path) {
  if (path.extension() == ".gz" || path.extension() == ".zst") path = path.stem();
  return path.extension().string();
}

bool is_text_name(const fs::path& path) {
  const std::string ending = text_ending(path);
  return ending == ".txt" || ending == ".md" || ending == ".jsonl" ||
         path.extension() == ".parquet";
}

// The part of a URL that names the object.
std::string object_name(const std::string& path) {
  return is_url(path) ? path.substr(0, path.find_first_of("?#")) : path;
}

// Its kind, from its first bytes.
Status read_head(InputFile& file, const std::string& field) {
  std::ifstream in(file.local, std::ios::binary);
  char head[std::max(kCompressionMagicBytes, kParquetMagicBytes)];
  in.read(head, sizeof(head));
  if (in.bad() || !in.is_open()) return unavailable(file.path + ": cannot be read");
  const std::string_view bytes(head, static_cast<size_t>(in.gcount()));
  file.compression = compression_of(bytes);
  file.is_parquet = is_parquet(bytes);
  if (!file.is_parquet) return {};
  MS_ASSIGN_OR_RETURN(const auto parquet, ParquetFile::open(file.local, file.path));
  if (parquet->has_column(field)) return {};
  return invalid_argument(file.path + ": has no column \"" + field + "\", but " +
                          parquet->column_names());
}

Result<InputFile> describe_file(const std::string& path, const std::string& field,
                                const FetchOptions& fetch) {
  std::error_code error;
  InputFile file{
      .path = path, .local = path, .is_jsonl = text_ending(object_name(path)) == ".jsonl"};
  if (is_url(path)) {
    MS_ASSIGN_OR_RETURN(const FetchedObject object, fetch_object(path, fetch));
    file.local = object.path;
    file.size_bytes = object.version.size;
    file.changed_ns = object.version.modified_ns;
    file.etag = object.version.etag;
  } else {
    file.size_bytes = static_cast<int64_t>(fs::file_size(path, error));
    if (error) return not_found(path + ": " + error.message());
    const auto changed = fs::last_write_time(path, error);
    if (error) return not_found(path + ": " + error.message());
    file.changed_ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(changed.time_since_epoch()).count();
  }
  MS_RETURN_IF_ERROR(read_head(file, field));
  return file;
}

Status add_folder(const std::string& folder, const std::string& except, const std::string& field,
                  InputList& list) {
  std::vector<std::string> paths;
  std::string first_skipped;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;  // `except` may not be there yet
    if (it->is_directory(error) && fs::equivalent(it->path(), except, ignored)) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file(error)) {
      const std::string path = it->path().string();
      if (is_text_name(it->path())) {
        paths.push_back(path);
      } else {
        ++list.num_skipped;
        if (first_skipped.empty() || path < first_skipped) first_skipped = path;
      }
    }
  }
  if (error) return not_found(folder + ": " + error.message());
  if (list.first_skipped.empty()) list.first_skipped = first_skipped;
  if (paths.empty()) {
    return invalid_argument(
        folder + ": holds no .txt, .md or .jsonl file (plain, .gz or .zst) and no .parquet file" +
        (first_skipped.empty() ? "" : ", but " + first_skipped));
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    MS_ASSIGN_OR_RETURN(InputFile file, describe_file(path, field, {}));
    list.files.push_back(std::move(file));
  }
  return {};
}

// The length of the UTF-8 sequence at `at`, 0 if there is none.
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and beyond U+10FFFF.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) > 0x9f) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

Status check_utf8(std::string_view text, const std::string& place) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    if (length == 0) {
      return invalid_argument(place + ": byte " + std::to_string(i) +
                              " is not UTF-8; convert the file first");
    }
    i += length;
  }
  return {};
}

// The start of the first row that begins at `from` or after it.
int64_t row_start(std::string_view text, int64_t from) {
  if (from == 0) return 0;
  const size_t newline = text.find('\n', static_cast<size_t>(from - 1));
  return newline == std::string_view::npos ? static_cast<int64_t>(text.size())
                                           : static_cast<int64_t>(newline + 1);
}

Status read_row(std::string_view line, const DocumentPlace& place, const std::string& field,
                const OnDocument& f) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.find_first_not_of(" \t") == std::string_view::npos) return {};
  const auto parsed = parse_json(line, "");
  if (!parsed.ok()) {  // ":1:<column>: reason" of the one line, or ": reason"
    std::string message(parsed.status().message());
    if (message.starts_with(":1:")) message.replace(0, 3, ": column ");
    return invalid_argument(place.text() + message);
  }
  const Json& row = *parsed;
  const auto found = row.is_object() ? row.find(field) : row.end();
  if (!row.is_object() || found == row.end() || !found->is_string()) {
    return invalid_argument(place.text() + ": expected an object with a string \"" + field + "\"");
  }
  return f(found->get_ref<const std::string&>(), place);
}

Status read_rows_of(std::string_view text, const std::string& path, const InputSpan& span,
                    const std::string& field, const OnDocument& f) {
  const int64_t start = row_start(text, span.begin);
  const int64_t end = row_start(text, span.end);
  DocumentPlace place{.file = path, .before = text.substr(0, static_cast<size_t>(start))};
  for (int64_t at = start; at < end;) {
    size_t newline = text.find('\n', static_cast<size_t>(at));
    if (newline == std::string_view::npos) newline = text.size();
    const auto begin = static_cast<size_t>(at);
    ++place.line;
    MS_RETURN_IF_ERROR(read_row(text.substr(begin, newline - begin), place, field, f));
    at = static_cast<int64_t>(newline) + 1;
  }
  return {};
}

Status read_text(std::string_view text, const std::string& path, const OnDocument& f) {
  MS_RETURN_IF_ERROR(check_utf8(text, path));
  return f(text, {.file = path});
}

// Rows whose bytes come in parts.
class RowStream {
 public:
  RowStream(const std::string& path, const std::string& field, const OnDocument& f)
      : place_{.file = path}, field_(field), f_(f) {}

  Status push(std::string_view part) {
    for (size_t newline = part.find('\n'); newline != std::string_view::npos;
         newline = part.find('\n')) {
      line_.append(part.substr(0, newline));
      MS_RETURN_IF_ERROR(end_line());
      part.remove_prefix(newline + 1);
    }
    line_.append(part);
    return {};
  }
  Status finish() { return line_.empty() ? Status() : end_line(); }

 private:
  Status end_line() {
    ++place_.line;
    MS_RETURN_IF_ERROR(read_row(line_, place_, field_, f_));
    line_.clear();
    return {};
  }

  DocumentPlace place_;
  const std::string& field_;
  const OnDocument& f_;
  std::string line_;
};

// The row groups that begin in the span. A row's number is that in its file.
Status read_parquet(const InputFile& input, const InputSpan& span, const std::string& field,
                    const OnDocument& f) {
  std::error_code error;
  if (static_cast<int64_t>(fs::file_size(input.local, error)) != input.size_bytes || error) {
    return data_loss(input.path + ": was changed while it was read");
  }
  MS_ASSIGN_OR_RETURN(const auto file, ParquetFile::open(input.local, input.path));
  DocumentPlace place{.file = input.path};
  const auto& groups = file->groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].begin < span.begin || groups[g].begin >= span.end) {
      place.line += groups[g].num_rows;
      continue;
    }
    MS_RETURN_IF_ERROR(file->read_lines(g, g + 1, {field}, [&](std::string_view lines) -> Status {
      for (size_t end = lines.find('\n'); end != std::string_view::npos; end = lines.find('\n')) {
        ++place.line;
        MS_RETURN_IF_ERROR(read_row(lines.substr(0, end), place, field, f));
        lines.remove_prefix(end + 1);
      }
      return {};
    }));
  }
  return {};
}

Status decompress(std::string_view bytes, const InputFile& input, const Decompressor::Use& use) {
  constexpr size_t kPart = size_t{1} << 20;
  const auto stream = Decompressor::create(input.compression, input.path);
  for (size_t at = 0; at < bytes.size(); at += kPart) {
    MS_RETURN_IF_ERROR(stream->push(bytes.substr(at, kPart), use));
  }
  return stream->finish();
}

Status read_compressed(std::string_view bytes, const InputFile& input, const std::string& field,
                       const OnDocument& f) {
  if (input.is_jsonl) {
    RowStream rows(input.path, field, f);
    MS_RETURN_IF_ERROR(
        decompress(bytes, input, [&](std::string_view part) { return rows.push(part); }));
    return rows.finish();
  }
  std::string text;
  MS_RETURN_IF_ERROR(decompress(bytes, input, [&](std::string_view part) -> Status {
    text.append(part);
    return {};
  }));
  return text.empty() ? Status() : read_text(text, input.path, f);  // as of an empty plain file
}

}  // namespace

std::string DocumentPlace::text() const {
  std::string out(file);
  if (line > 0) out += ":" + std::to_string(std::count(before.begin(), before.end(), '\n') + line);
  return out;
}

Result<InputList> list_input_files(const std::vector<std::string>& paths, const std::string& except,
                                   const std::string& field, const FetchOptions& fetch) {
  InputList list;
  for (const std::string& path : paths) {
    if (is_directory(path)) {
      MS_RETURN_IF_ERROR(add_folder(path, except, field, list));
    } else {
      MS_ASSIGN_OR_RETURN(InputFile file, describe_file(path, field, fetch));
      list.files.push_back(std::move(file));
    }
  }
  if (list.files.empty()) {
    return invalid_argument("no input: give text files, JSONL files, Parquet files or folders");
  }
  return list;
}

std::vector<InputPiece> cut_into_pieces(const std::vector<InputFile>& files, int64_t piece_bytes) {
  constexpr size_t kMostSpans = size_t{1} << 16;
  std::vector<InputPiece> pieces(1);
  for (size_t f = 0; f < files.size(); ++f) {
    const bool can_be_cut =
        files[f].is_parquet || (files[f].is_jsonl && files[f].compression == Compression::kNone);
    const int64_t step = can_be_cut ? piece_bytes : std::max<int64_t>(1, files[f].size_bytes);
    for (int64_t begin = 0; begin < files[f].size_bytes; begin += step) {
      const int64_t end = std::min(files[f].size_bytes, begin + step);
      InputPiece& last = pieces.back();
      const bool fits = last.spans.size() < kMostSpans &&
                        (last.size_bytes == 0 || last.size_bytes + end - begin <= piece_bytes);
      InputPiece& piece = fits ? last : pieces.emplace_back();
      piece.spans.push_back({f, begin, end});
      piece.size_bytes += end - begin;
    }
  }
  if (pieces.back().spans.empty()) pieces.pop_back();
  return pieces;
}

Status for_each_document(const std::vector<InputFile>& files, const InputPiece& piece,
                         const std::string& field, const OnDocument& f) {
  for (const InputSpan& span : piece.spans) {
    const InputFile& input = files[span.file];
    if (input.is_parquet) {
      MS_RETURN_IF_ERROR(read_parquet(input, span, field, f));
      continue;
    }
    MS_ASSIGN_OR_RETURN(const auto file, MappedFile::open(input.local));
    if (static_cast<int64_t>(file->bytes().size()) != input.size_bytes) {
      return data_loss(input.path + ": was changed while it was read");
    }
    if (input.compression != Compression::kNone) {
      MS_RETURN_IF_ERROR(read_compressed(file->text(), input, field, f));
    } else if (input.is_jsonl) {
      MS_RETURN_IF_ERROR(read_rows_of(file->text(), input.path, span, field, f));
    } else {
      MS_RETURN_IF_ERROR(read_text(file->text(), input.path, f));
    }
  }
  return {};
}

}  // namespace mainspring
