// max: the larger of two digits, in token ids.
//
// The one idea: the smallest task that a policy can learn by reinforcement from random weights: a
// prompt `a b SEP`, the reply `max(a, b) EOS`, and all 100 prompts known, so that an evaluation is
// exact.
#include <algorithm>

#include "mainspring/env/env_random.h"
#include "mainspring/env/env_settings.h"
#include "mainspring/env/envs/envs.h"
#include "mainspring/env/single_turn.h"

namespace mainspring {
namespace {

constexpr int32_t kSeparator = 10;
constexpr int32_t kEnd = 11;

class MaxEnvironment final : public Environment {
 public:
  std::string name() const override { return "max"; }
  int64_t vocabulary() const override { return 12; }
  int32_t end_token() const override { return kEnd; }
  int64_t num_tasks() const override { return 100; }

  std::unique_ptr<Episode> make_episode(uint64_t seed, uint64_t index) override {
    const auto task = static_cast<int32_t>(task_in_order("max", num_tasks(), seed, index));
    const int32_t a = task / 10;
    const int32_t b = task % 10;
    Observation prompt;
    prompt.tokens = {a, b, kSeparator};
    const std::vector<int32_t> wanted = {std::max(a, b), kEnd};
    return make_single_turn(std::move(prompt), [wanted](const Action& action) {
      return std::map<std::string, double>{{"right", action.tokens == wanted ? 1.0 : 0.0}};
    });
  }
};

}  // namespace

EnvironmentResult make_max_env(const EnvSettings& settings) {
  EnvSettingsReader reader("max", settings);
  MS_RETURN_IF_ERROR(reader.finish());
  return std::unique_ptr<Environment>(std::make_unique<MaxEnvironment>());
}

}  // namespace mainspring
