// Mixture: which source gives which sample, with every change there has been, and how a stream goes
// on when its sources or their weights have changed.
//
// The one idea: shares are written down with the sample from which they count, so the source of any
// sample, before a change or after it, is a pure function of (seed, history). Sources keep their
// places: their cursors go on, new ones come behind them and start at their first row.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/data/order.h"
#include "mainspring/data/sample_source.h"

namespace mainspring {

/// The source of each sample. Threads: immutable.
class MixtureDraw {
 public:
  /// Entries in the order of their first samples, the first at 0; of two at one sample the later
  /// counts.
  MixtureDraw(const MixtureHistory& history, uint64_t seed);
  /// Cost: about a microsecond.
  int operator()(uint64_t sample) const;

 private:
  std::vector<std::pair<uint64_t, SourceDraw>> draws_;
};

/// Errors: invalid argument for a history that is not one: it begins at sample 0, samples do not
/// fall, shares are 0 or more, some is more, and no entry has more of them than there are sources.
Status check_mixture(const DataState& state);

/// The entry that decides `sample`. Precondition: a history as above.
const MixtureEntry& mixture_at(const MixtureHistory& history, uint64_t sample);

/// The shares of `draw`, in places of its cycle.
std::vector<int64_t> shares_of(const SourceDraw& draw, size_t num_sources);

/// The state in which a loader that stands at `now` goes on from `state`: with the cursors of
/// `state`, 0 for sources that it does not know, and its history; a mixture of `now` that differs
/// from the last one counts from the next sample on. What the loader has already recorded of later
/// changes stays. `names`: of the loader's sources. Errors: invalid argument for cursors that are
/// negative or of another number; failed precondition if a source of `state` is not the same or
/// gone, naming it.
Result<DataState> continued(const DataState& state, const DataState& now,
                            const std::vector<std::string>& names);

/// "a.jsonl 75.0 %, b.jsonl 25.0 %".
std::string mixture_text(const MixtureEntry& entry, const std::vector<std::string>& names);

}  // namespace mainspring
