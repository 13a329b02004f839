// jsonmax: the largest of a few two-digit numbers, answered as JSON {"answer": n}.
//
// The one idea: format and reasoning in one reward that needs no judge. One worked example stands
// in the prompt, because without it a small model never finds the format and nothing is learned.
// 1 for the right number, 0.1 for valid JSON with another value, 0 for all else, and for a reply
// that did not end by itself.
#include <algorithm>

#include "mainspring/env/env_random.h"
#include "mainspring/env/env_settings.h"
#include "mainspring/env/envs/envs.h"
#include "mainspring/env/rewards/answer_text.h"
#include "mainspring/env/single_turn.h"
#include "mainspring/io/json.h"

namespace mainspring {
namespace {

constexpr double kFormatCredit = 0.1;
const std::vector<int64_t> kExample = {17, 52, 31, 28, 45, 60, 23, 74, 39, 11};

std::string question(const std::vector<int64_t>& numbers) {
  std::string text = "Which number is the largest: ";
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  }
  return text + "?";
}

std::map<std::string, double> judge(const Action& action, int64_t wanted) {
  std::map<std::string, double> rewards = {{"right", 0.0}, {"valid_json", 0.0}};
  if (!action.is_complete) return rewards;
  const Result<Json> reply = parse_json(trimmed(action.text), "reply");
  if (!reply.ok() || !reply->is_object() || reply->size() != 1 || !reply->contains("answer")) {
    return rewards;
  }
  const Json& answer = (*reply)["answer"];
  if (answer.is_number_integer() && answer == wanted) {
    rewards["right"] = 1.0;
  } else {
    rewards["valid_json"] = kFormatCredit;
  }
  return rewards;
}

class JsonmaxEnvironment final : public Environment {
 public:
  explicit JsonmaxEnvironment(int64_t numbers)
      : numbers_(numbers), example_(kExample.begin(), kExample.begin() + numbers) {}

  std::string name() const override { return "jsonmax"; }

  std::unique_ptr<Episode> make_episode(uint64_t seed, uint64_t index) override {
    EnvRandom random("jsonmax", seed, index);
    const std::vector<int64_t> numbers = random.distinct(numbers_, 10, 99);
    const int64_t of_example = *std::max_element(example_.begin(), example_.end());
    Observation prompt;
    prompt.messages = {{"system", "Answer in JSON."},
                       {"user", question(example_)},
                       {"assistant", "{\"answer\": " + std::to_string(of_example) + "}"},
                       {"user", question(numbers)}};
    const int64_t wanted = *std::max_element(numbers.begin(), numbers.end());
    return make_single_turn(std::move(prompt),
                            [wanted](const Action& action) { return judge(action, wanted); });
  }

 private:
  int64_t numbers_;
  std::vector<int64_t> example_;
};

}  // namespace

EnvironmentResult make_jsonmax_env(const EnvSettings& settings) {
  EnvSettingsReader reader("jsonmax", settings);
  const int64_t numbers = reader.integer("numbers", 4, 2, 10);
  MS_RETURN_IF_ERROR(reader.finish());
  return std::unique_ptr<Environment>(std::make_unique<JsonmaxEnvironment>(numbers));
}

}  // namespace mainspring
