#include "mainspring/train/preference.h"

#include <algorithm>

#include "mainspring/losses/losses.h"

namespace mainspring {
namespace {

// A datum's answer: its learned targets, from the first one on.
size_t first_learned(const Datum& datum) {
  size_t t = 0;
  while (t < datum.weights.size() && datum.weights[t] == 0.0f) ++t;
  return t;
}

// The prompt of `prompt` with the answer of `answer`.
Datum mismatched(const Datum& prompt, const Datum& answer) {
  const size_t prompt_end = first_learned(prompt);
  const size_t answer_begin = first_learned(answer);
  Datum datum;
  datum.role = kMismatched;
  datum.sample_index = prompt.sample_index;
  datum.epoch = prompt.epoch;
  // Position t holds the prompt up to its last token, which predicts the answer's first one.
  datum.tokens.assign(prompt.tokens.begin(),
                      prompt.tokens.begin() + static_cast<int64_t>(prompt_end) + 1);
  datum.targets.assign(prompt.targets.begin(),
                       prompt.targets.begin() + static_cast<int64_t>(prompt_end));
  datum.weights.assign(prompt_end, 0.0f);
  for (size_t t = answer_begin; t < answer.targets.size(); ++t) {
    datum.targets.push_back(answer.targets[t]);
    datum.weights.push_back(answer.weights[t]);
    if (t + 1 < answer.targets.size()) datum.tokens.push_back(answer.targets[t]);
  }
  return datum;
}

}  // namespace

std::vector<std::string> preference_loss_names() {
  return {"dpo", "dpo_ipo", "dpo_hinge", "dpo_robust", "dpo_conservative",
          "kto", "orpo",    "simpo",     "cpo"};
}

Result<LossCall> preference_call(const PreferenceRecipe& recipe) {
  MS_ASSIGN_OR_RETURN(const LossInfo* loss, find_loss(recipe.loss));
  MS_RETURN_IF_ERROR(complete_settings(*loss, recipe.settings).status().with_context("preference"));
  return LossCall(recipe.loss, recipe.settings);
}

bool needs_reference(const std::string& loss) {
  const auto inputs = find_loss(loss).value()->inputs;
  return std::find(inputs.begin(), inputs.end(), "ref_logprobs") != inputs.end();
}

double num_judged(const std::string& loss, const std::vector<Datum>& datums) {
  const bool each_answer = loss == "kto";
  return static_cast<double>(std::count_if(datums.begin(), datums.end(), [&](const Datum& datum) {
    return datum.role == kChosen || (each_answer && datum.role == kRejected);
  }));
}

Status add_mismatched(std::vector<Datum>& datums) {
  std::vector<Datum> chosen;
  for (Datum& datum : datums) {
    datum.group = 0;
    if (datum.role == kChosen) chosen.push_back(datum);
  }
  if (chosen.size() < 2) {
    return invalid_argument(
        "kto compares with another prompt's answer: expected 2 pairs or more at once, got " +
        std::to_string(chosen.size()));
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    datums.push_back(mismatched(chosen[i], chosen[(i + 1) % chosen.size()]));
    datums.back().group = 0;
  }
  return {};
}

ReferenceLogprobs::Sequence ReferenceLogprobs::sequence_of(const Datum& datum) {
  Sequence sequence = datum.tokens;
  if (!datum.targets.empty()) sequence.push_back(datum.targets.back());
  return sequence;
}

Status ReferenceLogprobs::add(Engine& engine, std::vector<Datum>& datums) {
  std::vector<Datum> unknown;
  std::vector<size_t> places;
  for (size_t i = 0; i < datums.size(); ++i) {
    const auto known = known_.find(sequence_of(datums[i]));
    if (known != known_.end()) {
      datums[i].inputs["ref_logprobs"] = known->second;
      continue;
    }
    places.push_back(i);
    unknown.push_back(datums[i]);
  }
  if (unknown.empty()) return {};
  MS_ASSIGN_OR_RETURN(const ForwardBackwardResult result,
                      engine.forward(kBaseModel, unknown, "cross_entropy"));
  for (size_t k = 0; k < places.size(); ++k) {
    Datum& datum = datums[places[k]];
    datum.inputs["ref_logprobs"] = result.logprobs[k];
    // A mismatched answer hardly comes again.
    const auto bytes = static_cast<int64_t>(8 * datum.tokens.size() + 64);
    if (datum.role == kMismatched || bytes_ + bytes > max_bytes_) continue;
    if (known_.emplace(sequence_of(datum), result.logprobs[k]).second) bytes_ += bytes;
  }
  return {};
}

}  // namespace mainspring
