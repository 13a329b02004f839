// Profile: the spans of a timeline summed by op, by layer or by path, against the machine's two
// ceilings.
//
// The one idea: books that balance. Each span's own time goes to one line, or, if it only holds
// others, to `unattributed_ns`; so the lines and that one figure add up to the wall time exactly.
// What threads waited for each other in ops is taken out of these and is a line of its own.
// Source of the ceilings: Williams, Waterman & Patterson 2009, "Roofline",
// doi:10.1145/1498765.1498785.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/obs/timeline.h"

namespace mainspring {

/// What the machine reaches at best, measured.
struct Ceilings {
  double flops = 1.0;      // FLOP/s
  double bandwidth = 1.0;  // bytes/s to and from memory

  /// FLOPs per byte above which the peak limits, below which memory does.
  double ridge() const { return flops / bandwidth; }
};

/// What makes a line: all spans of one op and phase; of one layer and phase; of one path and op.
enum class ProfileBy { kOp, kLayer, kPath };

enum class Bound { kNone, kCompute, kMemory };  // kNone: nothing is computed or moved

struct ProfileLine {
  SpanKind kind = SpanKind::kOp;
  std::string name;   // op, or the host's work; by layer: "all ops"
  std::string phase;  // "forward", "recompute", "backward", "update"; the host: ""
  std::string path;   // by layer "layers.3", by path "layers.3.mlp"; else ""
  int64_t calls = 0;
  int64_t own_ns = 0;
  int64_t waiting_ns = 0;  // in its ops, and not in own_ns
  double flops = 0;
  double bytes = 0;

  double seconds() const { return static_cast<double>(own_ns) * 1e-9; }
  double flops_per_s() const { return own_ns > 0 ? flops / seconds() : 0.0; }
  double bytes_per_s() const { return own_ns > 0 ? bytes / seconds() : 0.0; }
  double intensity() const { return bytes > 0 ? flops / bytes : 0.0; }  // FLOPs per byte
};

/// Which ceiling is nearer at the line's intensity.
Bound bound_of(const ProfileLine& line, const Ceilings& ceilings);
/// What the line reaches of that ceiling. Above 1 where operands stay in a cache.
double of_ceiling(const ProfileLine& line, const Ceilings& ceilings);

/// The line of what threads waited for each other: its share is that of a thread, on average.
constexpr std::string_view kWaitingLine = "waiting between threads";

struct Profile {
  Ceilings ceilings;
  ProfileBy by = ProfileBy::kOp;
  int64_t wall_ns = 0;
  std::vector<ProfileLine> lines;  // longest first
  int64_t unattributed_ns = 0;
  std::vector<int64_t> step_ns;  // of each span called "step"
  int64_t rows = 0;              // of all runs, padding rows included
  int64_t num_spans = 0;
  double span_cost_ns = 0;  // what timing one span takes, measured

  double share(int64_t ns) const {
    return wall_ns > 0 ? static_cast<double>(ns) / static_cast<double>(wall_ns) : 0.0;
  }
  /// Sum of own_ns over the lines for which `want(line)`.
  template <typename Want>
  int64_t time_of(const Want& want) const {
    int64_t ns = 0;
    for (const ProfileLine& line : lines) {
      if (want(line)) ns += line.own_ns;
    }
    return ns;
  }
};

/// Precondition: no span of the timeline is open.
Profile make_profile(const Timeline& timeline, const Ceilings& ceilings, ProfileBy by);

/// What a timeline does not know of a profiled run; lines of the report's head.
struct ProfileFacts {
  std::string title;
  std::string description;  // model, executor, batch
  std::string command;
  int64_t num_steps = 0;
  int64_t num_tokens = 0;   // padding rows left out
  int64_t num_learned = 0;  // of these
  int64_t num_micro_batches = 0;
  int64_t num_decoding = 0;  // sequences that decode at once; 0: training
  double model_flops = 0;    // of all steps; 0: not known
  std::string mfu_formula;
  double mfu = 0;           // of the measured peak
  double nominal_peak = 0;  // FLOP/s by the processor's maker; 0: not given
  double nominal_mfu = 0;
  double busy = 1.0;  // CPU time the program got, of the wall time of its threads
  std::string digest;
};

}  // namespace mainspring
