#include "mainspring/env/single_turn.h"

#include <utility>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

class SingleTurnEpisode final : public Episode {
 public:
  SingleTurnEpisode(Observation prompt, Verdict verdict)
      : prompt_(std::move(prompt)), verdict_(std::move(verdict)) {}

  Observation start() override { return prompt_; }

  Feedback step(const Action& action) override {
    MS_CHECK(!is_done_, "a single-turn episode has one step");
    is_done_ = true;
    Feedback feedback;
    feedback.rewards = verdict_(action);
    return feedback;
  }

 private:
  Observation prompt_;
  Verdict verdict_;
  bool is_done_ = false;
};

}  // namespace

std::unique_ptr<Episode> make_single_turn(Observation prompt, Verdict verdict) {
  return std::make_unique<SingleTurnEpisode>(std::move(prompt), std::move(verdict));
}

std::unique_ptr<Episode> make_single_turn(std::string user, Verdict verdict) {
  Observation prompt;
  prompt.messages.push_back({"user", std::move(user)});
  return make_single_turn(std::move(prompt), std::move(verdict));
}

}  // namespace mainspring
