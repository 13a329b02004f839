// MS_CHECK: a broken invariant is our fault, so the program stops and says which.
//
// Not for anything a user, a file or a peer can cause: those return a Status.
#pragma once

#include <string>
#include <string_view>

namespace mainspring {

/// Prints file, line, expression and message to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* expression,
                               std::string_view message);

}  // namespace mainspring

/// MS_CHECK(condition, message): message is any expression convertible to std::string_view and is
/// evaluated only on failure.
#define MS_CHECK(condition, message)                                         \
  do {                                                                       \
    if (!(condition)) [[unlikely]] {                                         \
      ::mainspring::check_failed(__FILE__, __LINE__, #condition, (message)); \
    }                                                                        \
  } while (false)
