// TokenChooser: a row of logits to a token and its log-probabilities.
//
// The one idea (docs/exactness.md, rules 14, 19, 20): every processor keeps a prefix of the order
// (logit descending, id ascending); the law is the softmax of logit / temperature over that prefix;
// a token is one uniform number pushed through the law's inverse CDF in token-id order. All of it
// in f32 in the order written here, so a choice is a function of (logits, law, uniform) to the last
// bit.
//
// Definitions, in processor order, for logits l of n tokens:
//   constraint   l of tokens that are not allowed is minus infinity.
//   penalties    l of tokens that the sequence has already is changed (penalties.h); all below
//                speaks of the changed ones, and so do the law's log-probability and the order.
//                The raw log-probability is the model's own.
//   temperature  x_i = l_i / temperature, m = max x, e_i = exp(x_i - m).
//   top-k        keep the first k of the order.
//   top-p        keep the shortest prefix whose sum of e (added in order) reaches top_p * S, S
//   being the
//                sum of e over the tokens kept so far by rule 14; so the token that crosses is
//                kept.
//   min-p        keep the tokens before the first one with e < min_p (e of the best is 1).
//   law          log p_i = x_i - lse, lse by rule 14 over x with the others at minus infinity.
//   choice       e of tokens that are not kept is 0. The row is cut into the 8 segments of rule 14
//   with sums
//                s_0 .. s_7 (16 lanes and the fixed tree). t = u * T, T =
//                ((s0+s1)+(s2+s3))+((s4+s5)+(s6+s7)). From the root: with L the left half's sum, go
//                left if t < L, else t = t - L and go right. In the segment, c adds up e in
//                increasing id; the first token with t < c is chosen. Roundings can leave none:
//                then it is the last token of the segment with e > 0; a half whose sum is 0 is
//                never entered.
//   temperature 0  the first of the order; its log-probability under that law is 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mainspring/exec/executor.h"
#include "mainspring/sample/penalties.h"
#include "mainspring/sample/token_constraint.h"

namespace mainspring {

/// The law's parameters; see SamplingParams.
struct Law {
  float temperature = 1.0f;
  int32_t top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  Penalties penalties;
};

struct Choice {
  int32_t token = -1;        // -1: the logits are not finite
  float logprob = 0.0f;      // under the law
  float raw_logprob = 0.0f;  // l_token - lse(l)
  int32_t kept = 0;          // size of the prefix
  float raw_lse = 0.0f;
};

/// A function with scratch memory. Allocates nothing after its first call (but for orders of more
/// tokens than before). Threads: one each.
class TokenChooser {
 public:
  TokenChooser(const RowMath& math, int64_t vocabulary);

  /// `uniform` in [0, 1), ignored when greedy; `history` is what penalties look at and may be null
  /// without them; `allowed` is the constraint, null for none. Precondition: logits.size() is the
  /// vocabulary, and a token is allowed. Cost: three to six passes over the row, 5 us each at
  /// 49,152 tokens.
  Choice choose(std::span<const float> logits, const Law& law, float uniform,
                const TokenHistory* history = nullptr, const AllowedTokens* allowed = nullptr);

  /// Ids of the first `count` tokens of the order (logit descending, id ascending), fewer if there
  /// are not as many. Valid until the next call.
  std::span<const int32_t> best(std::span<const float> logits, int32_t count);

 private:
  void choose_from(std::span<const float> logits, const RowMath::Stats* stats, const Law& law,
                   float uniform, Choice& choice);
  void choose_kept(const float* x, Choice& choice, float uniform);
  void clear_kept(int32_t count);
  int32_t num_kept(std::span<const float> logits, const Law& law, float sum);
  void start_order(std::span<const float> logits, float temperature);
  void need_order(std::span<const float> logits, int32_t count);

  const RowMath& math_;
  int64_t vocabulary_;
  std::vector<float> changed_;  // by constraint and penalties; empty until needed
  std::vector<float> x_;        // tempered
  std::vector<float> e_;
  std::vector<float> kept_x_;   // minus infinity but while a cut law is used
  std::vector<float> kept_e_;   // zeros but while a cut law is used
  std::vector<int32_t> order_;  // a prefix of the order, sorted
  float best_logit_ = 0.0f;
  float depth_ = 0.0f;  // the next prefix to try: logits >= best_logit_ - depth_
};

/// The inverse CDF defined above over e (>= 0, not all 0), and T.
int32_t choose_by_cdf(std::span<const float> e, float uniform);
/// T of the choice: the sum that RowMath::stats gives for the same exponentials.
float segmented_sum(std::span<const float> e);

/// The uniform number of a token (rule 18): in [0, 1), a multiple of 2^-24.
float token_uniform(uint64_t seed, uint32_t sample, uint32_t token_index);

/// The seed of a request without one: a function of the run's seed and the request's place, below
/// 2^53 so that every JSON reader keeps it.
uint64_t draw_seed(uint64_t run_seed, int64_t place);

}  // namespace mainspring
