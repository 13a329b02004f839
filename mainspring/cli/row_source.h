// The rows of a JSONL or Parquet input: a file, a pipe, a URL, or "-" for standard input.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "mainspring/base/status.h"

namespace mainspring::cli {

/// How messages call an input: "standard input" for "-".
std::string input_name(const std::string& path);

/// Calls `use(line, where)` for each line that is not blank, in order, `where` being
/// "<path>:<line>"; stops at its first error. Errors: those of `use`, and of opening and reading
/// (data/row_file.h).
Status for_each_row(
    const std::string& path,
    const std::function<Status(std::string_view line, std::string_view where)>& use);

}  // namespace mainspring::cli
