#include "mainspring/cli/row_source.h"

#include "mainspring/data/row_file.h"
#include "mainspring/run/byte_progress.h"

namespace mainspring::cli {

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : path; }

Status for_each_row(
    const std::string& path,
    const std::function<Status(std::string_view line, std::string_view where)>& use) {
  ReadOptions options;
  ByteProgress progress;
  options.on_fetch = [&](const std::string& url, int64_t done, int64_t total) {
    progress.update("fetch " + url, done, total);
  };
  Checksum128 unused;
  MS_ASSIGN_OR_RETURN(const std::shared_ptr<const RowFile> file,
                      path == "-" ? RowFile::standard_input(options, unused)
                                  : RowFile::open(path, options, unused));
  for (int64_t i = 0; i < file->num_rows(); ++i) {
    MS_ASSIGN_OR_RETURN(const FileRow row, file->read(i, options));
    MS_RETURN_IF_ERROR(use(row.text, file->path() + ":" + std::to_string(row.line)));
  }
  return {};
}

}  // namespace mainspring::cli
