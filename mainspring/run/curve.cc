#include "mainspring/run/curve.h"

#include <algorithm>
#include <cmath>

#include "mainspring/base/check.h"

namespace mainspring {

Curve::Curve(int64_t max_points) : max_points_(max_points) {
  MS_CHECK(max_points >= 2, "a curve needs at least two points");
}

void Curve::add(int64_t step, double value) {
  if (!std::isfinite(value)) return;
  open_ = merge(open_, Bin{step, value, value, value, 1});
  if (open_.count < stride_) return;
  bins_.push_back(open_);
  open_ = Bin{};
  if (static_cast<int64_t>(bins_.size()) < max_points_) return;
  size_t kept = 0;
  for (size_t i = 0; i + 1 < bins_.size(); i += 2) bins_[kept++] = merge(bins_[i], bins_[i + 1]);
  if (bins_.size() % 2 == 1) open_ = bins_.back();  // half a bin of the new stride
  bins_.resize(kept);
  stride_ *= 2;
}

void Curve::clear() {
  bins_.clear();
  open_ = Bin{};
  stride_ = 1;
}

std::vector<Curve::Point> Curve::points() const {
  std::vector<Point> out;
  out.reserve(bins_.size() + 1);
  for (const Bin& bin : bins_) out.push_back(point_of(bin));
  if (open_.count > 0) out.push_back(point_of(open_));
  return out;
}

Curve::Bin Curve::merge(const Bin& a, const Bin& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  return {std::max(a.step, b.step), a.sum + b.sum, std::min(a.min, b.min), std::max(a.max, b.max),
          a.count + b.count};
}

Curve::Point Curve::point_of(const Bin& bin) {
  return {bin.step, bin.sum / static_cast<double>(bin.count), bin.min, bin.max};
}

}  // namespace mainspring
