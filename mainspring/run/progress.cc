#include "mainspring/run/progress.h"

#include <unistd.h>

#include <chrono>
#include <cmath>

namespace mainspring {
namespace {

int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <typename... Args>
std::string format(const char* text, Args... args) {
  char buffer[256];
  std::snprintf(buffer, sizeof(buffer), text, args...);
  return buffer;
}

/// A ten-cell bar from eighths of a block.
std::string bar(double fraction) {
  static const char* const kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int cells = 10;
  const int eighths =
      static_cast<int>(std::lround(std::min(1.0, std::max(0.0, fraction)) * cells * 8));
  std::string out;
  for (int i = 0; i < eighths / 8; ++i) out += "█";
  out += kEighths[eighths % 8];
  for (int i = (eighths + 7) / 8; i < cells; ++i) out += " ";
  return out;
}

}  // namespace

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto total = static_cast<long long>(std::llround(seconds));
  if (total < 60) return format("%llds", total);
  if (total < 3600) return format("%lldm %02llds", total / 60, total % 60);
  if (total < 86400) return format("%lldh %02lldm", total / 3600, total / 60 % 60);
  return format("%lldd %02lldh", total / 86400, total / 3600 % 24);
}

std::string format_count(double value) {
  static const char* const kUnits[] = {"", "k", "M", "G", "T", "P"};
  if (!std::isfinite(value)) return "?";
  int unit = 0;
  while (std::abs(value) >= 999.5 && unit < 5) {
    value /= 1000;
    ++unit;
  }
  const bool whole = unit == 0 && value == std::floor(value);
  return format(whole || std::abs(value) >= 99.5 ? "%.0f%s"
                : std::abs(value) >= 9.95        ? "%.1f%s"
                                                 : "%.2f%s",
                value, kUnits[unit]);
}

std::string format_counted(int64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

std::string format_loss(double loss) {
  return std::isfinite(loss) ? format("%.4f", loss) : "not finite";
}

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  if (options_.out == nullptr) options_.out = stderr;
  if (options_.is_terminal < 0) options_.is_terminal = ::isatty(::fileno(options_.out));
  if (!options_.now_ns) options_.now_ns = steady_now_ns;
  start_ns_ = options_.now_ns();
}

Progress::~Progress() { finish(); }

std::string Progress::line(const StepMetrics& metrics) const {
  const double elapsed_s = 1e-9 * static_cast<double>(options_.now_ns() - start_ns_);
  const auto work = [this](int64_t step) {
    return options_.work_until ? options_.work_until(step) : static_cast<double>(step);
  };
  const double done = work(metrics.step) - work(options_.first_step);
  const double left = work(options_.total_steps) - work(metrics.step);
  std::string out = options_.head ? options_.head(metrics.step) : "";
  out += format("step %lld", static_cast<long long>(metrics.step));
  if (options_.total_steps > 0) {
    out += format("/%lld", static_cast<long long>(options_.total_steps));
    if (options_.is_terminal) {
      out +=
          " " + bar(static_cast<double>(metrics.step) / static_cast<double>(options_.total_steps));
    }
  }
  if (const auto reward = metrics.more.find("reward/mean"); reward != metrics.more.end()) {
    out += format("  reward %.3f", reward->second);
  }
  out += "  loss " + format_loss(metrics.loss) + format("  lr %.3g  grad ", metrics.lr) +
         (std::isfinite(metrics.grad_norm) ? format("%.3g", metrics.grad_norm)
          : metrics.was_spike()            ? "-"
                                           : "not finite") +
         "  ";
  out += format_count(metrics.tokens_per_s) + " tok/s";
  if (std::isfinite(metrics.mfu) && metrics.mfu > 0)
    out += format("  mfu %.0f%%", 100 * metrics.mfu);
  if (left > 0 && done > 0) out += "  left " + format_duration(elapsed_s / done * left);
  if (left == 0) out += "  in " + format_duration(elapsed_s);
  if (!metrics.applied) out += "  NOT APPLIED";
  if (!metrics.not_applied.empty()) out += ": " + metrics.not_applied;
  return out;
}

void Progress::put(const std::string& text) {
  std::fputs(text.c_str(), options_.out);
  std::fflush(options_.out);
}

void Progress::step(const StepMetrics& metrics) {
  last_line_ = line(metrics);
  if (options_.is_terminal) {
    put("\r\x1b[2K" + last_line_);  // back to the start, clear, write
    live_ = true;
    return;
  }
  const int64_t now = options_.now_ns();
  const bool due = static_cast<double>(now - last_plain_ns_) >= 1e9 * options_.plain_interval_s;
  if (has_plain_ && !due && metrics.step != options_.total_steps && metrics.applied) return;
  has_plain_ = true;
  last_plain_ns_ = now;
  put(last_line_ + "\n");
}

void Progress::eval(const EvalMetrics& metrics) {
  if (!metrics.more.empty()) {
    std::string text = format("step %lld", static_cast<long long>(metrics.step));
    for (const auto& [name, value] : metrics.more) text += "  " + name + format(" %.4g", value);
    return message(text);
  }
  message(format("step %lld  held-out loss ", static_cast<long long>(metrics.step)) +
          format_loss(metrics.loss) + " over " + format_count(metrics.token_count) + " tokens");
}

void Progress::message(std::string_view text) {
  const std::string body = std::string(text) + "\n";
  put(live_ ? "\r\x1b[2K" + body + last_line_ : body);
}

void Progress::finish() {
  if (live_) put("\n");
  live_ = false;
}

}  // namespace mainspring
