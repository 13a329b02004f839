#include "mainspring/losses/distill.h"

#include <algorithm>
#include <cmath>

#include "mainspring/base/elementary.h"
#include "mainspring/losses/setting.h"

namespace mainspring {
namespace {

enum class Divergence { kForward = 0, kReverse = 1, kJensenShannon = 2 };

// One token's candidates: log-probabilities of teacher and student over them.
struct Laws {
  std::vector<size_t> places;  // in the datum's candidates
  std::vector<double> log_p;
  std::vector<double> log_q;
};

// x -> log softmax(x).
void normalise(std::vector<double>& x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (double value : x) sum += exact_exp(value - largest);
  const double lse = largest + exact_log(sum);
  for (double& value : x) value -= lse;
}

// D, and its derivatives by each log q into `by_log_q`.
double divergence_of(Divergence kind, double beta, const Laws& laws,
                     std::vector<double>& by_log_q) {
  double total = 0.0;
  by_log_q.resize(laws.log_q.size());
  for (size_t k = 0; k < laws.log_q.size(); ++k) {
    const double log_p = laws.log_p[k];
    const double log_q = laws.log_q[k];
    const double p = exact_exp(log_p);
    const double q = exact_exp(log_q);
    if (kind == Divergence::kForward) {
      total += p * (log_p - log_q);
      by_log_q[k] = -p;
    } else if (kind == Divergence::kReverse) {
      total += q * (log_q - log_p);
      by_log_q[k] = q * (log_q - log_p + 1.0);
    } else {
      const double log_m = exact_log(beta * p + (1.0 - beta) * q);
      total += beta * p * (log_p - log_m) + (1.0 - beta) * q * (log_q - log_m);
      by_log_q[k] = (1.0 - beta) * q * (log_q - log_m);
    }
  }
  return total;
}

Result<Laws> read_laws(const ObjectiveItem& item, size_t token, size_t count, double temperature) {
  const Datum& datum = *item.datum;
  Laws laws;
  for (size_t j = token * count; j < (token + 1) * count; ++j) {
    if (datum.candidates[j] < 0) continue;
    const double p = static_cast<double>(datum.candidate_weights[j]);
    if (!(p > 0.0)) {
      return invalid_argument("distill: candidate_weights[" + std::to_string(j) +
                              "]: expected a probability above 0, got " + std::to_string(p) +
                              "; leave a token without one out by candidate -1");
    }
    laws.places.push_back(j);
    laws.log_p.push_back(exact_log(p) / temperature);
    laws.log_q.push_back(static_cast<double>(item.candidate_logprobs[j]) / temperature);
  }
  if (laws.places.empty()) {
    return invalid_argument("distill: token " + std::to_string(token) + " has no candidate");
  }
  normalise(laws.log_p);
  normalise(laws.log_q);
  return laws;
}

}  // namespace

Status distill(std::span<const ObjectiveItem> items, const LossSettings& settings,
               std::span<ObjectiveGradient> gradients, LossMetrics& metrics) {
  MS_ASSIGN_OR_RETURN(const int kind, whole_setting(settings, "divergence"));
  const double temperature = setting(settings, "temperature");
  const double beta = setting(settings, "jsd_beta");
  std::vector<double> by_log_q;
  for (size_t i = 0; i < items.size(); ++i) {
    const Datum& datum = *items[i].datum;
    if (datum.candidate_weights.empty()) {
      return invalid_argument(
          "distill needs candidate_weights beside the candidates: the teacher's probabilities");
    }
    const size_t count = datum.candidates.size() / datum.tokens.size();
    for (size_t t = 0; t < datum.weights.size(); ++t) {
      if (datum.weights[t] == 0.0f) continue;
      MS_ASSIGN_OR_RETURN(const Laws laws, read_laws(items[i], t, count, temperature));
      const double d = divergence_of(static_cast<Divergence>(kind), beta, laws, by_log_q);
      double sum = 0.0;
      for (double value : by_log_q) sum += value;
      const double weight = static_cast<double>(datum.weights[t]) * temperature * temperature;
      gradients[i].loss += weight * d;
      for (size_t k = 0; k < laws.places.size(); ++k) {
        gradients[i].by_candidate[laws.places[k]] =
            weight / temperature * (by_log_q[k] - exact_exp(laws.log_q[k]) * sum);
      }
      metrics["divergence"].add(d);
    }
  }
  return {};
}

}  // namespace mainspring
