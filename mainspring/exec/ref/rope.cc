// Rotary position embedding: each head's element i and i + n turn by the angle of the row's
// position.
#include "mainspring/exec/ref/op.h"

namespace mainspring::ref {

// Inputs x (rows, heads * c), table (positions, n, 2) of cos and sin; output y. `inverse` turns
// back.
void rope(const OpCall& call) {
  const auto& attrs = call.attrs<RopeAttrs>();
  const Value& x = call.in(0);
  const Value& table = call.in(1);
  Value& y = call.out(0);
  const int64_t half = table.width() / 2;
  for (const Segment& segment : call.segments(x)) {
    for (int64_t r = segment.row_begin; r < segment.row_begin + segment.num_rows; ++r) {
      const double* angles = table.row(attrs.first_row + segment.position + r - segment.row_begin);
      for (int64_t head = 0; head < attrs.heads; ++head) {
        const double* from = x.row(r) + head * attrs.head_width;
        double* to = y.row(r) + head * attrs.head_width;
        for (int64_t i = 0; i < half; ++i) {
          const double cos = angles[2 * i];
          const double sin = attrs.inverse ? -angles[2 * i + 1] : angles[2 * i + 1];
          to[i] = from[i] * cos - from[i + half] * sin;
          to[i + half] = from[i + half] * cos + from[i] * sin;
        }
        for (int64_t i = 2 * half; i < attrs.head_width; ++i) to[i] = from[i];
      }
    }
  }
}

}  // namespace mainspring::ref
