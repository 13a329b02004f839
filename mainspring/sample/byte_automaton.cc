#include "mainspring/sample/byte_automaton.h"

#include <algorithm>

#include "mainspring/base/check.h"

namespace mainspring {

void ByteProgram::byte(const ByteSet& set) {
  code_.push_back({Op::kByte, static_cast<int32_t>(sets_.size())});
  sets_.push_back(set);
}

void ByteProgram::text(std::string_view bytes) {
  for (const char c : bytes) byte(ByteSet().set(static_cast<unsigned char>(c)));
}

int32_t ByteProgram::fork(int32_t a, int32_t b) {
  code_.push_back({Op::kFork, a, b});
  return here() - 1;
}

int32_t ByteProgram::jump(int32_t target) {
  code_.push_back({Op::kJump, target});
  return here() - 1;
}

int32_t ByteProgram::call(int32_t target) {
  code_.push_back({Op::kCall, target});
  return here() - 1;
}

void ByteProgram::patch(int32_t instruction, int32_t target) {
  Instruction& at = code_[static_cast<size_t>(instruction)];
  if (at.a == kOpen) at.a = target;
  if (at.op == Op::kFork && at.b == kOpen) at.b = target;
}

/// The least solution: from kEndless downwards until nothing changes. Backwards, since most
/// instructions depend on the one behind them.
std::vector<int32_t> ByteProgram::needed_depths() const {
  std::vector<int32_t> needed(code_.size(), kEndless);
  const auto of = [&](int32_t at) { return needed[static_cast<size_t>(at)]; };
  const auto by_rule = [&](int32_t at) {
    const Instruction& code = code_[static_cast<size_t>(at)];
    switch (code.op) {
      case Op::kByte:
        return set(code.a).none() ? kEndless : of(at + 1);
      case Op::kFork:
        return std::min(of(code.a), of(code.b));
      case Op::kJump:
        return of(code.a);
      case Op::kCall:
        return std::min(kEndless, std::max(of(code.a) + 1, of(at + 1)));
      case Op::kReturn:
      case Op::kEnd:
        break;
    }
    return 0;
  };
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (int32_t at = here() - 1; at >= 0; --at) {
      const int32_t depth = by_rule(at);
      has_changed |= depth != of(at);
      needed[static_cast<size_t>(at)] = depth;
    }
  }
  return needed;
}

ByteAutomaton::ByteAutomaton(ByteProgram program, int32_t start, int32_t max_depth)
    : program_(std::move(program)),
      first_(start),
      max_depth_(max_depth),
      needed_depths_(program_.needed_depths()) {
  Entry entry;
  visited_.clear();
  follow(start, -1, entry);
  start_ = intern(std::move(entry));
}

int32_t ByteAutomaton::push(int32_t return_to, int32_t parent) {
  const auto [found, is_new] =
      frame_of_.emplace(std::pair{return_to, parent}, static_cast<int32_t>(frames_.size()));
  if (is_new) {
    const int32_t depth = parent < 0 ? 1 : frames_[static_cast<size_t>(parent)].depth + 1;
    frames_.push_back({return_to, parent, depth});
  }
  return found->second;
}

/// What the stack holds was checked when it was called: there the way behind a call counts too.
bool ByteAutomaton::can_end(const Place& place) const {
  const auto& [at, below] = place;
  const int32_t depth = below < 0 ? 0 : frames_[static_cast<size_t>(below)].depth;
  return needed_depths_[static_cast<size_t>(at)] <= max_depth_ - depth;
}

/// Everything that is reached without a byte.
void ByteAutomaton::follow(int32_t instruction, int32_t stack, Entry& into) {
  std::vector<Place> open = {{instruction, stack}};
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    if (!can_end(place)) continue;
    if (std::find(visited_.begin(), visited_.end(), place) != visited_.end()) continue;
    visited_.push_back(place);
    const auto& [at, below] = place;
    const ByteProgram::Instruction& code = program_.code()[static_cast<size_t>(at)];
    switch (code.op) {
      case ByteProgram::Op::kByte:
        into.places.push_back(place);
        break;
      case ByteProgram::Op::kFork:
        open.push_back({code.a, below});
        open.push_back({code.b, below});
        break;
      case ByteProgram::Op::kJump:
        open.push_back({code.a, below});
        break;
      case ByteProgram::Op::kCall:
        open.push_back({code.a, push(at + 1, below)});
        break;
      case ByteProgram::Op::kReturn: {
        MS_CHECK(below >= 0, "a rule returns to its caller");
        const Frame frame = frames_[static_cast<size_t>(below)];
        open.push_back({frame.return_to, frame.parent});
        break;
      }
      case ByteProgram::Op::kEnd:
        into.is_end = true;
        break;
    }
  }
}

ByteAutomaton::State ByteAutomaton::intern(Entry entry) {
  if (entry.places.empty() && !entry.is_end) return kDead;
  std::sort(entry.places.begin(), entry.places.end());
  const auto [found, is_new] =
      state_of_.emplace(std::pair{entry.places, entry.is_end}, static_cast<State>(states_.size()));
  if (is_new) {
    entry.next.fill(kUnknown);
    states_.push_back(std::move(entry));
  }
  return found->second;
}

ByteAutomaton::State ByteAutomaton::make_next(State state, uint8_t byte) {
  Entry entry;
  visited_.clear();
  const std::vector<Place> places = states_[static_cast<size_t>(state)].places;
  for (const auto& [at, stack] : places) {
    const ByteProgram::Instruction& code = program_.code()[static_cast<size_t>(at)];
    if (program_.set(code.a)[byte]) follow(at + 1, stack, entry);
  }
  const State after = intern(std::move(entry));
  states_[static_cast<size_t>(state)].next[byte] = after;
  return after;
}

ByteAutomaton::State ByteAutomaton::next(State state, std::string_view bytes) {
  for (const char c : bytes) state = next(state, static_cast<uint8_t>(c));
  return state;
}

}  // namespace mainspring
