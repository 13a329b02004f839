// `mainspring bench`: this program beside its peers; `mainspring bench sample`: how fast a model
// generates on this machine.
#pragma once

#include <cstdint>
#include <string>

#include "mainspring/cli/command.h"
#include "mainspring/cli/model_session.h"
#include "mainspring/cli/speculation_flags.h"

namespace mainspring::cli {

struct BenchPeersFlags {
  int64_t rounds = 5;
  std::string only = "full,lora,start,decode";
  std::string precisions = "f32,amp";  // of the torch peers
  // Folders of bench/peers/README.md; empty: where bench/run looks for them.
  std::string peers;
  std::string llama;
  std::string smollm2;
  std::string json;  // file for all figures; empty: none
};

/// Becomes bench/run of the clone that the program, or else the working directory, lies in: it
/// alternates this program and its peers and prints one table. Returns only with an error: 1 with a
/// message.
int run_bench_peers(const BenchPeersFlags& flags);

/// bench/run of the nearest folder above `start` that has one; "" if none has.
std::string find_bench_script(const std::string& start);

struct BenchSampleFlags {
  ModelFlags model;
  std::string sequences = "1,16,64";  // run at once, one measurement each
  int64_t prompt_tokens = 256;
  int64_t new_tokens = 64;
  int64_t rounds = 3;  // the median counts
  SpeculationFlags speculation;
  bool json = false;
};

/// Exit code 0; 1 with a message.
int run_bench_sample(const BenchSampleFlags& flags);

void add_bench(CommandRegistry& registry);

}  // namespace mainspring::cli
