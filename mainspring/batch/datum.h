// Datum: one sequence with what to learn from it, the unit that data/, clients and requests hand
// over.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mainspring {

/// Datum::role in preference groups.
inline constexpr int32_t kChosen = 1;
inline constexpr int32_t kRejected = 2;
inline constexpr int32_t kMismatched = 3;  // kto: a prompt with another prompt's answer

/// One sequence. Position t predicts targets[t]; weights[t] == 0 means that nothing is learned
/// there. Sizes: tokens, targets, weights and every per-token input are equally long.
struct Datum {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;  // usually tokens shifted left by one
  std::vector<float> weights;
  std::map<std::string, std::vector<float>> inputs;  // further per-token inputs of a loss, by name
  /// Further targets of every position, k of them: what a teacher's distribution is given over.
  /// With k = the vocabulary it is whole. Distinct within a position; -1: none. Not looked at where
  /// weights[t] is 0.
  std::vector<int32_t> candidates;       // (tokens, k)
  std::vector<float> candidate_weights;  // (tokens, k); empty for losses that need none
  int64_t group = -1;                    // for losses over groups; -1: alone
  int32_t role = 0;                      // within its group, by the loss: kChosen, kRejected, ...
  uint64_t sample_index = 0;  // global sample number: the key of its random numbers (rule 18)
  uint32_t epoch = 0;
};

/// The next-token datum of a token sequence with a mask over its tokens: targets are the tokens
/// shifted left, weights[t] = mask[t + 1]; the last token only predicts nothing, so the datum is
/// one shorter.
Datum make_next_token_datum(const std::vector<int32_t>& tokens, const std::vector<uint8_t>& mask);

}  // namespace mainspring
