#include "mainspring/batch/datum.h"

#include "mainspring/base/check.h"

namespace mainspring {

Datum make_next_token_datum(const std::vector<int32_t>& tokens, const std::vector<uint8_t>& mask) {
  MS_CHECK(tokens.size() == mask.size(), "one mask entry per token");
  Datum datum;
  if (tokens.size() < 2) return datum;
  datum.tokens.assign(tokens.begin(), tokens.end() - 1);
  datum.targets.assign(tokens.begin() + 1, tokens.end());
  datum.weights.assign(mask.begin() + 1, mask.end());
  return datum;
}

}  // namespace mainspring
