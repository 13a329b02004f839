// Build identity: what a folder of shards is made with, and how two such records differ.
//
// The one idea: a build goes on, or is taken for finished, only where the record of its options and
// input files is the same; the first difference is named.
#pragma once

#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/data/documents.h"
#include "mainspring/io/json.h"

namespace mainspring {

/// {"options": options, "inputs": [{"path", "bytes", "changed_ns", of a URL
/// "etag"}]}.
Json build_identity(const Json& options, const std::vector<InputFile>& files);

/// Errors: failed precondition naming the option or the file in which `before`, the record found in
/// `folder`, differs from `now`.
Status check_same_build(const std::string& folder, const Json& before, const Json& now);

}  // namespace mainspring
