#include "mainspring/data/documents.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

bool is_text_name(const fs::path& path) {
  return path.extension() == ".txt" || path.extension() == ".md" || path.extension() == ".jsonl";
}

Result<InputFile> describe_file(const std::string& path) {
  std::error_code error;
  InputFile file{.path = path, .is_jsonl = path.ends_with(".jsonl")};
  file.size_bytes = static_cast<int64_t>(fs::file_size(path, error));
  if (error) return not_found(path + ": " + error.message());
  const auto changed = fs::last_write_time(path, error);
  if (error) return not_found(path + ": " + error.message());
  file.changed_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(changed.time_since_epoch()).count();
  return file;
}

Status add_folder(const std::string& folder, std::vector<InputFile>& files) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file(error) && is_text_name(it->path()))
      paths.push_back(it->path().string());
  }
  if (error) return not_found(folder + ": " + error.message());
  if (paths.empty()) return invalid_argument(folder + ": holds no .txt, .md or .jsonl file");
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    MS_ASSIGN_OR_RETURN(InputFile file, describe_file(path));
    files.push_back(std::move(file));
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

using OnDocument = std::function<Status(std::string_view, const std::string&)>;

Status read_row(std::string_view line, const std::string& place, const std::string& field,
                const OnDocument& f) {
  MS_ASSIGN_OR_RETURN(const Json row, parse_json(line, place));
  const auto found = row.is_object() ? row.find(field) : row.end();
  if (!row.is_object() || found == row.end() || !found->is_string()) {
    return invalid_argument(place + ": expected an object with a string \"" + field + "\"");
  }
  return f(found->get_ref<const std::string&>(), place);
}

Status read_rows_of(std::string_view text, const std::string& path, const InputSpan& span,
                    const std::string& field, const OnDocument& f) {
  const int64_t end = row_start(text, span.end);
  for (int64_t at = row_start(text, span.begin); at < end;) {
    size_t newline = text.find('\n', static_cast<size_t>(at));
    if (newline == std::string_view::npos) newline = text.size();
    const auto begin = static_cast<size_t>(at);
    std::string_view line = text.substr(begin, newline - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") != std::string_view::npos) {
      MS_RETURN_IF_ERROR(read_row(line, path + ":byte " + std::to_string(at), field, f));
    }
    at = static_cast<int64_t>(newline) + 1;
  }
  return {};
}

}  // namespace

Result<std::vector<InputFile>> list_input_files(const std::vector<std::string>& paths) {
  std::vector<InputFile> files;
  for (const std::string& path : paths) {
    if (is_directory(path)) {
      MS_RETURN_IF_ERROR(add_folder(path, files));
    } else {
      MS_ASSIGN_OR_RETURN(InputFile file, describe_file(path));
      files.push_back(std::move(file));
    }
  }
  if (files.empty()) return invalid_argument("no input: give text files, JSONL files or folders");
  return files;
}

std::vector<InputPiece> cut_into_pieces(const std::vector<InputFile>& files, int64_t piece_bytes) {
  constexpr size_t kMostSpans = size_t{1} << 16;
  std::vector<InputPiece> pieces(1);
  for (size_t f = 0; f < files.size(); ++f) {
    const int64_t step =
        files[f].is_jsonl ? piece_bytes : std::max<int64_t>(1, files[f].size_bytes);
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
    MS_ASSIGN_OR_RETURN(const auto file, MappedFile::open(input.path));
    if (static_cast<int64_t>(file->bytes().size()) != input.size_bytes) {
      return data_loss(input.path + ": was changed while it was read");
    }
    if (input.is_jsonl) {
      MS_RETURN_IF_ERROR(read_rows_of(file->text(), input.path, span, field, f));
    } else {
      MS_RETURN_IF_ERROR(check_utf8(file->text(), input.path));
      MS_RETURN_IF_ERROR(f(file->text(), input.path));
    }
  }
  return {};
}

}  // namespace mainspring
