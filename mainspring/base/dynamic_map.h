// The two code books of 8-bit optimizer states: what a code between 0 and 255 stands for.
//
// The one idea: "dynamic tree quantisation" cuts (0, 1] into seven decades, the upper ones more
// finely: n_d = 2^d parts of equal length in decade d (signed, either side of zero) or 2^(d + 1)
// (unsigned), each represented by its middle, and 0 and 1 themselves:
//   level(d, j) = 10^(d - 6) (0.1 + 0.9 (j + 1/2) / n_d),  d = 0 ... 6, 0 <= j < n_d.
// Codes number the levels in increasing order. Computed in f64, rounded once to f32.
// Source: Dettmers et al. 2022, arXiv:2110.02861, sections 1.3 and 2.2.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace mainspring {

struct DynamicMap {
  std::array<float, 256> levels = {};
  /// Between neighbours: a value takes the code of the number of borders below it, so one on a
  /// border takes the lower level. The last is a filler that nothing exceeds.
  std::array<float, 256> borders = {};
};

constexpr DynamicMap make_dynamic_map(bool is_signed) {
  constexpr double kDecade[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0};
  DynamicMap map;
  size_t n = 0;
  map.levels[n++] = 0.0f;
  map.levels[n++] = 1.0f;
  for (int d = 0; d < 7; ++d) {
    const int parts = 1 << (is_signed ? d : d + 1);
    for (int j = 0; j < parts; ++j) {
      const double middle = 0.1 + 0.9 * (static_cast<double>(j) + 0.5) / static_cast<double>(parts);
      const float level = static_cast<float>(kDecade[d] * middle);
      map.levels[n++] = level;
      if (is_signed) map.levels[n++] = -level;
    }
  }
  std::sort(map.levels.begin(), map.levels.end());
  for (size_t i = 0; i + 1 < map.levels.size(); ++i) {
    const double sum = static_cast<double>(map.levels[i]) + static_cast<double>(map.levels[i + 1]);
    map.borders[i] = static_cast<float>(0.5 * sum);
  }
  map.borders.back() = 0x1.fffffep127f;
  return map;
}

/// Of the first moment.
inline constexpr DynamicMap kSignedMap = make_dynamic_map(true);
/// Of the second moment, which is not negative.
inline constexpr DynamicMap kUnsignedMap = make_dynamic_map(false);

/// The code of y in [-1, 1]: of the nearest level.
constexpr uint8_t dynamic_code(const DynamicMap& map, float y) {
  const auto end = map.borders.begin() + 255;
  return static_cast<uint8_t>(std::lower_bound(map.borders.begin(), end, y) - map.borders.begin());
}

}  // namespace mainspring
