#include "mainspring/run/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace mainspring {
namespace {

/// A stream into memory, and a clock that the test moves.
struct Screen {
  Screen() { file = open_memstream(&text, &size); }
  ~Screen() {
    std::fclose(file);
    std::free(text);
  }
  std::string seen() {
    std::fflush(file);
    return {text, size};
  }
  ProgressOptions options(bool terminal) {
    ProgressOptions options;
    options.out = file;
    options.is_terminal = terminal ? 1 : 0;
    options.total_steps = 10;
    options.now_ns = [this] { return now_ns; };
    return options;
  }
  char* text = nullptr;
  size_t size = 0;
  std::FILE* file = nullptr;
  int64_t now_ns = 0;
};

StepMetrics metrics_of(int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 2.5;
  metrics.lr = 1e-4;
  metrics.grad_norm = 1.25;
  metrics.tokens_per_s = 1234;
  return metrics;
}

TEST(Progress, OnATerminalOneLineIsRewrittenWithTheTimeLeft) {
  Screen screen;
  Progress progress(screen.options(true));
  screen.now_ns = 30'000'000'000;  // 1 step in 30 s, 9 left
  progress.step(metrics_of(1));
  EXPECT_NE(screen.seen().find("\r\x1b[2Kstep 1/10"), std::string::npos) << screen.seen();
  EXPECT_NE(screen.seen().find("left 4m 30s"), std::string::npos) << screen.seen();
  EXPECT_EQ(screen.seen().find('\n'), std::string::npos);
  progress.finish();
  EXPECT_EQ(screen.seen().back(), '\n');
}

TEST(Progress, MessagesScrollAboveTheLiveLine) {
  Screen screen;
  Progress progress(screen.options(true));
  progress.step(metrics_of(1));
  progress.message("saved step 1");
  const std::string seen = screen.seen();
  const size_t message = seen.find("saved step 1\n");
  ASSERT_NE(message, std::string::npos);
  EXPECT_NE(seen.find("step 1/10", message + 12), std::string::npos) << "the live line comes back";
}

TEST(Progress, ElsewherePlainLinesComeAtAModestRateAndTheLastAlways) {
  Screen screen;
  Progress progress(screen.options(false));
  for (int step = 1; step <= 10; ++step) {
    screen.now_ns += 4'000'000'000;
    progress.step(metrics_of(step));
  }
  // Shown at 4 s (first), 16, 28, 40 (10 s or more apart).
  const std::string seen = screen.seen();
  EXPECT_EQ(std::count(seen.begin(), seen.end(), '\n'), 4);
  EXPECT_EQ(screen.seen().find('\x1b'), std::string::npos);
  EXPECT_NE(screen.seen().find("step 10/10"), std::string::npos);
}

TEST(Progress, StepsDoneBeforeAResumeDoNotCountForTheRate) {
  Screen screen;
  ProgressOptions options = screen.options(true);
  options.first_step = 8;
  Progress progress(options);
  screen.now_ns = 5'000'000'000;
  progress.step(metrics_of(9));
  EXPECT_NE(screen.seen().find("left 5s"), std::string::npos) << screen.seen();
}

TEST(Progress, TheTimeLeftCountsWorkWhereStepsDiffer) {
  Screen screen;
  ProgressOptions options = screen.options(true);
  options.first_step = 7;
  options.work_until = [](int64_t step) { return static_cast<double>(step * step); };
  Progress progress(options);
  screen.now_ns = 5'000'000'000;
  progress.step(metrics_of(8));  // 64 - 49 = 15 done in 5 s, 100 - 64 = 36 left
  EXPECT_NE(screen.seen().find("left 12s"), std::string::npos) << screen.seen();
}

TEST(Progress, AStepThatWasNotAppliedIsAlwaysShown) {
  Screen screen;
  Progress progress(screen.options(false));
  progress.step(metrics_of(1));
  StepMetrics metrics = metrics_of(2);
  metrics.applied = false;
  progress.step(metrics);
  EXPECT_NE(screen.seen().find("NOT APPLIED"), std::string::npos);
}

TEST(Progress, ASkippedSpikeHasNoGradientAndSaysSo) {
  Screen screen;
  Progress progress(screen.options(false));
  StepMetrics metrics = metrics_of(1);
  metrics.grad_norm = std::nan("");
  metrics.applied = false;
  metrics.not_applied = StepMetrics::kSpike;
  progress.step(metrics);
  EXPECT_NE(screen.seen().find("grad -  "), std::string::npos) << screen.seen();
  EXPECT_NE(screen.seen().find("NOT APPLIED: its loss is a spike"), std::string::npos);
}

TEST(Progress, DurationsAndCountsAreShort) {
  EXPECT_EQ(format_duration(12.2), "12s");
  EXPECT_EQ(format_duration(185), "3m 05s");
  EXPECT_EQ(format_duration(3720), "1h 02m");
  EXPECT_EQ(format_duration(2 * 86400 + 3600), "2d 01h");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_count(7), "7");
  EXPECT_EQ(format_count(999.6), "1.00k");
  EXPECT_EQ(format_count(3.4e6), "3.40M");
  EXPECT_EQ(format_count(1234), "1.23k");
}

TEST(Progress, NumbersThatAreNotFiniteAreWords) {
  Screen screen;
  Progress progress(screen.options(false));
  StepMetrics metrics = metrics_of(1);
  metrics.loss = -std::nan("");
  metrics.grad_norm = -std::nan("");
  progress.step(metrics);
  progress.eval({.step = 1, .loss = -std::nan(""), .loss_sum = 0, .token_count = 3});
  EXPECT_NE(screen.seen().find("loss not finite  lr 0.0001  grad not finite  "), std::string::npos)
      << screen.seen();
  EXPECT_NE(screen.seen().find("held-out loss not finite over 3 tokens"), std::string::npos);
}

TEST(FormatCounted, OneIsSingular) {
  EXPECT_EQ(format_counted(0, "row"), "0 rows");
  EXPECT_EQ(format_counted(1, "row"), "1 row");
  EXPECT_EQ(format_counted(2, "row"), "2 rows");
}

TEST(FormatLoss, ALossThatIsNotFiniteIsCalledThat) {
  EXPECT_EQ(format_loss(8.48184), "8.4818");
  EXPECT_EQ(format_loss(-std::nan("")), "not finite");
  EXPECT_EQ(format_loss(INFINITY), "not finite");
}

}  // namespace
}  // namespace mainspring
