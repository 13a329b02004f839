// How the assistant's text is found.
//
// A turn begins where a model would begin it: after the text of the messages before it and the
// generation prompt. It ends where the text of the messages up to it ends. Both are prefixes of the
// whole chat for most templates, and then two renderings per turn say all (find_by_prefixes).
//
// Some templates write a message differently once others follow it (thinking that is dropped from
// earlier turns, tools that move to the last question), so the prefixes do not fit. Then the chat
// is rendered again with marks in place of this message's words and of those of the message before
// it (find_by_marks). What stands behind a message's mark when the message is the last one is the
// end of its own text; so the text between the two marks is the end of the message before, the
// generation prompt, and whatever of this turn comes before its words.
#include "mainspring/text/assistant_spans.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "mainspring/io/json.h"

namespace mainspring {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t n = 0;
  while (n < limit && a[n] == b[n]) ++n;
  return n;
}

size_t common_suffix(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t n = 0;
  while (n < limit && a[a.size() - 1 - n] == b[b.size() - 1 - n]) ++n;
  return n;
}

std::string_view without_trailing_blanks(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);  // npos + 1 == 0
}

/// The text of a message: its content, or the texts of its parts joined.
std::string content_text(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string joined;
  if (content->is_array()) {
    for (const Json& part : *content) {
      if (part.is_object() && part.contains("text") && part["text"].is_string()) {
        joined += part["text"].get<std::string>();
      }
    }
  }
  return joined;
}

/// Where the last tag or line of a piece of template text ends; 0 if there is none.
size_t end_of_last_tag(std::string_view text) { return text.find_last_of(">]})\n") + 1; }

Json first_messages(const Json& messages, size_t count) {
  return Json(
      Json::array_t(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count)));
}

class SpanFinder {
 public:
  SpanFinder(const Json& messages, const std::string& full, bool add_generation_prompt,
             const ChatRenderer& render)
      : messages_(messages),
        full_(full),
        add_generation_prompt_(add_generation_prompt),
        render_(render),
        mark_(free_mark(full, "TurnMark")),
        previous_mark_(free_mark(full, "MarkBefore")) {}

  Result<AssistantSpan> find(size_t index, size_t previous_end) {
    index_ = index;
    previous_end_ = previous_end;
    AssistantSpan span{.message = index};
    if (!find_by_prefixes(span)) MS_RETURN_IF_ERROR(find_by_marks(span));
    span.end = end_without_separator(span);
    if (span.begin < previous_end || span.end < span.begin) {
      return hidden("its turn overlaps another");
    }
    return span;
  }

 private:
  Status hidden(std::string_view why) const {
    return failed_precondition(
        "the chat template does not show which text is messages[" + std::to_string(index_) +
        "] (assistant): " + std::string(why) +
        "; mark it in the template with {% generation %} ... {% endgeneration %}");
  }

  /// The turn of the simple case; false if the prefixes do not fit.
  bool find_by_prefixes(AssistantSpan& span) {
    const Result<std::string> before = render_(first_messages(messages_, index_), true);
    if (!before.ok()) return false;  // many templates refuse an empty list
    const Result<std::string> upto = render_(first_messages(messages_, index_ + 1), false);
    if (!upto.ok()) return false;
    // The last turn may end without the newline that separates it from a next one, or the other way
    // round.
    const std::string_view turn_end = without_trailing_blanks(*upto);
    if (!upto->starts_with(*before) || !full_.starts_with(turn_end)) return false;
    span.begin = before->size();
    span.end = full_.starts_with(*upto) ? upto->size() : turn_end.size();
    return span.begin <= span.end;
  }

  Status find_by_marks(AssistantSpan& span) {
    Status failure = hidden("its content is not written");
    for (const Spot spot : kSpots) {
      Json marked = messages_;
      if (!put_mark(marked[index_], spot, mark_)) continue;
      const Result<AssistantSpan> found = find_by_mark(marked);
      if (found.ok()) {
        span = found.value();
        return Status();
      }
      failure = found.status();
    }
    return failure;
  }

  /// `marked`: the messages with the mark in this one.
  Result<AssistantSpan> find_by_mark(const Json& marked) {
    MS_ASSIGN_OR_RETURN(const std::string whole, render_(marked, add_generation_prompt_));
    const size_t at = whole.find(mark_);
    if (at == std::string::npos) return hidden("its content is not written");
    if (whole.find(mark_, at + 1) != std::string::npos) {
      return hidden("its content is written twice");
    }
    const std::string_view behind = std::string_view(whole).substr(at + mark_.size());
    MS_ASSIGN_OR_RETURN(const size_t tail, tail_size(marked, behind));
    const size_t following = behind.size() - tail;
    if (common_suffix(full_, whole) < following) {
      return hidden("later text depends on its content");
    }
    AssistantSpan span{.message = index_, .end = full_.size() - following};
    MS_ASSIGN_OR_RETURN(const size_t head, head_size(marked, whole, at));
    span.begin = at - head;
    // Words that a template reads (thinking, none at all) change the text before them too. Then the
    // turn begins behind the last prompt that the two chats share.
    const size_t shared = common_prefix(full_, whole);
    if (shared < span.begin) {
      MS_ASSIGN_OR_RETURN(const size_t back,
                          head_size_by_prompt(std::string_view(full_).substr(0, shared)));
      span.begin = shared - back;
    }
    return span;
  }

  /// How much of `behind`, the text after this message's mark, is still this message's: what
  /// follows the mark when nothing comes after the message.
  Result<size_t> tail_size(const Json& marked, std::string_view behind) const {
    const Json upto = first_messages(marked, index_ + 1);
    MS_ASSIGN_OR_RETURN(const std::string last, render_(upto, false));
    MS_ASSIGN_OR_RETURN(const std::string prompted, render_(upto, true));
    const size_t last_at = last.find(mark_);
    const size_t prompted_at = prompted.find(mark_);
    if (last_at == std::string::npos || prompted_at == std::string::npos) {
      return hidden("its content is not written");
    }
    const std::string_view last_tail = std::string_view(last).substr(last_at + mark_.size());
    const std::string_view prompted_tail =
        std::string_view(prompted).substr(prompted_at + mark_.size());
    if (behind.starts_with(last_tail)) return last_tail.size();
    const std::string_view kept = without_trailing_blanks(last_tail);
    if (behind.starts_with(kept)) return kept.size();
    // A turn that others follow may end in its own way, seen before the prompt of a next one.
    const Result<std::string> prompt = generation_prompt();
    if (prompt.ok() && !prompt->empty() && prompted_tail.ends_with(*prompt)) {
      const std::string_view own = prompted_tail.substr(0, prompted_tail.size() - prompt->size());
      if (!own.empty() && behind.starts_with(own)) return own.size();
    }
    // The template writes more behind a last turn (an end of the text). What all three endings
    // share is the turn's own end, up to where its last tag closes; a tag that opens alike
    // everywhere is not part of it.
    const size_t shared =
        std::min(common_prefix(behind, last_tail), common_prefix(behind, prompted_tail));
    const size_t closed = end_of_last_tag(behind.substr(0, shared));
    for (const char c : behind.substr(closed, shared - closed)) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
        return hidden("its end depends on what follows");
      }
    }
    return closed;
  }

  /// How much of the turn stands before its mark, at whole[at].
  Result<size_t> head_size(const Json& marked, const std::string& whole, size_t at) const {
    for (const Spot spot : kSpots) {
      Json both = marked;
      if (index_ == 0 || !put_mark(both[index_ - 1], spot, previous_mark_)) continue;
      const Result<std::string> together = render_(both, add_generation_prompt_);
      const Result<std::string> before = render_(first_messages(both, index_), true);
      if (!together.ok() || !before.ok()) continue;
      const size_t first = together->find(previous_mark_);
      const size_t second = together->find(mark_);
      const size_t alone = before->find(previous_mark_);
      if (std::max({first, second, alone}) == std::string::npos) continue;
      if (second < first) return hidden("messages are not written in their order");
      const size_t gap_begin = first + previous_mark_.size();
      const std::string_view gap =
          std::string_view(*together).substr(gap_begin, second - gap_begin);
      const std::string_view lead = std::string_view(*before).substr(alone + previous_mark_.size());
      if (gap.starts_with(lead) && gap.size() - lead.size() <= at) return gap.size() - lead.size();
    }
    return head_size_by_prompt(std::string_view(whole).substr(0, at));
  }

  /// The same by the last generation prompt before the mark. A prompt may go on to open or skip
  /// thinking, which turns of the past do not repeat: tags and lines at its end may be missing.
  Result<size_t> head_size_by_prompt(std::string_view before_mark) const {
    MS_ASSIGN_OR_RETURN(const std::string prompt, generation_prompt());
    std::string_view wanted = prompt;
    while (!wanted.empty()) {
      const size_t found = before_mark.rfind(wanted);
      if (found != std::string::npos && found + wanted.size() >= previous_end_) {
        return before_mark.size() - found - wanted.size();
      }
      wanted = wanted.substr(0, end_of_last_tag(wanted.substr(0, wanted.size() - 1)));
    }
    return hidden("no generation prompt stands before it");
  }

  /// What the template adds to start an assistant turn.
  Result<std::string> generation_prompt() const {
    Json before = first_messages(messages_, index_);
    Result<std::string> without = render_(before, false);
    if (!without.ok()) {  // nothing before it, and the template wants something
      before = Json::array({Json{{"role", "user"}, {"content", "x"}}});
      without = render_(before, false);
      if (!without.ok()) return without.status();
    }
    MS_ASSIGN_OR_RETURN(const std::string with, render_(before, true));
    // Without a prompt some templates write an end of the text instead.
    size_t shared = common_prefix(with, *without);
    if (shared < without->size()) shared = end_of_last_tag(with.substr(0, shared));
    return with.substr(shared);
  }

  /// A word that stands nowhere in the chat.
  static std::string free_mark(const std::string& chat, std::string word) {
    while (chat.find(word) != std::string::npos) word += "x";
    return word;
  }

  /// What of a message gives way to a mark; later ones are for templates that do not write the
  /// earlier ones, or write them twice.
  enum class Spot { kWords, kToolName, kToolArguments, kContent };
  static constexpr std::initializer_list<Spot> kSpots = {Spot::kWords, Spot::kToolName,
                                                         Spot::kToolArguments, Spot::kContent};

  /// Puts `mark` in that place; false if there is none. Beside tool calls an empty content is no
  /// words: it is often not written at all.
  static bool put_mark(Json& message, Spot spot, const std::string& mark) {
    const auto calls = message.find("tool_calls");
    const bool has_calls = calls != message.end() && calls->is_array() && !calls->empty();
    if (spot == Spot::kToolName || spot == Spot::kToolArguments) {
      if (!has_calls || !calls->front().is_object()) return false;
      Json& call = calls->front();
      Json& function = call.contains("function") ? call["function"] : call;
      if (!function.is_object()) return false;
      if (spot == Spot::kToolName) {
        function["name"] = mark;
      } else if (function.contains("arguments") && function["arguments"].is_string()) {
        function["arguments"] = mark;
      } else {
        function["arguments"] = Json{{mark, 1}};
      }
      return true;
    }
    const bool has_words = !has_calls || !content_text(message).empty();
    if (has_words != (spot == Spot::kWords)) return false;
    if (message.contains("content") && message["content"].is_array()) {
      message["content"] = Json::array({Json{{"type", "text"}, {"text", mark}}});
    } else {
      message["content"] = mark;
    }
    return true;
  }

  /// Leaves out the blanks behind the end-of-turn text; without such a text the blanks are what
  /// ends the turn.
  size_t end_without_separator(const AssistantSpan& span) const {
    const std::string_view turn = std::string_view(full_).substr(span.begin, span.end - span.begin);
    const std::string_view kept = without_trailing_blanks(turn);
    const std::string content = content_text(messages_[index_]);
    const std::string_view said = without_trailing_blanks(content);
    if (kept.empty() || (!said.empty() && kept.ends_with(said))) return span.end;
    return span.begin + kept.size();
  }

  const Json& messages_;
  const std::string& full_;
  bool add_generation_prompt_;
  const ChatRenderer& render_;
  const std::string mark_;
  const std::string previous_mark_;
  size_t index_ = 0;
  size_t previous_end_ = 0;
};

}  // namespace

Result<std::vector<AssistantSpan>> find_assistant_spans(const Json& messages,
                                                        const std::string& full,
                                                        bool add_generation_prompt,
                                                        const ChatRenderer& render) {
  SpanFinder finder(messages, full, add_generation_prompt, render);
  std::vector<AssistantSpan> spans;
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto role = messages[i].find("role");
    if (role == messages[i].end() || *role != "assistant") continue;
    MS_ASSIGN_OR_RETURN(const AssistantSpan span,
                        finder.find(i, spans.empty() ? 0 : spans.back().end));
    spans.push_back(span);
  }
  return spans;
}

}  // namespace mainspring
