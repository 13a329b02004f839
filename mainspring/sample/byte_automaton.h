// ByteAutomaton: what bytes a text may consist of, as a pushdown program run as a lazy automaton.
//
// The one idea: a grammar is a small program of byte sets, forks and calls; the set of places it
// can be in after some bytes (each with its stack of return addresses) is a state, made once and
// kept with its 256 successors. Threads: one. Internal to sample/.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace mainspring {

using ByteSet = std::bitset<256>;

/// A grammar under construction. Places are instruction numbers; `kOpen` targets are patched.
class ByteProgram {
 public:
  enum class Op : uint8_t { kByte, kFork, kJump, kCall, kReturn, kEnd };
  struct Instruction {
    Op op = Op::kEnd;
    int32_t a = 0;  // kByte: index of its set; kFork, kJump, kCall: target
    int32_t b = 0;  // kFork: other target
  };
  static constexpr int32_t kOpen = -1;

  int32_t here() const { return static_cast<int32_t>(code_.size()); }
  void byte(const ByteSet& set);
  void text(std::string_view bytes);
  int32_t fork(int32_t a, int32_t b);
  int32_t jump(int32_t target);
  int32_t call(int32_t target);
  void end_rule() { code_.push_back({Op::kReturn}); }
  void end() { code_.push_back({Op::kEnd}); }
  /// Sets the targets of an instruction that are kOpen.
  void patch(int32_t instruction, int32_t target);

  const std::vector<Instruction>& code() const { return code_; }
  const ByteSet& set(int32_t index) const { return sets_[static_cast<size_t>(index)]; }

  /// For each instruction, how deep calls must at least nest from there until its rule returns (or
  /// the text ends); kEndless if there is no way.
  std::vector<int32_t> needed_depths() const;
  static constexpr int32_t kEndless = 1 << 30;

 private:
  std::vector<Instruction> code_;
  std::vector<ByteSet> sets_;
};

class ByteAutomaton {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;

  /// Calls nest at most `max_depth` deep. A place is kept only if the text can end from there
  /// within that depth, so every state but kDead can be finished.
  ByteAutomaton(ByteProgram program, int32_t start, int32_t max_depth);

  /// kDead if no text is within max_depth.
  State start() const { return start_; }
  /// How deep the calls of the least nested text are; ByteProgram::kEndless if there is no text.
  int32_t needed_depth() const { return needed_depths_[static_cast<size_t>(first_)]; }
  /// kDead if no text goes on so.
  State next(State state, uint8_t byte) {
    if (state == kDead) return kDead;
    const State known = states_[static_cast<size_t>(state)].next[byte];
    return known != kUnknown ? known : make_next(state, byte);
  }
  State next(State state, std::string_view bytes);
  /// Whether the text may end here.
  bool is_end(State state) const { return states_[static_cast<size_t>(state)].is_end; }
  /// Whether a byte may follow.
  bool can_go_on(State state) const { return !states_[static_cast<size_t>(state)].places.empty(); }
  size_t num_states() const { return states_.size(); }

 private:
  /// An instruction that takes a byte, and the stack below it.
  using Place = std::pair<int32_t, int32_t>;
  struct Frame {
    int32_t return_to = 0;
    int32_t parent = -1;
    int32_t depth = 0;
  };
  struct Entry {
    std::vector<Place> places;  // sorted
    bool is_end = false;
    std::array<int32_t, 256> next;
  };

  State make_next(State state, uint8_t byte);
  void follow(int32_t instruction, int32_t stack, Entry& into);
  bool can_end(const Place& place) const;
  int32_t push(int32_t return_to, int32_t parent);
  State intern(Entry entry);

  static constexpr int32_t kUnknown = -2;
  ByteProgram program_;
  int32_t first_;  // instruction
  int32_t max_depth_;
  std::vector<int32_t> needed_depths_;  // of each instruction
  std::vector<Frame> frames_;
  std::map<std::pair<int32_t, int32_t>, int32_t> frame_of_;
  std::vector<Entry> states_;
  std::map<std::pair<std::vector<Place>, bool>, State> state_of_;
  std::vector<Place> visited_;
  State start_ = 0;
};

}  // namespace mainspring
