#include "mainspring/cli/row_progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "mainspring/run/progress.h"

namespace mainspring::cli {
namespace {

constexpr int64_t kLiveInterval_ns = 200'000'000;
constexpr int64_t kPlainInterval_ns = 10'000'000'000;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

RowProgress::RowProgress(std::string verb, int64_t total_rows, int64_t done_rows)
    : verb_(std::move(verb)),
      total_rows_(total_rows),
      first_rows_(done_rows),
      is_terminal_(isatty(STDERR_FILENO) == 1),
      start_ns_(now_ns()),
      last_ns_(start_ns_) {}

RowProgress::~RowProgress() {
  if (is_live_) std::fputc('\n', stderr);
}

void RowProgress::update(int64_t done_rows, int64_t tokens) {
  const int64_t now = now_ns();
  if (now - last_ns_ < (is_terminal_ ? kLiveInterval_ns : kPlainInterval_ns)) return;
  last_ns_ = now;
  print(done_rows, tokens, /*is_last=*/false);
}

void RowProgress::finish(int64_t done_rows, int64_t tokens) {
  print(done_rows, tokens, /*is_last=*/true);
}

void RowProgress::print(int64_t done_rows, int64_t tokens, bool is_last) {
  const double seconds = std::max(1e-9, static_cast<double>(now_ns() - start_ns_) * 1e-9);
  std::string line = verb_ + ": " + std::to_string(done_rows) + " of " +
                     std::to_string(total_rows_) + " rows, " +
                     format_count(static_cast<double>(tokens)) + " tokens, " +
                     format_count(static_cast<double>(tokens) / seconds) + " tokens/s";
  const int64_t fresh = done_rows - first_rows_;
  if (is_last) {
    line += ", " + format_duration(seconds);
  } else if (fresh > 0) {
    const double left =
        seconds / static_cast<double>(fresh) * static_cast<double>(total_rows_ - done_rows);
    line += ", " + format_duration(left) + " left";
  }
  if (is_terminal_) {
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    is_live_ = true;
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

}  // namespace mainspring::cli
