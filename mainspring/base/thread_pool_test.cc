#include "mainspring/base/thread_pool.h"

#include <emmintrin.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace mainspring {
namespace {

TEST(ThreadPoolTest, EachTaskRunsOnce) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int64_t num_tasks : {0, 1, 2, 5, 1000}) {
      std::vector<std::atomic<int>> counts(static_cast<size_t>(num_tasks));
      pool.run(num_tasks, [&](int64_t task, int thread) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, threads);
        counts[static_cast<size_t>(task)].fetch_add(1);
      });
      for (const auto& count : counts) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPoolTest, ManyShortRunsInARowSeeOnlyTheirOwnTasks) {
  ThreadPool pool(4);
  int64_t total = 0;
  for (int run = 0; run < 3000; ++run) {
    const int64_t num_tasks = 2 + run % 5;
    std::atomic<int64_t> sum{0};
    pool.run(num_tasks, [&](int64_t task, int) { sum.fetch_add(task + run); });
    const int64_t expected = num_tasks * (num_tasks - 1) / 2 + run * num_tasks;
    ASSERT_EQ(sum.load(), expected);
    total += sum.load();
  }
  EXPECT_GT(total, 0);
}

TEST(ThreadPoolTest, WhatTasksWroteIsSeenAfterRun) {
  ThreadPool pool(3);
  std::vector<int64_t> values(257);
  for (int round = 0; round < 200; ++round) {
    pool.run(257, [&](int64_t task, int) { values[static_cast<size_t>(task)] = task * round; });
    for (int64_t i = 0; i < 257; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], i * round);
  }
}

TEST(ThreadPoolTest, SleepingThreadsWakeForTheNextRun) {
  ThreadPool pool(2);
  // Tasks that wait for each other prove that both threads take part, also after an idle time long
  // enough for the worker to sleep.
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> arrived{0};
    pool.run(2, [&](int64_t, int) {
      arrived.fetch_add(1);
      while (arrived.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived.load(), 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST(ThreadPoolTest, EveryTaskFlushesDenormalsAndTheCallerIsRestored) {
  const unsigned before = _mm_getcsr();
  ThreadPool pool(2);
  std::atomic<int> flushed{0};
  pool.run(64, [&](int64_t, int) {
    volatile float tiny = 1e-30f;
    volatile float product = tiny * 1e-10f;  // a denormal: flushed to zero
    volatile float denormal = 1e-40f;
    volatile float scaled = denormal * 1e30f;  // a denormal input: read as zero
    if (product == 0.0f && scaled == 0.0f) flushed.fetch_add(1);
  });
  EXPECT_EQ(flushed.load(), 64);
  EXPECT_EQ(_mm_getcsr() & 0xffc0u, before & 0xffc0u);
}

TEST(ThreadPoolTest, AComputeScopeRoundsToNearestEven) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x6000u);  // towards zero
  volatile float one = 1.0f;
  volatile float just_above_half_ulp = 9e-8f;
  {
    const ComputeScope scope;
    volatile float sum = one + just_above_half_ulp;
    EXPECT_GT(sum, 1.0f);
  }
  volatile float sum = one + just_above_half_ulp;
  EXPECT_EQ(sum, 1.0f);
  _mm_setcsr(before);
}

// Keeps a core until so much of the clock has passed.
void work_for(std::chrono::milliseconds length) {
  const auto end = std::chrono::steady_clock::now() + length;
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(ThreadPoolTest, TimesOfUnevenTasksTellOfTheWaiting) {
  ThreadPool pool(2);
  pool.set_timed(true);
  pool.run(2, [](int64_t task, int) {
    if (task == 0) work_for(std::chrono::milliseconds(5));
  });
  const LoopTimes times = pool.times();
  EXPECT_GE(times.busy_ns, 5'000'000);
  EXPECT_GE(times.wall_ns, 5'000'000);
  EXPECT_LE(times.busy_ns, 2 * times.wall_ns);
  pool.set_timed(false);
  pool.run(2, [](int64_t, int) { work_for(std::chrono::milliseconds(1)); });
  EXPECT_EQ(pool.times().busy_ns, times.busy_ns);
  EXPECT_EQ(pool.times().wall_ns, times.wall_ns);
}

TEST(ThreadPoolTest, EvenTasksAreAllBusy) {
  ThreadPool pool(3);
  pool.set_timed(true);
  constexpr int kTasks = 30;
  pool.run(kTasks, [](int64_t, int) { work_for(std::chrono::milliseconds(1)); });
  EXPECT_GE(pool.times().busy_ns, kTasks * int64_t{1'000'000});
  EXPECT_LE(pool.times().busy_ns, 3 * pool.times().wall_ns);
}

}  // namespace
}  // namespace mainspring
