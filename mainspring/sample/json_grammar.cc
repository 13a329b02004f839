#include "mainspring/sample/json_grammar.h"

#include <algorithm>

#include "mainspring/sample/number_range.h"

namespace mainspring {
namespace {

ByteSet any_of(std::string_view bytes) {
  ByteSet set;
  for (const char c : bytes) set.set(static_cast<unsigned char>(c));
  return set;
}

}  // namespace

Result<std::unique_ptr<ByteAutomaton>> JsonGrammar::build(int32_t max_nesting) {
  program_.end();
  while (!pending_.empty()) {
    const Rule rule = std::move(pending_.back());
    pending_.pop_back();
    start_of_[rule.name] = program_.here();
    MS_RETURN_IF_ERROR(rule.emit());
    program_.end_rule();
  }
  for (const auto& [instruction, name] : calls_) program_.patch(instruction, start_of_.at(name));
  return std::make_unique<ByteAutomaton>(std::move(program_), 0, max_nesting);
}

void JsonGrammar::call_rule(const std::string& name, Emit emit) {
  calls_.emplace_back(program_.call(kOpen), name);
  if (start_of_.emplace(name, kOpen).second) pending_.push_back({name, std::move(emit)});
}

Status JsonGrammar::alternatives(size_t count, const std::function<Status(size_t)>& emit) {
  std::vector<int32_t> ends;
  for (size_t i = 0; i < count; ++i) {
    const bool is_last = i + 1 == count;
    const int32_t other = is_last ? 0 : maybe();
    MS_RETURN_IF_ERROR(emit(i));
    if (is_last) break;
    ends.push_back(leave());
    arrive(other);
  }
  arrive(ends);
  return {};
}

void JsonGrammar::one_of_texts(const std::vector<std::string>& texts) {
  std::vector<int32_t> ends;
  for (const std::string& one : texts) {
    const int32_t other = maybe();
    text(one);
    ends.push_back(leave());
    arrive(other);
  }
  fail();
  arrive(ends);
}

void JsonGrammar::repeat(int64_t least, int64_t most, const std::function<void()>& emit) {
  for (int64_t i = 0; i < least; ++i) emit();
  if (most < 0) {
    const int32_t loop = maybe();
    emit();
    program_.jump(loop);
    arrive(loop);
    return;
  }
  std::vector<int32_t> skips;
  for (int64_t i = least; i < most; ++i) {
    skips.push_back(maybe());
    emit();
  }
  arrive(skips);
}

void JsonGrammar::blank() {
  const int32_t skip = maybe();
  text(" ");
  arrive(skip);
}

void JsonGrammar::comma() {
  text(",");
  blank();
}

void JsonGrammar::colon() {
  text(":");
  blank();
}

Status JsonGrammar::one_of_forms(const std::vector<ByteForm>& forms) {
  return alternatives(forms.size(), [&](size_t i) -> Status {
    for (const ByteSet& set : forms[i]) program_.byte(set);
    return {};
  });
}

/// One character of a string: UTF-8 that needs no escape, or any escape.
Status JsonGrammar::any_character() {
  std::vector<ByteForm> forms = forms_of(CharSet(0x20, kLastChar));
  const ByteSet hex = any_of("0123456789abcdefABCDEF");
  forms.push_back({any_of("\\"), any_of("\"\\/bfnrt")});
  // No halves of surrogate pairs.
  forms.push_back({any_of("\\"), any_of("u"), hex & ~any_of("dD"), hex, hex, hex});
  return one_of_forms(forms);
}

void JsonGrammar::call_any_character() {
  call_rule("character", [this] { return any_character(); });
}

/// One of some characters, each in one form.
void JsonGrammar::call_character(const CharSet& set) {
  const std::vector<ByteForm> forms = forms_of(set);
  if (set == CharSet::all()) {
    call_any_character();
  } else if (forms.size() == 1) {
    for (const ByteSet& bytes : forms[0]) program_.byte(bytes);
  } else {
    std::string name = "character";
    for (const auto& [first, last] : set.ranges())
      name += " " + std::to_string(first) + "-" + std::to_string(last);
    call_rule(name, [this, forms] { return one_of_forms(forms); });
  }
}

void JsonGrammar::texts(const CharAutomaton& automaton) {
  std::vector<int32_t> starts;
  std::vector<std::pair<int32_t, int32_t>> ways;
  std::vector<int32_t> ends;
  for (const CharAutomaton::State& state : automaton.states) {
    starts.push_back(here());
    for (const CharAutomaton::Edge& edge : state.edges) {
      const int32_t other = maybe();
      call_character(edge.set);
      ways.emplace_back(leave(), edge.target);
      arrive(other);
    }
    state.is_end ? ends.push_back(leave()) : fail();
  }
  for (const auto& [way, target] : ways) lead(way, starts[static_cast<size_t>(target)]);
  arrive(ends);
}

void JsonGrammar::string(int64_t least, int64_t most) {
  text("\"");
  repeat(least, most, [this] { call_any_character(); });
  text("\"");
}

void JsonGrammar::digits(int64_t least, int64_t most) {
  repeat(least, most, [this] { program_.byte(any_of("0123456789")); });
}

/// An f64 holds all of them.
void JsonGrammar::number(bool is_integer) {
  repeat(0, 1, [this] { text("-"); });
  const int32_t other = maybe();
  text("0");
  const int32_t end = leave();
  arrive(other);
  program_.byte(any_of("123456789"));
  digits(0, kMaxDigits - 1);
  arrive(end);
  if (is_integer) return;
  repeat(0, 1, [this] {
    text(".");
    digits(1, kMaxDigits);
  });
  repeat(0, 1, [this] {
    program_.byte(any_of("eE"));
    repeat(0, 1, [this] { program_.byte(any_of("+-")); });
    digits(1, 2);
  });
}

void JsonGrammar::list(int64_t least, int64_t most, const std::function<void()>& item) {
  text("[");
  const auto further = [&] {
    comma();
    item();
  };
  if (most != 0) {
    const int32_t skip = least == 0 ? maybe() : -1;
    item();
    repeat(std::max<int64_t>(0, least - 1), most < 0 ? -1 : most - 1, further);
    if (skip >= 0) arrive(skip);
  }
  text("]");
}

}  // namespace mainspring
