// format: say something about a topic, and keep drawn rules of form.
//
// The one idea: each rule is a pair of a sentence for the prompt and a check of the reply; rules
// come from families of which at most one each is drawn, so that drawn rules never contradict.
#include <algorithm>
#include <functional>

#include "mainspring/env/env_random.h"
#include "mainspring/env/env_settings.h"
#include "mainspring/env/envs/envs.h"
#include "mainspring/env/rewards/answer_text.h"
#include "mainspring/env/single_turn.h"

namespace mainspring {
namespace {

struct FormatRule {
  std::string request;
  std::function<bool(std::string_view)> is_kept;  // of a trimmed reply that is not empty
};

const std::vector<std::string> kTopics = {
    "the sea",    "a bicycle", "winter", "bread",    "a library", "the moon", "a train",
    "gardens",    "music",     "rain",   "a bridge", "honey",     "maps",     "a mountain",
    "old clocks", "birds",     "tea",    "a market", "light",     "wood"};
// Without letters, which a rule of case or a banned letter could forbid.
const std::vector<std::string> kMarks = {"***", "---", "###", ">>", "!!", "=="};

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

int64_t num_words(std::string_view text) {
  int64_t count = 0;
  bool is_inside = false;
  for (const char c : text) {
    count += !is_blank(c) && !is_inside ? 1 : 0;
    is_inside = !is_blank(c);
  }
  return count;
}

/// Lines that are not blank.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    if (!line.empty()) lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

FormatRule draw_length(EnvRandom& random) {
  const int64_t kind = random.below(4);
  if (kind == 0) {
    const int64_t count = random.between(3, 12);
    return {"Use exactly " + std::to_string(count) + " words.",
            [count](std::string_view text) { return num_words(text) == count; }};
  }
  if (kind == 1) {
    const int64_t count = random.between(5, 15);
    return {"Use at most " + std::to_string(count) + " words.",
            [count](std::string_view text) { return num_words(text) <= count; }};
  }
  const auto count = static_cast<size_t>(random.between(2, 4));
  if (kind == 2) {
    return {"Write exactly " + std::to_string(count) + " lines.",
            [count](std::string_view text) { return lines_of(text).size() == count; }};
  }
  return {"Write a list of exactly " + std::to_string(count) + " lines, each starting with \"- \".",
          [count](std::string_view text) {
            const auto lines = lines_of(text);
            return lines.size() == count &&
                   std::all_of(lines.begin(), lines.end(),
                               [](std::string_view line) { return line.starts_with("- "); });
          }};
}

FormatRule draw_case(EnvRandom& random) {
  if (random.below(2) == 0) {
    return {"Use no capital letters.", [](std::string_view text) {
              return std::none_of(text.begin(), text.end(),
                                  [](char c) { return c >= 'A' && c <= 'Z'; });
            }};
  }
  return {"Use capital letters only.", [](std::string_view text) {
            const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
            const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
            return std::none_of(text.begin(), text.end(), is_small) &&
                   std::any_of(text.begin(), text.end(), is_capital);
          }};
}

FormatRule draw_ban(EnvRandom& random) {
  if (random.below(3) == 0) {
    return {"Use no commas.",
            [](std::string_view text) { return text.find(',') == std::string_view::npos; }};
  }
  const char letter = "aeiost"[random.below(6)];
  return {std::string("Do not use the letter ") + letter + ".", [letter](std::string_view text) {
            return std::none_of(text.begin(), text.end(),
                                [letter](char c) { return lower(c) == letter; });
          }};
}

FormatRule draw_ending(EnvRandom& random) {
  const std::string mark = random.pick(kMarks);
  return {"End with " + mark + " and nothing behind it.",
          [mark](std::string_view text) { return text.ends_with(mark); }};
}

std::vector<FormatRule> draw_rules(EnvRandom& random, int64_t count) {
  using Draw = FormatRule (*)(EnvRandom&);
  std::vector<Draw> families = {draw_length, draw_case, draw_ban, draw_ending};
  random.shuffle(families);
  std::vector<FormatRule> rules;
  for (int64_t i = 0; i < count; ++i) rules.push_back(families[i](random));
  return rules;
}

class FormatEnvironment final : public Environment {
 public:
  FormatEnvironment(int64_t rules, double partial) : rules_(rules), partial_(partial) {}

  std::string name() const override { return "format"; }

  std::unique_ptr<Episode> make_episode(uint64_t seed, uint64_t index) override {
    EnvRandom random("format", seed, index);
    std::string prompt = "Write about " + random.pick(kTopics) + ".";
    const std::vector<FormatRule> rules = draw_rules(random, rules_);
    for (const FormatRule& rule : rules) prompt += " " + rule.request;
    return make_single_turn(prompt, [rules, partial = partial_](const Action& action) {
      const std::string_view text = trimmed(action.text);
      int64_t kept = 0;
      if (action.is_complete && !text.empty()) {
        for (const FormatRule& rule : rules) kept += rule.is_kept(text) ? 1 : 0;
      }
      const auto count = static_cast<int64_t>(rules.size());
      return std::map<std::string, double>{
          {"all", kept == count ? 1.0 - partial : 0.0},
          {"share", partial * static_cast<double>(kept) / static_cast<double>(count)}};
    });
  }

 private:
  int64_t rules_;
  double partial_;
};

}  // namespace

EnvironmentResult make_format_env(const EnvSettings& settings) {
  EnvSettingsReader reader("format", settings);
  const int64_t rules = reader.integer("rules", 2, 1, 4);
  const double partial = reader.number("partial", 0.5, 0.0, 1.0);
  MS_RETURN_IF_ERROR(reader.finish());
  return std::unique_ptr<Environment>(std::make_unique<FormatEnvironment>(rules, partial));
}

}  // namespace mainspring
