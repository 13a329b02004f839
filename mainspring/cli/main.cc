// mainspring <verb>: the table of commands.
#include "mainspring/cli/cmd_bench.h"
#include "mainspring/cli/cmd_chat.h"
#include "mainspring/cli/cmd_data.h"
#include "mainspring/cli/cmd_doctor.h"
#include "mainspring/cli/cmd_eval.h"
#include "mainspring/cli/cmd_export.h"
#include "mainspring/cli/cmd_inspect.h"
#include "mainspring/cli/cmd_logprobs.h"
#include "mainspring/cli/cmd_mup_check.h"
#include "mainspring/cli/cmd_profile.h"
#include "mainspring/cli/cmd_replay.h"
#include "mainspring/cli/cmd_sample.h"
#include "mainspring/cli/cmd_sweep.h"
#include "mainspring/cli/cmd_train.h"
#include "mainspring/cli/cmd_verify.h"
#include "mainspring/cli/inspect_rollout.h"
#include "mainspring/cli/program.h"

int main(int argc, char** argv) {
  using namespace mainspring::cli;
  return run_program(argc, argv,
                     {add_train, add_sample, add_chat, add_logprobs, add_eval, add_data,
                      add_inspect, add_export, add_doctor, add_verify, add_bench, add_profile,
                      add_sweep, add_mup_check, add_inspect_rollout, add_replay});
}
