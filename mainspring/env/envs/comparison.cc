// comparison: which of two numbers is larger, or neither.
//
// The one idea: the relation is drawn first, so each of the three answers is as likely as the
// others, and pairs share leading digits often enough that length alone does not tell.
#include "mainspring/env/env_random.h"
#include "mainspring/env/env_settings.h"
#include "mainspring/env/envs/envs.h"
#include "mainspring/env/rewards/answer_text.h"
#include "mainspring/env/single_turn.h"

namespace mainspring {
namespace {

/// value / 10^decimals with that many digits behind the point, or with fewer: trailing zeros are
/// left out, so that 3.2 meets 3.12.
std::string decimal_text(int64_t value, int64_t decimals) {
  std::string digits = std::to_string(value);
  if (decimals == 0) return digits;
  const auto places = static_cast<size_t>(decimals);
  if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
  digits.insert(digits.size() - places, ".");
  while (digits.back() == '0') digits.pop_back();
  if (digits.back() == '.') digits.pop_back();
  return digits;
}

class ComparisonEnvironment final : public Environment {
 public:
  ComparisonEnvironment(int64_t digits, int64_t decimals, AnswerPlace place)
      : digits_(digits), decimals_(decimals), place_(place) {}

  std::string name() const override { return "comparison"; }

  std::unique_ptr<Episode> make_episode(uint64_t seed, uint64_t index) override {
    EnvRandom random("comparison", seed, index);
    const int64_t limit = power_of_ten(digits_ + decimals_);
    const int64_t relation = random.below(3);
    int64_t high = random.between(1, limit - 1);
    // Half of the pairs lie close to each other.
    const bool is_close = random.below(2) == 0;
    int64_t low =
        is_close ? random.between(high > 20 ? high - 20 : 0, high - 1) : random.below(high);
    std::string wanted = ">";
    if (relation == 1) {
      std::swap(high, low);
      wanted = "<";
    } else if (relation == 2) {
      low = high;
      wanted = "=";
    }
    const std::string question = "Compare " + decimal_text(high, decimals_) + " and " +
                                 decimal_text(low, decimals_) + ". " +
                                 answer_request("one of >, <, =", place_);
    const AnswerPlace place = place_;
    return make_single_turn(question, [wanted, place](const Action& action) {
      const bool is_right = answer_of(action, place) == wanted;
      return std::map<std::string, double>{{"right", is_right ? 1.0 : 0.0}};
    });
  }

 private:
  int64_t digits_;
  int64_t decimals_;
  AnswerPlace place_;
};

}  // namespace

EnvironmentResult make_comparison_env(const EnvSettings& settings) {
  EnvSettingsReader reader("comparison", settings);
  const int64_t digits = reader.integer("digits", 2, 1, 6);
  const int64_t decimals = reader.integer("decimals", 0, 0, 3);
  const AnswerPlace place = read_answer_place(reader);
  if (place == AnswerPlace::kLastNumber) reader.refuse("answer_at", "the answer is no number");
  MS_RETURN_IF_ERROR(reader.finish());
  return std::unique_ptr<Environment>(
      std::make_unique<ComparisonEnvironment>(digits, decimals, place));
}

}  // namespace mainspring
