#include "mainspring/data/corpus.h"

#include <algorithm>
#include <cmath>

namespace mainspring {
namespace {

Status check_options(const DataOptions& options) {
  if (options.sources.empty()) return invalid_argument("data: names no files");
  if (options.sources.size() > 1024) return invalid_argument("data: more than 1,024 sources");
  if (!(options.held_out_fraction >= 0.0 && options.held_out_fraction < 1.0)) {
    return invalid_argument("data: the held-out fraction must be in [0, 1), got " +
                            std::to_string(options.held_out_fraction));
  }
  if (!(options.stall_timeout_s > 0))
    return invalid_argument("data: the stall timeout must be positive");
  if (options.prefetch_samples < 0) return invalid_argument("data: prefetch must not be negative");
  const auto weighted = [](const DataSource& source) { return source.weight != 0.0; };
  const auto num_weighted = std::count_if(options.sources.begin(), options.sources.end(), weighted);
  for (const DataSource& source : options.sources) {
    const std::string name =
        source.name.empty() && !source.files.empty() ? source.files[0] : source.name;
    if (source.files.empty()) return invalid_argument("data source '" + name + "': names no files");
    if (num_weighted == 0) continue;
    if (!std::isfinite(source.weight) || source.weight < 0) {
      return invalid_argument("data source '" + name + "': expected a weight of 0 or more, got " +
                              std::to_string(source.weight));
    }
  }
  return {};
}

}  // namespace

Status Corpus::open_sources(const DataOptions& options, const ReadOptions& read_options) {
  for (const DataSource& wanted : options.sources) {
    Source source;
    source.name = wanted.name.empty() ? wanted.files[0] : wanted.name;
    MS_ASSIGN_OR_RETURN(source.rows, RowList::open(wanted.files, read_options));
    const int64_t n = source.rows->num_rows();
    if (options.held_out_fraction > 0) {
      source.num_held_out =
          std::max<int64_t>(1, std::llround(options.held_out_fraction * static_cast<double>(n)));
      if (source.num_held_out >= n) {
        return invalid_argument("data source '" + source.name + "': holding out " +
                                std::to_string(source.num_held_out) + " of " + std::to_string(n) +
                                " rows leaves none to train on");
      }
    }
    sources_.push_back(std::move(source));
  }
  return {};
}

Result<std::shared_ptr<const Corpus>> Corpus::open(const DataOptions& options,
                                                   const ReadOptions& read_options) {
  MS_RETURN_IF_ERROR(check_options(options));
  auto corpus = std::make_shared<Corpus>();
  MS_RETURN_IF_ERROR(corpus->open_sources(options, read_options));
  corpus->seed_ = options.seed;
  corpus->shuffle_ = options.shuffle;
  std::vector<double> weights;
  for (const DataSource& source : options.sources) weights.push_back(source.weight);
  if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; })) {
    for (size_t s = 0; s < weights.size(); ++s)
      weights[s] = static_cast<double>(corpus->sources_[s].num_train());
  }
  corpus->draw_.emplace(weights, options.seed);
  const std::string order = "order 1 seed " + std::to_string(options.seed) +
                            (options.shuffle ? " shuffled" : " in file order");
  std::string identity = order;
  DataState& start = corpus->start_;
  for (size_t s = 0; s < weights.size(); ++s) {
    const Source& source = corpus->sources_[s];
    const std::string rows = "; rows " + source.rows->digest().hex() + " " +
                             std::to_string(source.rows->num_rows()) + " held out " +
                             std::to_string(source.num_held_out);
    identity += rows + " share " + std::to_string(corpus->draw_->count(static_cast<int>(s)));
    const std::string own = order + rows;
    start.sources.push_back(checksum128(own.data(), own.size()).low);
  }
  start.data_digest = checksum128(identity.data(), identity.size()).low;
  start.cursors.assign(weights.size(), 0);
  start.mixture = {{0, shares_of(*corpus->draw_, weights.size())}};
  return std::shared_ptr<const Corpus>(std::move(corpus));
}

std::vector<std::string> Corpus::names() const {
  std::vector<std::string> names;
  for (const Source& source : sources_) names.push_back(source.name);
  return names;
}

int64_t Corpus::train_row(int source, int64_t cursor) const {
  const Source& from = sources_[source];
  const int64_t n = from.num_train();
  const int64_t place = cursor % n;
  if (!shuffle_) return place;  // the held-out rows are the last ones
  const KeyedPermutation order(n, seed_, OrderPurpose::kEpoch, static_cast<uint32_t>(source),
                               epoch_of(source, cursor));
  const int64_t index = order(place);
  if (from.num_held_out == 0) return index;
  const KeyedPermutation split(from.rows->num_rows(), seed_, OrderPurpose::kHeldOut,
                               static_cast<uint32_t>(source), 0);
  return split(from.num_held_out + index);
}

int64_t Corpus::held_out_row(int source, int64_t i) const {
  const Source& from = sources_[source];
  if (!shuffle_) return from.num_train() + i;
  const KeyedPermutation split(from.rows->num_rows(), seed_, OrderPurpose::kHeldOut,
                               static_cast<uint32_t>(source), 0);
  return split(i);
}

}  // namespace mainspring
