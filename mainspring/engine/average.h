// Average: a moving average of a Trainable's masters, kept beside them.
//
// The one idea: the values are a Trainable that has no gradients, so whatever reads a model reads
// its average too; an update's last act is one graph that moves them. Not for the mathematics: that
// is optim/.
#pragma once

#include <memory>

#include "mainspring/base/status.h"
#include "mainspring/exec/executor.h"
#include "mainspring/optim/optimizer.h"

namespace mainspring {

struct Trainable;  // engine/trainable.h

struct Average {
  Trainable* values = nullptr;  // null: there is none
  EmaSettings settings;
  std::shared_ptr<Buffer> rate;  // f32(1)
  std::unique_ptr<Executable> program;
};

/// Gives `t` an average that starts as its masters are; returns the values, which the caller keeps
/// as long as `t`. Errors: those of Engine::add_average.
Result<std::unique_ptr<Trainable>> make_average(Executor& executor, Trainable& t,
                                                const EmaSettings& settings);

/// The program, if there is an average. Errors: as Executor::compile.
Status prepare_average(Executor& executor, Trainable& t);

/// Moves the average of `t` after its step t.step. Precondition: prepare_average.
void run_average(Trainable& t);

}  // namespace mainspring
