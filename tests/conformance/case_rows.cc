#include "tests/conformance/case_rows.h"

namespace mainspring::conformance {

Rows make_rows(std::string name, const std::vector<Sequence>& sequences) {
  Rows rows;
  rows.name = std::move(name);
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& s = sequences[i];
    const Segment segment{.row_begin = rows.num_rows,
                          .num_rows = s.length,
                          .position = s.position,
                          .adapter_slot = s.slot,
                          .cache_sequence = s.cache_sequence,
                          .epoch = 1,
                          .sample_index = 100 + i};
    rows.segments.push_back(segment);
    Segment picks = segment;
    picks.row_begin = static_cast<int32_t>(rows.picked.size());
    picks.num_rows = s.length - 1;
    if (picks.num_rows > 0) rows.pick_segments.push_back(picks);
    for (int32_t r = 1; r < s.length; ++r) rows.picked.push_back(rows.num_rows + r);
    if (rows.picked.size() % 2 == 1) rows.picked.push_back(-1);
    rows.num_rows += s.length;
    // The last sequence keeps its odd end, so that a layout may have an odd number of rows.
    if (rows.num_rows % 2 == 1 && i + 1 < sequences.size()) ++rows.num_rows;
  }
  return rows;
}

const std::vector<Rows>& standard_rows() {
  static const std::vector<Rows> rows{
      make_rows("no_rows", {}),
      make_rows("one_row", {{.length = 1, .slot = 0}}),
      make_rows("packed", {{.length = 5, .slot = 0},
                           {.length = 2},
                           {.length = 1, .slot = 1},
                           {.length = 33, .slot = 0}}),
  };
  return rows;
}

const Rows& small_rows() {
  static const Rows rows =
      make_rows("small", {{.length = 3, .slot = 0}, {.length = 2}, {.length = 4, .slot = 1}});
  return rows;
}

}  // namespace mainspring::conformance
