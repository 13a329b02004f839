// Curve: a metric over steps in bounded memory.
//
// The one idea: when the points outgrow their limit, neighbours merge in pairs and the stride
// doubles; a point keeps the mean and the extremes of its steps, so a spike stays visible however
// long the run.
#pragma once

#include <cstdint>
#include <vector>

namespace mainspring {

class Curve {
 public:
  struct Point {
    int64_t step = 0;  // the last one that went in
    double mean = 0.0;
    double min = 0.0;
    double max = 0.0;
  };

  /// `max_points` >= 2.
  explicit Curve(int64_t max_points);

  /// A value that is not finite is left out.
  void add(int64_t step, double value);
  void clear();

  /// Merged points, then the unfinished one.
  std::vector<Point> points() const;
  int64_t stride() const { return stride_; }

 private:
  struct Bin {
    int64_t step = 0;
    double sum = 0.0;
    double min = 0.0;
    double max = 0.0;
    int64_t count = 0;
  };
  static Bin merge(const Bin& a, const Bin& b);
  static Point point_of(const Bin& bin);

  int64_t max_points_;
  int64_t stride_ = 1;
  std::vector<Bin> bins_;
  Bin open_;
};

}  // namespace mainspring
