#include "mainspring/data/data_feature.h"

#include <algorithm>
#include <array>

namespace mainspring {

bool is_url(std::string_view path) {
  constexpr std::array<std::string_view, 4> kSchemes = {"s3://", "gs://", "http://", "https://"};
  return std::any_of(kSchemes.begin(), kSchemes.end(),
                     [&](std::string_view scheme) { return path.starts_with(scheme); });
}

int64_t ParquetFile::num_rows() const {
  int64_t n = 0;
  for (const Group& group : groups_) n += group.num_rows;
  return n;
}

bool ParquetFile::has_column(std::string_view name) const {
  return std::any_of(columns_.begin(), columns_.end(),
                     [&](const Column& column) { return column.name == name; });
}

std::string ParquetFile::column_names() const {
  std::string names;
  for (const Column& column : columns_) names += (names.empty() ? "" : ", ") + column.name;
  return names;
}

}  // namespace mainspring
