// JsonGrammar: the pieces that grammars of JSON texts consist of.
//
// The one idea: each method appends the code of one piece, which the code before falls into and
// which falls into the code behind; rules are called by name and emitted once. Internal to sample/.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/sample/byte_automaton.h"
#include "mainspring/sample/byte_forms.h"
#include "mainspring/sample/char_automaton.h"

namespace mainspring {

class JsonGrammar {
 public:
  using Emit = std::function<Status()>;
  static constexpr int32_t kOpen = ByteProgram::kOpen;

  /// Emits the rules that were called, and whatever these call; then the grammar, which begins with
  /// what was appended before. Errors: those of the rules. Calls nest up to `max_nesting` deep.
  Result<std::unique_ptr<ByteAutomaton>> build(int32_t max_nesting);

  void call_rule(const std::string& name, Emit emit);

  void text(std::string_view bytes) { program_.text(bytes); }
  /// No byte may follow here.
  void fail() { program_.byte(ByteSet()); }
  /// A fork whose second way is open until arrive().
  int32_t maybe() { return program_.fork(program_.here() + 1, kOpen); }
  /// A way that is open until arrive().
  int32_t leave() { return program_.jump(kOpen); }
  /// The open ways lead here.
  void arrive(int32_t way) { program_.patch(way, program_.here()); }
  void arrive(const std::vector<int32_t>& ways) {
    for (const int32_t way : ways) arrive(way);
  }
  /// Where the next piece begins, and a way that is led back there later.
  int32_t here() const { return program_.here(); }
  void lead(int32_t way, int32_t place) { program_.patch(way, place); }

  /// One of `count` pieces.
  Status alternatives(size_t count, const std::function<Status(size_t)>& emit);
  void one_of_texts(const std::vector<std::string>& texts);
  /// A piece from `least` to `most` times (-1: no limit).
  void repeat(int64_t least, int64_t most, const std::function<void()>& emit);

  /// ',' and ':', each with a blank or none.
  void comma();
  void colon();
  /// Any string of `least` to `most` characters (-1: any), quotes included.
  void string(int64_t least, int64_t most);
  /// The texts of an automaton over characters: a place for each of its states.
  void texts(const CharAutomaton& automaton);
  /// Any integer, or any number: up to 15 digits before and behind the point, two of the exponent.
  void number(bool is_integer);
  void list(int64_t least, int64_t most, const std::function<void()>& item);

 private:
  struct Rule {
    std::string name;
    Emit emit;
  };

  void blank();
  void digits(int64_t least, int64_t most);
  Status one_of_forms(const std::vector<ByteForm>& forms);
  Status any_character();
  void call_any_character();
  void call_character(const CharSet& set);

  ByteProgram program_;
  std::vector<Rule> pending_;
  std::map<std::string, int32_t> start_of_;  // kOpen: not emitted yet
  std::vector<std::pair<int32_t, std::string>> calls_;
};

}  // namespace mainspring
