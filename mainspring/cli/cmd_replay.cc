#include "mainspring/cli/cmd_replay.h"

#include <cstdio>
#include <memory>

#include "mainspring/cli/exit_code.h"
#include "mainspring/exec/cpu/cpu_executor.h"
#include "mainspring/train/rl/replay.h"

namespace mainspring::cli {
namespace {

struct ReplayFlags {
  std::string run;
  int64_t step = 0;
  int64_t threads = 0;
  std::string isa;
};

Status replay(const ReplayFlags& flags) {
  if (flags.step < 1) return invalid_argument("--step: expected 1 or more: the step to replay");
  MS_ASSIGN_OR_RETURN(
      auto executor,
      cpu::make_cpu_executor({.num_threads = static_cast<int>(flags.threads), .isa = flags.isa}));
  MS_ASSIGN_OR_RETURN(const ReplayResult result,
                      replay_rl_step(flags.run, flags.step, *executor, [](const std::string& line) {
                        std::printf("%s\n", line.c_str());
                        std::fflush(stdout);
                      }));
  std::printf("from %s; %lld sequences; loss %.9g; mismatch %g\n",
              result.checkpoint.empty() ? "the weights before training" : result.checkpoint.c_str(),
              static_cast<long long>(result.num_datums), result.loss, result.mismatch);
  std::printf("gradient norm recorded %.17g, replayed %.17g: %s\n", result.recorded_grad_norm,
              result.grad_norm, result.is_equal() ? "the same bits" : "DIFFERENT");
  if (result.is_equal()) return {};
  return data_loss("step " + std::to_string(result.step) +
                   " gave another gradient: the program, the recipe or the rollouts have changed");
}

}  // namespace

void add_replay(CommandRegistry& registry) {
  auto flags = std::make_shared<ReplayFlags>();
  Flags& f = registry.add("replay", "take a recorded step of reinforcement learning again",
                          [flags] { return exit_code("replay", replay(*flags)); });
  f.positional("run", &flags->run, true, "run folder");
  f.integer("step", &flags->step, 0, "step to replay; the first is 1");
  f.integer("threads", &flags->threads, 0, "compute threads; 0: all cores of the container");
  f.text("isa", &flags->isa,
         "scalar, avx2, avx512 or avx512bf16 (default: the fastest that works)");
}

}  // namespace mainspring::cli
