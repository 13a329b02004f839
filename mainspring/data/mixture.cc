#include "mainspring/data/mixture.h"

#include <algorithm>
#include <cstdio>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

Status check_cursors(const DataState& state, size_t num_sources) {
  if (state.cursors.size() != num_sources) {
    return invalid_argument("data state: has " + std::to_string(state.cursors.size()) +
                            " cursors, but " + std::to_string(num_sources) + " sources");
  }
  for (const int64_t cursor : state.cursors) {
    if (cursor < 0) return invalid_argument("data state: a cursor is negative");
  }
  return {};
}

// Of a checkpoint that does not tell its sources apart: all must be as it was.
Status check_whole(const DataState& state, const DataState& now) {
  MS_RETURN_IF_ERROR(check_cursors(state, now.sources.size()));
  if (state.data_digest == now.data_digest) return {};
  return failed_precondition(
      "data state: the data is not what the state was taken with (rows, their order in the files, "
      "seed, shares or held-out rows differ)");
}

Status check_sources(const DataState& state, const DataState& now,
                     const std::vector<std::string>& names) {
  MS_RETURN_IF_ERROR(check_cursors(state, state.sources.size()));
  for (size_t s = 0; s < state.sources.size(); ++s) {
    const std::string which = "data state: source " + std::to_string(s + 1);
    if (s >= now.sources.size()) {
      return failed_precondition(which +
                                 " is gone; a source that is to give no more samples keeps its "
                                 "place and gets the weight 0");
    }
    if (state.sources[s] != now.sources[s]) {
      return failed_precondition(which + " (now " + names[s] +
                                 ") is not what the state was taken with (its rows, their order, "
                                 "the seed or the held-out rows differ); sources keep their places "
                                 "and new ones come behind them");
    }
  }
  return {};
}

// Whether `now` is the history of `state` and changes that come later.
bool goes_on(const DataState& state, const MixtureHistory& now) {
  const size_t n = state.mixture.size();
  return n <= now.size() && std::equal(state.mixture.begin(), state.mixture.end(), now.begin()) &&
         (n == now.size() || now[n].from_sample >= state.next_sample);
}

}  // namespace

MixtureDraw::MixtureDraw(const MixtureHistory& history, uint64_t seed) {
  MS_CHECK(!history.empty() && history[0].from_sample == 0, "a mixture begins at sample 0");
  for (const MixtureEntry& entry : history) {
    const std::vector<double> weights(entry.shares.begin(), entry.shares.end());
    draws_.emplace_back(entry.from_sample, SourceDraw(weights, seed));
  }
}

int MixtureDraw::operator()(uint64_t sample) const {
  size_t i = draws_.size() - 1;
  while (draws_[i].first > sample) --i;
  return draws_[i].second(sample);
}

Status check_mixture(const DataState& state) {
  uint64_t before = 0;
  for (size_t i = 0; i < state.mixture.size(); ++i) {
    const MixtureEntry& entry = state.mixture[i];
    if ((i == 0 && entry.from_sample != 0) || entry.from_sample < before) {
      return invalid_argument("samples must begin at 0 and not fall");
    }
    before = entry.from_sample;
    int64_t sum = 0;
    for (const int64_t share : entry.shares) {
      if (share < 0 || share > SourceDraw::kCycle)
        return invalid_argument("a share is out of range");
      sum += share;
    }
    if (sum != SourceDraw::kCycle || entry.shares.size() > state.sources.size()) {
      return invalid_argument("expected shares of at most " + std::to_string(state.sources.size()) +
                              " sources, " + std::to_string(SourceDraw::kCycle) + " together");
    }
  }
  return {};
}

const MixtureEntry& mixture_at(const MixtureHistory& history, uint64_t sample) {
  MS_CHECK(!history.empty() && history[0].from_sample == 0, "a mixture begins at sample 0");
  size_t i = history.size() - 1;
  while (history[i].from_sample > sample) --i;
  return history[i];
}

std::vector<int64_t> shares_of(const SourceDraw& draw, size_t num_sources) {
  std::vector<int64_t> shares;
  for (size_t s = 0; s < num_sources; ++s) shares.push_back(draw.count(static_cast<int>(s)));
  return shares;
}

Result<DataState> continued(const DataState& state, const DataState& now,
                            const std::vector<std::string>& names) {
  MS_RETURN_IF_ERROR(state.sources.empty() ? check_whole(state, now)
                                           : check_sources(state, now, names));
  DataState out = now;
  out.next_sample = state.next_sample;
  out.cursors = state.cursors;
  out.cursors.resize(now.sources.size(), 0);
  // A loader that goes back keeps the changes that came after: they will come again.
  if (state.mixture.empty() || goes_on(state, now.mixture)) return out;
  out.mixture = state.mixture;
  const std::vector<int64_t>& shares = now.mixture.back().shares;
  if (out.mixture.back().shares != shares) out.mixture.push_back({state.next_sample, shares});
  return out;
}

std::string mixture_text(const MixtureEntry& entry, const std::vector<std::string>& names) {
  std::string text;
  for (size_t s = 0; s < entry.shares.size(); ++s) {
    char share[32];
    std::snprintf(
        share, sizeof(share), " %.1f %%",
        100.0 * static_cast<double>(entry.shares[s]) / static_cast<double>(SourceDraw::kCycle));
    text += (text.empty() ? "" : ", ") + names[s] + share;
  }
  return text;
}

}  // namespace mainspring
