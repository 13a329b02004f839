#include "mainspring/train/rl/rl_learner.h"

#include <cmath>
#include <limits>

#include "mainspring/losses/policy_terms.h"
#include "mainspring/train/rl/critic.h"

namespace mainspring {
namespace {

double largest_mismatch(const RlWork& work) {
  double largest = 0.0;
  for (size_t i = 0; i < work.batch.datums.size(); ++i) {
    const Datum& datum = work.batch.datums[i];
    const std::vector<float>& sampled = datum.inputs.at("logprobs");
    for (size_t t = 0; t < datum.weights.size(); ++t) {
      if (datum.weights[t] == 0.0f) continue;
      const double difference = std::abs(static_cast<double>(work.result.logprobs[i][t]) -
                                         static_cast<double>(sampled[t]));
      if (!(difference <= largest)) largest = difference;  // NaN stays
    }
  }
  return largest;
}

double mean_kl(const RlBatch& batch, const std::vector<std::vector<float>>& reference) {
  double sum = 0.0;
  double count = 0.0;
  for (size_t i = 0; i < batch.datums.size(); ++i) {
    const Datum& datum = batch.datums[i];
    for (size_t t = 0; t < datum.weights.size(); ++t) {
      if (datum.weights[t] == 0.0f) continue;
      const double log_ratio = static_cast<double>(datum.inputs.at("logprobs")[t]) -
                               static_cast<double>(reference[i][t]);
      sum += estimate_kl(KlEstimator::kK3, log_ratio).value;
      count += 1.0;
    }
  }
  return count > 0.0 ? sum / count : 0.0;
}

}  // namespace

// The frozen base: what an adapter sits on, and what full weights started from.
Result<std::vector<std::vector<float>>> RlLearner::reference_logprobs(
    const std::vector<Datum>& datums) {
  std::vector<Datum> plain = datums;
  for (Datum& datum : plain) datum.inputs.clear();
  MS_ASSIGN_OR_RETURN(ForwardBackwardResult result,
                      setup_.engine->forward(kBaseModel, plain, "cross_entropy"));
  return std::move(result.logprobs);
}

Result<RlWork> RlLearner::pass(const std::vector<RolloutGroup>& groups, int64_t step) {
  const RlRecipe& rl = recipe_.rl;
  RlWork work;
  MS_ASSIGN_OR_RETURN(work.batch, make_rl_batch(groups, rl, step));
  if (rl.kl != "none" && !work.is_empty()) {
    MS_ASSIGN_OR_RETURN(auto reference, reference_logprobs(work.batch.datums));
    work.kl_reference = mean_kl(work.batch, reference);
    if (rl.kl_place == "reward") {
      const PerSample penalties = kl_penalties(groups, work.batch, rl, reference);
      MS_ASSIGN_OR_RETURN(work.batch, make_rl_batch(groups, rl, step, penalties));
    } else {
      for (size_t i = 0; i < reference.size(); ++i) {
        work.batch.datums[i].inputs["ref_logprobs"] = std::move(reference[i]);
      }
    }
  }
  if (work.is_empty()) return work;
  if (has_critic(rl)) {
    std::vector<Datum> plain = work.batch.datums;
    for (Datum& datum : plain) datum.inputs.clear();
    MS_ASSIGN_OR_RETURN(const ForwardBackwardResult seen,
                        setup_.engine->forward(setup_.id, plain, "cross_entropy"));
    fill_gae(work.batch, groups, rl, seen.values);
  }
  MS_RETURN_IF_ERROR(run(work));
  work.mismatch = largest_mismatch(work);
  return work;
}

Status RlLearner::run(RlWork& work) {
  const RlRecipe& rl = recipe_.rl;
  const std::vector<Datum>& datums = work.batch.datums;
  MS_ASSIGN_OR_RETURN(work.result,
                      setup_.engine->forward_backward(setup_.id, datums, rl_loss_call(rl)));
  if (!has_critic(rl)) return {};
  // A pass of its own, whose gradient adds to the policy's.
  MS_ASSIGN_OR_RETURN(const ForwardBackwardResult critic,
                      setup_.engine->forward_backward(setup_.id, datums, value_loss_call(rl)));
  for (const auto& [name, metric] : critic.metrics) work.result.metrics[name].merge(metric);
  work.result.num_tokens += critic.num_tokens;
  work.result.finite = work.result.finite && critic.finite;
  return {};
}

Status RlLearner::update(RlWork& work, int64_t step) {
  if (work.is_empty()) return {};
  if (!work.result.finite) {
    setup_.engine->zero_grad(setup_.id);
    work.update = {.grad_norm = std::numeric_limits<double>::quiet_NaN(), .applied = false};
    return {};
  }
  const OptimRecipe& o = recipe_.optim;
  MS_ASSIGN_OR_RETURN(
      work.update, setup_.engine->optim_step(
                       setup_.id, {.lr = learning_rate(recipe_, setup_.schedule, step),
                                   .beta1 = static_cast<float>(o.beta1),
                                   .beta2 = static_cast<float>(o.beta2),
                                   .eps = static_cast<float>(o.eps),
                                   .weight_decay = static_cast<float>(o.weight_decay),
                                   .max_grad_norm = static_cast<float>(recipe_.train.max_grad_norm),
                                   .normaliser = work.batch.normaliser}));
  return {};
}

Status RlLearner::update_again(RlWork& work, int64_t step) {
  for (int64_t done = 1; done < recipe_.rl.updates && work.update.applied; ++done) {
    RlWork again;
    again.batch = std::move(work.batch);  // advantages and references stay those of the first pass
    MS_RETURN_IF_ERROR(run(again));
    MS_RETURN_IF_ERROR(update(again, step));
    work.batch = std::move(again.batch);
    for (const auto& [name, metric] : again.result.metrics) {
      work.result.metrics[name].merge(metric);
    }
    work.result.num_tokens += again.result.num_tokens;
    work.update.applied = again.update.applied;
  }
  return {};
}

}  // namespace mainspring
