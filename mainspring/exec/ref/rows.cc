// Moving rows between the batch and the picks that reach the head.
#include "mainspring/exec/ref/op.h"

namespace mainspring::ref {

// Input x (rows, d); output y (picked, d): row picked[i] of x, zeros for -1.
void gather_rows(const OpCall& call) {
  const Value& x = call.in(0);
  for (size_t i = 0; i < call.table.picked.size(); ++i) {
    const int32_t row = call.table.picked[i];
    if (row < 0) continue;
    for (int64_t j = 0; j < x.width(); ++j)
      call.out(0).row(static_cast<int64_t>(i))[j] = x.row(row)[j];
  }
}

// Input dy (picked, d); output (rows, d): zeros, then row picked[i] = dy row i.
void scatter_rows(const OpCall& call) {
  const Value& dy = call.in(0);
  for (size_t i = 0; i < call.table.picked.size(); ++i) {
    const int32_t row = call.table.picked[i];
    if (row < 0) continue;
    for (int64_t j = 0; j < dy.width(); ++j)
      call.out(0).row(row)[j] = dy.row(static_cast<int64_t>(i))[j];
  }
}

}  // namespace mainspring::ref
