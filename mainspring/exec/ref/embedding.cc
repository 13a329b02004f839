// Rows of a table by token, and the gradient that adds rows back.
#include "mainspring/exec/ref/op.h"

namespace mainspring::ref {

// Inputs tokens (rows), table (v, d); output y (rows, d).
void embedding(const OpCall& call) {
  const Value& tokens = call.in(0);
  const Value table = call.parameter(1);
  Value& y = call.out(0);
  for (const Segment& segment : call.segments(tokens)) {
    for (int64_t r = segment.row_begin; r < segment.row_begin + segment.num_rows; ++r) {
      const auto token = static_cast<int64_t>(tokens.data[static_cast<size_t>(r)]);
      for (int64_t j = 0; j < y.width(); ++j) y.row(r)[j] = table.row(token)[j];
    }
  }
}

// Inputs tokens, dy (rows, d), acc (v, d); output acc.
void embedding_grad(const OpCall& call) {
  const Value& tokens = call.in(0);
  const Value& dy = call.in(1);
  Value& acc = call.out(0);
  for (const Segment& segment : call.segments(dy)) {
    for (int64_t r = segment.row_begin; r < segment.row_begin + segment.num_rows; ++r) {
      const auto token = static_cast<int64_t>(tokens.data[static_cast<size_t>(r)]);
      for (int64_t j = 0; j < dy.width(); ++j) acc.row(token)[j] += dy.row(r)[j];
    }
  }
}

// Input table (positions, d); output y (rows, d): the row of each row's position.
void position_embedding(const OpCall& call) {
  const Value table = call.parameter(0);
  Value& y = call.out(0);
  for (const Segment& segment : call.segments(y)) {
    for (int64_t i = 0; i < segment.num_rows; ++i) {
      const double* from = table.row(segment.position + i);
      for (int64_t j = 0; j < y.width(); ++j) y.row(segment.row_begin + i)[j] = from[j];
    }
  }
}

// Inputs dy (rows, d), acc (positions, d); output acc.
void position_embedding_grad(const OpCall& call) {
  const Value& dy = call.in(0);
  for (const Segment& segment : call.segments(dy)) {
    for (int64_t i = 0; i < segment.num_rows; ++i) {
      double* to = call.out(0).row(segment.position + i);
      for (int64_t j = 0; j < dy.width(); ++j) to[j] += dy.row(segment.row_begin + i)[j];
    }
  }
}

}  // namespace mainspring::ref
