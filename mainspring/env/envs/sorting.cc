// sorting: a few numbers in ascending or descending order.
//
// The one idea: a reply is judged as a list, not as text, and part credit (off by default) counts
// places of a reply that has the right numbers.
#include <algorithm>
#include <charconv>
#include <optional>

#include "mainspring/env/env_random.h"
#include "mainspring/env/env_settings.h"
#include "mainspring/env/envs/envs.h"
#include "mainspring/env/rewards/answer_text.h"
#include "mainspring/env/single_turn.h"

namespace mainspring {
namespace {

/// "3, 1,2" or "3 1 2", optionally in brackets; nothing for all else.
std::optional<std::vector<int64_t>> read_list(std::string_view text) {
  text = trimmed(text);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = trimmed(text.substr(1, text.size() - 2));
  }
  std::vector<int64_t> numbers;
  while (!text.empty()) {
    int64_t number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return std::nullopt;
    numbers.push_back(number);
    text.remove_prefix(static_cast<size_t>(rest - text.data()));
    if (text.empty()) return numbers;
    const size_t blanks = text.find_first_not_of(" \t");
    if (blanks == std::string_view::npos) return std::nullopt;
    text.remove_prefix(blanks);
    const bool has_comma = text.front() == ',';
    if (!has_comma && blanks == 0) return std::nullopt;
    if (has_comma) {
      text.remove_prefix(1);
      text = trimmed(text);
      if (text.empty()) return std::nullopt;
    }
  }
  return numbers;
}

struct SortingOptions {
  int64_t numbers;
  int64_t digits;
  std::string order;
  double partial;
  AnswerPlace place;
};

class SortingEnvironment final : public Environment {
 public:
  explicit SortingEnvironment(SortingOptions options) : options_(std::move(options)) {}

  std::string name() const override { return "sorting"; }

  std::unique_ptr<Episode> make_episode(uint64_t seed, uint64_t index) override {
    EnvRandom random("sorting", seed, index);
    const int64_t limit = power_of_ten(options_.digits);
    std::vector<int64_t> numbers;
    std::string list;
    for (int64_t i = 0; i < options_.numbers; ++i) {
      numbers.push_back(random.below(limit));
      list += (i == 0 ? "" : ", ") + std::to_string(numbers.back());
    }
    bool ascends = options_.order == "ascending";
    if (options_.order == "mixed") ascends = random.below(2) == 0;
    std::sort(numbers.begin(), numbers.end());
    if (!ascends) std::reverse(numbers.begin(), numbers.end());
    const std::string question =
        std::string("Sort in ") + (ascends ? "ascending" : "descending") + " order: " + list +
        ". " + answer_request("the sorted numbers, separated by commas,", options_.place);
    return make_single_turn(
        question, [wanted = std::move(numbers), options = options_](const Action& action) {
          return judge(action, wanted, options);
        });
  }

 private:
  static std::map<std::string, double> judge(const Action& action,
                                             const std::vector<int64_t>& wanted,
                                             const SortingOptions& options) {
    std::map<std::string, double> rewards = {{"right", 0.0}};
    if (options.partial > 0) rewards["places"] = 0.0;
    const auto answer = answer_of(action, options.place);
    if (!answer.has_value()) return rewards;
    const auto numbers = read_list(*answer);
    if (!numbers.has_value()) return rewards;
    if (*numbers == wanted) {
      rewards["right"] = 1.0;
    } else if (options.partial > 0 && std::is_permutation(numbers->begin(), numbers->end(),
                                                          wanted.begin(), wanted.end())) {
      int64_t right = 0;
      for (size_t i = 0; i < wanted.size(); ++i) right += (*numbers)[i] == wanted[i] ? 1 : 0;
      rewards["places"] =
          options.partial * static_cast<double>(right) / static_cast<double>(wanted.size());
    }
    return rewards;
  }

  SortingOptions options_;
};

}  // namespace

EnvironmentResult make_sorting_env(const EnvSettings& settings) {
  EnvSettingsReader reader("sorting", settings);
  SortingOptions options;
  options.numbers = reader.integer("numbers", 4, 2, 30);
  options.digits = reader.integer("digits", 2, 1, 9);
  options.order = reader.choice("order", {"ascending", "descending", "mixed"});
  options.partial = reader.number("partial", 0.0, 0.0, 1.0);
  options.place = read_answer_place(reader);
  if (options.place == AnswerPlace::kLastNumber) {
    reader.refuse("answer_at", "the answer is more than one number");
  }
  MS_RETURN_IF_ERROR(reader.finish());
  return std::unique_ptr<Environment>(std::make_unique<SortingEnvironment>(options));
}

}  // namespace mainspring
