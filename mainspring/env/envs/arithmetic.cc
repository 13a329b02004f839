// arithmetic: the value of an expression of a few numbers.
//
// The one idea: difficulty is three numbers (operators, digits, terms) and the answer is exact.
#include "mainspring/env/env_random.h"
#include "mainspring/env/env_settings.h"
#include "mainspring/env/envs/envs.h"
#include "mainspring/env/envs/expression.h"
#include "mainspring/env/rewards/answer_text.h"
#include "mainspring/env/rewards/text_rewards.h"
#include "mainspring/env/single_turn.h"

namespace mainspring {
namespace {

struct ArithmeticOptions {
  std::string operators;
  int64_t digits;
  int64_t terms;
  AnswerPlace place;
};

class ArithmeticEnvironment final : public Environment {
 public:
  explicit ArithmeticEnvironment(ArithmeticOptions options) : options_(std::move(options)) {}

  std::string name() const override { return "arithmetic"; }

  std::unique_ptr<Episode> make_episode(uint64_t seed, uint64_t index) override {
    EnvRandom random("arithmetic", seed, index);
    const std::string expression = draw(random);
    const Result<ExpressionValue> value = evaluate_expression(expression);
    MS_CHECK(value.ok() && value->value.is_whole(), expression + " has no whole value");
    const std::string wanted = value->value.to_string();
    const AnswerPlace place = options_.place;
    return make_single_turn("What is " + expression + "? " + answer_request("the number", place),
                            [wanted, place](const Action& action) {
                              const auto answer = answer_of(action, place);
                              const bool is_right =
                                  answer.has_value() && numeric_match(*answer, wanted, 0.0);
                              return std::map<std::string, double>{{"right", is_right ? 1.0 : 0.0}};
                            });
  }

 private:
  std::string draw(EnvRandom& random) const {
    const int64_t limit = power_of_ten(options_.digits);
    std::string text = std::to_string(random.below(limit));
    for (int64_t i = 1; i < options_.terms; ++i) {
      const char op =
          options_.operators[random.below(static_cast<int64_t>(options_.operators.size()))];
      if (op == '/') {
        // Two terms only: a multiple over its divisor, so that the answer is whole.
        const int64_t divisor = random.between(1, limit - 1);
        const int64_t quotient = random.below(limit);
        return std::to_string(divisor * quotient) + " / " + std::to_string(divisor);
      }
      text += std::string(" ") + op + " " + std::to_string(random.below(limit));
    }
    return text;
  }

  ArithmeticOptions options_;
};

}  // namespace

EnvironmentResult make_arithmetic_env(const EnvSettings& settings) {
  EnvSettingsReader reader("arithmetic", settings);
  ArithmeticOptions options;
  options.operators = reader.text("operators", "+-");
  options.digits = reader.integer("digits", 2, 1, 9);
  options.terms = reader.integer("terms", 2, 2, 8);
  options.place = read_answer_place(reader);
  const std::string& operators = options.operators;
  if (operators.empty() || operators.find_first_not_of("+-*/") != std::string::npos) {
    reader.refuse("operators", "expected some of + - * /, got \"" + operators + "\"");
  }
  if (operators.find('/') != std::string::npos && options.terms != 2) {
    reader.refuse("terms", "with the operator / there must be 2, so that answers are whole");
  }
  const bool multiplies = operators.find('*') != std::string::npos;
  if (multiplies && options.digits * options.terms > 18) {
    reader.refuse("digits", "with the operator *, digits times terms must be at most 18");
  }
  MS_RETURN_IF_ERROR(reader.finish());
  return std::unique_ptr<Environment>(std::make_unique<ArithmeticEnvironment>(options));
}

}  // namespace mainspring
