// write_all: a write that is complete or says why not.
#pragma once

#include <cstddef>
#include <string>

#include "mainspring/base/status.h"

namespace mainspring {

/// Writes all bytes to `fd`; `path` is for the error text. Errors: the system's (resource
/// exhausted: disk full).
Status write_all(int fd, const void* data, size_t size, const std::string& path);

}  // namespace mainspring
