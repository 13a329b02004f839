// Returns and advantages along a trajectory: GAE, V-trace, lambda returns, n-step returns, UPGO.
//
// The one idea: each is one backward recursion over T steps, in f64, with the same description of
// an episode: a step's discount is 0 where it terminated, and `ends` marks where the recursion is
// cut although the value behind still counts (a time limit). Sizes are checked: all spans of a call
// have T elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mainspring {

/// T steps, oldest first.
struct EpisodeSteps {
  std::span<const double> rewards;      // got by step t
  std::span<const double> discounts;    // gamma, 0 where step t ended the episode for good
  std::span<const double> values;       // of the state before step t; lambda returns need none
  std::span<const double> next_values;  // of the state after step t: the true one, not a reset's
  std::span<const uint8_t> ends = {};   // 1: the next step is of another episode; empty: none is
};

/// A_t = delta_t + d_t lambda A_{t+1} with delta_t = r_t + d_t v'_t - v_t. Source: Schulman et al.
/// 2015, arXiv:1506.02438.
std::vector<double> gae(const EpisodeSteps& steps, double lambda);

struct VtraceOptions {
  double lambda = 1.0;
  double rho_bar = 1.0;     // bound of a step's importance weight in its own error
  double c_bar = 1.0;       // in what it hands back
  double pg_rho_bar = 1.0;  // in the policy's advantage
};

struct VtraceResult {
  std::vector<double> targets;     // vs_t
  std::vector<double> advantages;  // of the policy gradient
};

/// vs_t = v_t + e_t, e_t = rho_t (r_t + d_t v'_t - v_t) + d_t c_t e_{t+1}, rho_t = min(rho_bar,
/// w_t), c_t = lambda min(c_bar, w_t); advantage = min(pg_rho_bar, w_t) (r_t + d_t (lambda vs_{t+1}
/// + (1 - lambda) v_{t+1}) - v_t), with v'_t in place of both at an end. `ratios`: w, current over
/// behaviour probability. Source: Espeholt et al. 2018, arXiv:1802.01561.
VtraceResult vtrace(const EpisodeSteps& steps, std::span<const double> ratios,
                    const VtraceOptions& options);

/// G_t = r_t + d_t ((1 - l_t) v'_t + l_t G_{t+1}), with v'_t for G_{t+1} at an end. l = 1: the
/// discounted return. Source: Sutton & Barto 2018, section 12.1.
std::vector<double> lambda_returns(const EpisodeSteps& steps, std::span<const double> lambdas);

/// G_t = n rewards, discounted, and the value behind them; cut short at an end. Precondition: n >
/// 0.
std::vector<double> n_step_returns(const EpisodeSteps& steps, int64_t n);

/// Lambda returns with l_t = 1 where the next step did no worse than its value, r_{t+1} + d_{t+1}
/// v'_{t+1} >= v_{t+1}, else 0. Source: Vinyals et al. 2019 (AlphaStar), methods.
std::vector<double> upgo_returns(const EpisodeSteps& steps);

}  // namespace mainspring
