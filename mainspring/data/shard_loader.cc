#include "mainspring/data/shard_loader.h"

#include <algorithm>
#include <cmath>

#include "mainspring/io/checksum.h"

namespace mainspring {
namespace {

uint64_t sum_of(const std::string& text) { return checksum128(text.data(), text.size()).low; }

DataState start_of(const ShardLoaderOptions& options,
                   const std::vector<std::shared_ptr<const ShardSet>>& sets,
                   const SourceDraw& draw) {
  const std::string order = std::to_string(options.seed) + " " + std::to_string(options.shuffle) +
                            " " + std::to_string(options.window_tokens) + " " +
                            std::to_string(options.across_documents);
  std::string all = order;
  DataState start;
  for (size_t s = 0; s < sets.size(); ++s) {
    const std::string own = " " + sets[s]->index().digest();
    all += own + " " + std::to_string(draw.count(static_cast<int>(s)));
    start.sources.push_back(sum_of(order + own));
  }
  start.data_digest = sum_of(all);
  start.cursors.assign(sets.size(), 0);
  start.mixture = {{0, shares_of(draw, sets.size())}};
  return start;
}

}  // namespace

Result<std::unique_ptr<ShardLoader>> ShardLoader::open(const ShardLoaderOptions& options) {
  if (options.folders.empty()) return invalid_argument("no folder of token shards");
  if (options.window_tokens < 1) return invalid_argument("tokens of a window: expected 1 or more");
  if (!options.weights.empty() && options.weights.size() != options.folders.size()) {
    return invalid_argument("weights: expected one per folder");
  }
  std::unique_ptr<ShardLoader> loader(new ShardLoader(options));
  std::vector<double> weights = options.weights;
  const auto is_bad = [](double weight) { return !(weight >= 0) || std::isinf(weight); };
  if (!weights.empty() && (std::any_of(weights.begin(), weights.end(), is_bad) ||
                           *std::max_element(weights.begin(), weights.end()) == 0)) {
    return invalid_argument("weights: expected numbers >= 0, at least one of them > 0");
  }
  for (const std::string& folder : options.folders) {
    MS_ASSIGN_OR_RETURN(auto set, ShardSet::open(folder));
    loader->windows_.emplace_back(set, ShardSplit::kTrain, options.window_tokens);
    if (loader->windows_.back().count() == 0) {
      return invalid_argument(folder + ": has no token to predict");
    }
    if (options.weights.empty()) {
      weights.push_back(static_cast<double>(loader->windows_.back().count()));
    }
    loader->sets_.push_back(std::move(set));
  }
  loader->draw_.emplace(weights, options.seed);
  loader->used_.assign(loader->sets_.size(), 0);
  loader->state_ = start_of(options, loader->sets_, *loader->draw_);
  loader->mixture_.emplace(loader->state_.mixture, options.seed);
  return loader;
}

Result<std::vector<Datum>> ShardLoader::next(int64_t n) {
  std::vector<Datum> datums;
  DataState state = state_;
  std::vector<int64_t> used = used_;
  for (int64_t i = 0; i < n; ++i) {
    const int source = (*mixture_)(state.next_sample);
    const auto s = static_cast<size_t>(source);
    const int64_t count = windows_[s].count();
    const int64_t cursor = state.cursors[s];
    const auto epoch = static_cast<uint32_t>(cursor / count);
    int64_t window = cursor % count;
    if (options_.shuffle) {
      window = KeyedPermutation(count, options_.seed, OrderPurpose::kEpoch,
                                static_cast<uint32_t>(source), epoch)(window);
    }
    MS_ASSIGN_OR_RETURN(const auto sequences, windows_[s].read(window, options_.across_documents));
    uint64_t part = 0;
    for (const std::vector<int32_t>& tokens : sequences) {
      Datum& datum = datums.emplace_back(
          make_next_token_datum(tokens, std::vector<uint8_t>(tokens.size(), 1)));
      // Each sequence has random numbers of its own.
      datum.sample_index = (state.next_sample << 16) | part++;
      datum.epoch = epoch;
    }
    ++state.next_sample;
    ++state.cursors[s];
    ++used[s];
  }
  state_ = std::move(state);
  used_ = std::move(used);
  return datums;
}

Status ShardLoader::restore(const DataState& state) {
  std::vector<std::string> names;
  for (const auto& set : sets_) names.push_back(set->folder());
  MS_ASSIGN_OR_RETURN(state_, continued(state, state_, names));
  mixture_.emplace(state_.mixture, options_.seed);
  used_.assign(sets_.size(), 0);
  return {};
}

Result<SampleSource::HeldOut> ShardLoader::held_out(int64_t max_rows) const {
  HeldOut out;
  for (const auto& set : sets_) {
    const ShardWindows windows(set, ShardSplit::kHeldOut, options_.window_tokens);
    for (int64_t w = 0; w < windows.count(); ++w) {
      MS_ASSIGN_OR_RETURN(const auto sequences, windows.read(w, options_.across_documents));
      for (const std::vector<int32_t>& tokens : sequences) {
        if (max_rows > 0 && static_cast<int64_t>(out.datums.size()) >= max_rows) return out;
        out.datums.push_back(make_next_token_datum(tokens, std::vector<uint8_t>(tokens.size(), 1)));
        out.datums.back().sample_index = out.datums.size() - 1;
      }
    }
  }
  return out;
}

std::vector<SourceReport> ShardLoader::report() const {
  std::vector<SourceReport> reports;
  for (size_t s = 0; s < sets_.size(); ++s) {
    const ShardWindows held(sets_[s], ShardSplit::kHeldOut, options_.window_tokens);
    SourceReport report;
    report.name = sets_[s]->folder();
    report.num_rows = windows_[s].count() + held.count();
    report.num_held_out = held.count();
    report.share = static_cast<double>(draw_->count(static_cast<int>(s))) /
                   static_cast<double>(SourceDraw::kCycle);
    report.num_used = used_[s];
    report.epoch =
        static_cast<double>(state_.cursors[s]) / static_cast<double>(windows_[s].count());
    reports.push_back(std::move(report));
  }
  return reports;
}

int64_t ShardLoader::num_rows() const {
  int64_t n = 0;
  for (const ShardWindows& windows : windows_) n += windows.count();
  return n;
}

}  // namespace mainspring
