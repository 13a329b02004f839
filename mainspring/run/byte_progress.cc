#include "mainspring/run/byte_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "mainspring/run/progress.h"

namespace mainspring {
namespace {

constexpr std::chrono::milliseconds kLive{200};
constexpr std::chrono::seconds kPlain{10};

}  // namespace

ByteProgress::ByteProgress() : is_terminal_(isatty(STDERR_FILENO) != 0) {}

void ByteProgress::update(const std::string& step, int64_t done, int64_t total) {
  const auto now = Clock::now();
  if (step != step_) {
    end_line();
    step_ = step;
    start_ = last_ = now;
    first_ = done;
  } else if (done < total && now - last_ < (is_terminal_ ? kLive : kPlain)) {
    return;
  }
  last_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = static_cast<double>(done - first_) / std::max(seconds, 1e-9);
  std::string line = step + " " + format_count(static_cast<double>(done)) + "B of " +
                     format_count(static_cast<double>(total)) + "B";
  if (done < total && rate > 0) {
    line += ", " + format_count(rate) + "B/s, " +
            format_duration(static_cast<double>(total - done) / rate) + " left";
  }
  std::fprintf(stderr, is_terminal_ ? "\r%-72s" : "%s\n", line.c_str());
  is_live_ = is_terminal_;
}

void ByteProgress::end_line() {
  if (is_live_) std::fprintf(stderr, "\n");
  is_live_ = false;
}

}  // namespace mainspring
