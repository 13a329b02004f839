// countdown: make a target from a few numbers, each used at most once.
//
// The one idea: the target is the value of an expression that was drawn, so every task can be
// solved; any other solution counts as well, because the reply is parsed and evaluated exactly.
#include <algorithm>

#include "mainspring/env/env_random.h"
#include "mainspring/env/env_settings.h"
#include "mainspring/env/envs/envs.h"
#include "mainspring/env/envs/expression.h"
#include "mainspring/env/rewards/answer_text.h"
#include "mainspring/env/single_turn.h"

namespace mainspring {
namespace {

struct CountdownOptions {
  int64_t numbers;
  int64_t max_number;
  int64_t max_target;
  bool must_use_all;
  double format_credit;
  AnswerPlace place;
};

struct CountdownTask {
  std::vector<int64_t> numbers;
  int64_t target = 0;
};

/// Joins the numbers pairwise with drawn operators until one value is left; true if that and all
/// between are whole numbers of [1, most].
bool draw_target(EnvRandom& random, std::vector<int64_t> values, int64_t most, int64_t& target) {
  while (values.size() > 1) {
    random.shuffle(values);
    const int64_t a = values[values.size() - 1];
    const int64_t b = values[values.size() - 2];
    values.resize(values.size() - 2);
    int64_t value = 0;
    switch (random.below(4)) {
      case 0:
        value = a + b;
        break;
      case 1:
        value = std::max(a, b) - std::min(a, b);
        break;
      case 2:
        value = a * b;
        break;
      default:
        if (a % b != 0) return false;
        value = a / b;
        break;
    }
    if (value < 1 || value > most) return false;
    values.push_back(value);
  }
  target = values[0];
  return true;
}

CountdownTask draw_task(EnvRandom& random, const CountdownOptions& options) {
  CountdownTask task;
  for (int64_t i = 0; i < options.numbers; ++i) {
    task.numbers.push_back(random.between(1, options.max_number));
  }
  // One of a few tries stays within the bounds; the sum always does, and is larger than each.
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (!draw_target(random, task.numbers, options.max_target, task.target)) continue;
    // A target among the numbers would be no task.
    const auto& numbers = task.numbers;
    if (std::find(numbers.begin(), numbers.end(), task.target) == numbers.end()) return task;
  }
  task.target = 0;
  for (const int64_t number : task.numbers) task.target += number;
  return task;
}

std::map<std::string, double> judge(const Action& action, const CountdownTask& task,
                                    const CountdownOptions& options) {
  std::map<std::string, double> rewards = {{"right", 0.0}, {"valid", 0.0}};
  const auto answer = answer_of(action, options.place);
  if (!answer.has_value()) return rewards;
  // "25 * 4 = 100" is how people write it: what stands behind the sign is not judged.
  const std::string_view expression =
      trimmed(std::string_view(*answer).substr(0, answer->find('=')));
  const Result<ExpressionValue> value = evaluate_expression(expression);
  if (!value.ok()) return rewards;
  std::vector<int64_t> left = task.numbers;
  for (const int64_t number : value->numbers) {
    const auto place = std::find(left.begin(), left.end(), number);
    if (place == left.end()) return rewards;
    left.erase(place);
  }
  if (options.must_use_all && !left.empty()) return rewards;
  if (value->value == Fraction{task.target, 1}) {
    rewards["right"] = 1.0;
  } else {
    rewards["valid"] = options.format_credit;
  }
  return rewards;
}

class CountdownEnvironment final : public Environment {
 public:
  explicit CountdownEnvironment(CountdownOptions options) : options_(options) {}

  std::string name() const override { return "countdown"; }

  std::unique_ptr<Episode> make_episode(uint64_t seed, uint64_t index) override {
    EnvRandom random("countdown", seed, index);
    const CountdownTask task = draw_task(random, options_);
    std::string list;
    for (const int64_t number : task.numbers) {
      list += (list.empty() ? "" : ", ") + std::to_string(number);
    }
    const std::string question = "Make " + std::to_string(task.target) + " from the numbers " +
                                 list + " with +, -, *, / and parentheses. Use each number " +
                                 (options_.must_use_all ? "exactly" : "at most") + " once. " +
                                 answer_request("the expression", options_.place);
    return make_single_turn(question, [task, options = options_](const Action& action) {
      return judge(action, task, options);
    });
  }

 private:
  CountdownOptions options_;
};

}  // namespace

EnvironmentResult make_countdown_env(const EnvSettings& settings) {
  EnvSettingsReader reader("countdown", settings);
  CountdownOptions options;
  options.numbers = reader.integer("numbers", 4, 2, 8);
  options.max_number = reader.integer("max_number", 50, 1, 1000);
  options.max_target = reader.integer("max_target", 999, 1, 1000000);
  options.must_use_all = reader.choice("use", {"any", "all"}) == "all";
  options.format_credit = reader.number("format_credit", 0.1, 0.0, 1.0);
  options.place = read_answer_place(reader);
  if (options.place == AnswerPlace::kLastNumber) {
    reader.refuse("answer_at", "the answer is an expression");
  }
  if (options.numbers * options.max_number > options.max_target) {
    reader.refuse("max_target", "must be at least numbers times max_number (" +
                                    std::to_string(options.numbers * options.max_number) + ")");
  }
  MS_RETURN_IF_ERROR(reader.finish());
  return std::unique_ptr<Environment>(std::make_unique<CountdownEnvironment>(options));
}

}  // namespace mainspring
