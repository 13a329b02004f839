#include "mainspring/train/rl/rl_samples.h"

#include <algorithm>
#include <cstdio>

#include "mainspring/text/detokenizer.h"

namespace mainspring {
namespace {

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  const size_t last = text.find_last_not_of(' ');
  text.resize(last == std::string::npos ? 0 : last + 1);
  return text;
}

}  // namespace

std::vector<std::string> token_texts(const ModelText& text, const std::vector<int32_t>& tokens) {
  std::vector<std::string> texts;
  if (text.tokenizer == nullptr) {
    for (const int32_t token : tokens) texts.push_back(std::to_string(token) + " ");
    return texts;
  }
  IncrementalDetokenizer stream(text.tokenizer);
  for (const int32_t token : tokens) texts.push_back(stream.push(token));
  if (!texts.empty()) texts.back() += stream.finish();
  return texts;
}

Result<RunSample> answer_sample(const ModelText& text, const Trajectory& trajectory, int64_t step,
                                const std::string& title) {
  RunSample sample{
      .step = step, .kind = "generated", .title = title, .pieces = {}, .advantage = {}, .note = {}};
  if (trajectory.branches.empty()) return sample;
  const Branch& branch = trajectory.branches.back();
  const std::vector<std::string> texts = token_texts(text, branch.tokens);
  for (size_t t = 0; t < texts.size(); ++t) {
    const bool sampled = branch.sampled[t] != 0;
    if (!sampled && !sample.pieces.empty() && !sample.pieces.back().learned) {
      sample.pieces.back().text += texts[t];
      continue;
    }
    SamplePiece piece{.text = texts[t], .learned = sampled, .logprob = {}};
    if (sampled) piece.logprob = static_cast<double>(branch.logprobs[t]);
    sample.pieces.push_back(std::move(piece));
  }
  return sample;
}

Result<std::vector<RunSample>> group_samples(const ModelText& text, const RolloutGroup& group,
                                             const std::vector<double>& advantages, int64_t step) {
  std::vector<RunSample> samples;
  const std::string title =
      "step " + std::to_string(step) + ", task " + std::to_string(group.task_index);
  for (size_t s = 0; s < group.samples.size(); ++s) {
    const Trajectory& trajectory = group.samples[s];
    MS_ASSIGN_OR_RETURN(RunSample sample, answer_sample(text, trajectory, step, title));
    sample.kind = "rollout";
    sample.advantage = advantages[s];
    char note[64];
    std::snprintf(note, sizeof(note), "reward %.3g, advantage %+.2f", trajectory.reward,
                  advantages[s]);
    sample.note = trajectory.is_ok() ? note : std::string(outcome_name(trajectory.outcome));
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::string answer_line(const ModelText& text, const Trajectory& trajectory) {
  if (trajectory.branches.empty()) return "";
  const Branch& branch = trajectory.branches.back();
  std::vector<int32_t> read;
  std::vector<int32_t> reply;
  for (size_t t = 0; t < branch.tokens.size(); ++t) {
    if (branch.sampled[t] == 0 && !reply.empty()) reply.clear();  // the last turn's
    (branch.sampled[t] != 0 ? reply : read).push_back(branch.tokens[t]);
  }
  const auto shown = [&](const std::vector<int32_t>& tokens) {
    std::string whole;
    for (const std::string& piece : token_texts(text, tokens)) whole += piece;
    return one_line(whole);
  };
  char reward[32];
  std::snprintf(reward, sizeof(reward), "%.3g", trajectory.reward);
  const std::string prompt = trajectory.prompt.empty() ? shown(read) : one_line(trajectory.prompt);
  return "  " + prompt + "  ->  " + shown(reply) + "   (reward " + reward + ")";
}

}  // namespace mainspring
