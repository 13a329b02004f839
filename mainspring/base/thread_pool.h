// A fixed set of compute threads that runs one parallel loop at a time.
//
// The one idea: run() hands out task numbers; what a task computes never depends on which thread
// runs it or how many there are, so results do not depend on the pool's size. Idle threads spin
// briefly, then sleep. Every thread (the caller included, for the length of run()) has FTZ and DAZ
// set and rounds to nearest even (docs/exactness.md, rule 1).
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace mainspring {

/// A non-owning reference to a callable `void(int64_t task, int thread)`.
class TaskRef {
 public:
  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, TaskRef>)
  TaskRef(F&& f)  // NOLINT(google-explicit-constructor)
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* object, int64_t task, int thread) {
          (*static_cast<std::remove_reference_t<F>*>(object))(task, thread);
        }) {}
  void operator()(int64_t task, int thread) const { call_(object_, task, thread); }

 private:
  void* object_;
  void (*call_)(void*, int64_t, int);
};

/// What the loops of a pool took while it was timed, since it was made.
struct LoopTimes {
  int64_t busy_ns = 0;  // in tasks, all threads together
  int64_t wall_ns = 0;  // from the loops' beginnings to their ends
};

class ThreadPool {
 public:
  /// `num_threads` >= 1 counts the caller; 1 makes no thread.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  /// Calls task(i, thread) once for each i in [0, num_tasks), 0 <= thread < size(), and returns
  /// when all are done. Tasks are handed out in increasing order. Allocates nothing. Not reentrant,
  /// and to be called by one thread at a time.
  void run(int64_t num_tasks, TaskRef task);

  /// From the next run() on, tasks are timed: a reading of the clock each. Loops that one thread
  /// runs alone are not. To be called by the thread that calls run().
  void set_timed(bool timed);
  LoopTimes times() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Sets FTZ, DAZ and round-to-nearest for the current scope on the calling thread.
class ComputeScope {
 public:
  ComputeScope();
  ~ComputeScope();
  ComputeScope(const ComputeScope&) = delete;
  ComputeScope& operator=(const ComputeScope&) = delete;

 private:
  unsigned saved_;
};

}  // namespace mainspring
