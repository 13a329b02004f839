#include "mainspring/train/spike_guard.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

namespace mainspring {
namespace {

constexpr double kLeastSpread = 0.01;  // of the median

double median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle),
                   values.end());
  return values[middle];
}

}  // namespace

double SpikeGuard::limit() const {
  if (factor_ <= 0 || static_cast<int64_t>(losses_.size()) < window_) {
    return std::numeric_limits<double>::infinity();
  }
  const double center = median({losses_.begin(), losses_.end()});
  std::vector<double> distances;
  for (double loss : losses_) distances.push_back(std::abs(loss - center));
  return center + factor_ * std::max(median(distances), kLeastSpread * std::abs(center));
}

void SpikeGuard::note(double loss) {
  losses_.push_back(loss);
  if (static_cast<int64_t>(losses_.size()) > window_) losses_.pop_front();
}

std::string SpikeGuard::state() const {
  std::string text;
  for (double loss : losses_) text += std::to_string(std::bit_cast<uint64_t>(loss)) + " ";
  return text;
}

Status SpikeGuard::restore(const std::string& state) {
  std::istringstream in(state);
  std::deque<double> losses;
  for (uint64_t bits = 0; in >> bits;) losses.push_back(std::bit_cast<double>(bits));
  if (!in.eof()) return data_loss("the spike guard's losses are no list of numbers");
  losses_ = std::move(losses);
  return {};
}

}  // namespace mainspring
