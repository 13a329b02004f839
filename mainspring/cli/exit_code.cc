#include "mainspring/cli/exit_code.h"

#include <cstdio>

namespace mainspring::cli {

int exit_code(std::string_view verb, const Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "mainspring %.*s: %s\n", static_cast<int>(verb.size()), verb.data(),
               status.message().c_str());
  return status.code() == StatusCode::kCancelled ? 130 : 1;
}

}  // namespace mainspring::cli
