#include "mainspring/base/nearest.h"

#include <algorithm>
#include <numeric>

namespace mainspring {

size_t edit_distance(std::string_view a, std::string_view b) {
  // One row of the table at a time: row[j] is the distance of a's first i bytes to b's first j.
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  if (known.empty()) return "";
  return *std::min_element(known.begin(), known.end(),
                           [&](const std::string& a, const std::string& b) {
                             return edit_distance(name, a) < edit_distance(name, b);
                           });
}

}  // namespace mainspring
