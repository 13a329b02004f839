// calculator: arithmetic too large for the head, with a tool.
//
// The one idea: the smallest task that needs turns: the policy writes <tool>EXPRESSION</tool>, the
// environment answers with its value, and the reply that has <answer>N</answer> ends the episode.
// A call that cannot be evaluated is told why and costs a turn, nothing else.
#include <optional>

#include "mainspring/env/env_random.h"
#include "mainspring/env/env_settings.h"
#include "mainspring/env/envs/envs.h"
#include "mainspring/env/envs/expression.h"
#include "mainspring/env/rewards/answer_text.h"
#include "mainspring/env/rewards/text_rewards.h"

namespace mainspring {
namespace {

struct CalculatorOptions {
  int64_t digits;
  int64_t terms;
  int64_t turns;
  double tool_credit;
  std::string tool_role;
};

/// What stands in the last <tool> ... </tool>.
std::optional<std::string> find_call(std::string_view text) {
  constexpr std::string_view kOpen = "<tool>";
  const size_t begin = text.rfind(kOpen);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view inner = text.substr(begin + kOpen.size());
  const size_t end = inner.find("</tool>");
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(trimmed(inner.substr(0, end)));
}

class CalculatorEpisode final : public Episode {
 public:
  CalculatorEpisode(std::string expression, std::string wanted, const CalculatorOptions& options)
      : expression_(std::move(expression)), wanted_(std::move(wanted)), options_(options) {}

  Observation start() override {
    Observation first;
    first.messages.push_back(
        {"user", "Compute " + expression_ +
                     ". You have a calculator: write <tool>EXPRESSION</tool> to get the value of "
                     "an expression. When you know the result, write <answer>NUMBER</answer>."});
    return first;
  }

  Feedback step(const Action& action) override {
    MS_CHECK(!is_done_, "the episode is over");
    ++turn_;
    Feedback feedback;
    feedback.rewards = {{"right", 0.0}, {"tool", 0.0}};
    const auto answer = answer_of(action, AnswerPlace::kTag);
    const auto call = action.is_complete ? find_call(action.text) : std::nullopt;
    if (answer.has_value()) {
      feedback.rewards["right"] = numeric_match(*answer, wanted_, 0.0) ? 1.0 : 0.0;
    } else if (call.has_value() && turn_ < options_.turns) {
      feedback.is_done = false;
      const Result<ExpressionValue> value = evaluate_expression(*call);
      if (value.ok() && !has_called_) {
        has_called_ = true;
        feedback.rewards["tool"] = options_.tool_credit;
      }
      feedback.next.messages.push_back(
          {options_.tool_role,
           value.ok() ? value->value.to_string() : "error: " + value.status().message()});
    }
    is_done_ = feedback.is_done;
    return feedback;
  }

 private:
  std::string expression_;
  std::string wanted_;
  CalculatorOptions options_;
  int64_t turn_ = 0;
  bool has_called_ = false;
  bool is_done_ = false;
};

class CalculatorEnvironment final : public Environment {
 public:
  explicit CalculatorEnvironment(CalculatorOptions options) : options_(std::move(options)) {}

  std::string name() const override { return "calculator"; }

  std::unique_ptr<Episode> make_episode(uint64_t seed, uint64_t index) override {
    EnvRandom random("calculator", seed, index);
    const int64_t limit = power_of_ten(options_.digits);
    std::string expression = std::to_string(random.between(limit / 10, limit - 1));
    for (int64_t i = 1; i < options_.terms; ++i) {
      // A product first: sums alone are too easy to need the tool.
      const char op = i == 1 ? '*' : "+-"[random.below(2)];
      expression +=
          std::string(" ") + op + " " + std::to_string(random.between(limit / 10, limit - 1));
    }
    const Result<ExpressionValue> value = evaluate_expression(expression);
    MS_CHECK(value.ok(), expression);
    return std::make_unique<CalculatorEpisode>(expression, value->value.to_string(), options_);
  }

 private:
  CalculatorOptions options_;
};

}  // namespace

EnvironmentResult make_calculator_env(const EnvSettings& settings) {
  EnvSettingsReader reader("calculator", settings);
  CalculatorOptions options;
  options.digits = reader.integer("digits", 3, 1, 8);
  options.terms = reader.integer("terms", 2, 2, 6);
  options.turns = reader.integer("turns", 4, 2, 20);
  options.tool_credit = reader.number("tool_credit", 0.1, 0.0, 1.0);
  options.tool_role = reader.choice("tool_role", {"tool", "user"});
  MS_RETURN_IF_ERROR(reader.finish());
  return std::unique_ptr<Environment>(std::make_unique<CalculatorEnvironment>(options));
}

}  // namespace mainspring
