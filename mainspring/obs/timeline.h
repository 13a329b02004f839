// Timeline: nested spans of one thread, each with a label and what it cost.
//
// The one idea: a span that follows another shares its clock reading, and a span's own time is its
// length less that of the spans in it; so, in whole nanoseconds, the own times of all spans add up
// to the outermost ones' lengths exactly. Not for several threads, and not a log: labels are few
// and spans are plain numbers. Who reads it: lab/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace mainspring {

enum class SpanKind : uint8_t {
  kGroup,  // holds others; its own time is attributed to nothing
  kHost,   // work outside of kernels: data, packing, scalars
  kOp,     // a step of a plan
};

/// What spans of one sort are called.
struct SpanLabel {
  SpanKind kind = SpanKind::kGroup;
  std::string name;   // "linear", "data"
  std::string phase;  // of an op: "forward", "recompute", "backward", "update"
  std::string path;   // of an op: "layers.3.mlp"
};

/// What a span computed and moved; rows: of the run, on the span that holds it.
struct SpanCost {
  double flops = 0;
  double bytes = 0;
  int64_t rows = 0;
};

struct Span {
  int32_t label = -1;
  int32_t parent = -1;  // index of the span it lies in; -1: none
  int64_t begin_ns = 0;
  int64_t end_ns = -1;     // -1: still open
  int64_t waiting_ns = 0;  // of its length: a thread without work, on average over all threads
  SpanCost cost;
};

/// Threads: one caller.
class Timeline {
 public:
  using LabelId = int32_t;
  using ClockNs = int64_t (*)();  // never goes back

  /// Takes the memory of `expected_spans` now; begin() allocates only beyond them.
  explicit Timeline(size_t expected_spans, ClockNs clock = &steady_ns);

  /// The id of a label; an equal one keeps its id. Allocates if it is new.
  LabelId label(SpanKind kind, std::string_view name, std::string_view phase = {},
                std::string_view path = {});

  /// Opens a span in the innermost open one.
  void begin(LabelId label, const SpanCost& cost = {});
  /// Closes the innermost open span. Precondition: there is one.
  void end();
  /// end() and begin() with one reading of the clock: nothing lies between.
  void next(LabelId label, const SpanCost& cost = {});

  /// Says of span `index`, which has ended, how long threads waited for each other in it.
  void set_waiting(size_t index, int64_t ns) { spans_[index].waiting_ns = ns; }

  /// In order of their beginnings.
  const std::vector<Span>& spans() const { return spans_; }
  const SpanLabel& label(LabelId id) const { return labels_[static_cast<size_t>(id)]; }
  bool has_open_spans() const { return open_ >= 0; }

  static int64_t steady_ns();

 private:
  using Key = std::tuple<SpanKind, std::string, std::string, std::string>;
  using KeyRef = std::tuple<SpanKind, std::string_view, std::string_view, std::string_view>;

  void begin_at(int64_t now, LabelId label, const SpanCost& cost);
  void end_at(int64_t now);

  ClockNs clock_;
  std::vector<Span> spans_;
  int32_t open_ = -1;
  std::vector<SpanLabel> labels_;
  std::map<Key, LabelId, std::less<>> ids_;
};

/// A span for the length of a scope, or until end(). A null timeline: nothing happens.
class SpanScope {
 public:
  SpanScope(Timeline* timeline, SpanKind kind, std::string_view name, const SpanCost& cost = {})
      : timeline_(timeline) {
    if (timeline_ != nullptr) timeline_->begin(timeline_->label(kind, name), cost);
  }
  ~SpanScope() { end(); }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

  void end() {
    if (timeline_ != nullptr) timeline_->end();
    timeline_ = nullptr;
  }

 private:
  Timeline* timeline_;
};

/// Own nanoseconds by span: its length less that of the spans directly in it.
/// Precondition: no span is open.
std::vector<int64_t> own_times_ns(const Timeline& timeline);

/// Nanoseconds that one begin() and end() take here: the median of a few thousand.
double span_cost_ns();

}  // namespace mainspring
