// Norms, rotary embedding, elementwise operations and row moves: how they are split over threads.

#include <algorithm>
#include <array>
#include <cstring>

#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/cpu/row_walk.h"
#include "mainspring/exec/cpu/rows_of.h"

namespace mainspring::cpu {
namespace {

/// Elements a thread takes at once: large against the cost of handing out, small against a cache.
constexpr int64_t kElementGrain = 16384;

int64_t rows_per_piece(int64_t row_elements) {
  return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, row_elements));
}

const ActivationKernels& kernels_of(const Context& context, Activation f) {
  return f == Activation::kGelu ? rows_of(context).gelu : rows_of(context).silu;
}

}  // namespace

void rms_norm_forward(const Context& context, const NormShape& shape, int64_t rows, const void* x,
                      const void* w, void* y) {
  const int64_t groups = shape.row_elements / shape.width;
  parallel_pieces(
      *context.pool, rows, rows_per_piece(shape.row_elements), [&](int64_t begin, int64_t end) {
        const int64_t offset = begin * shape.row_elements;
        rows_of(context).rms_norm((end - begin) * groups, shape.width, shape.eps, shape.plus_one,
                                  value_at(context, x, offset), w, value_at(context, y, offset));
      });
}

void rms_norm_grad(const Context& context, const NormShape& shape, int64_t rows, const void* x,
                   const void* w, const void* dy, void* dx, float* dw_acc, const RowTable& table) {
  const RowKernels& kernels = rows_of(context);
  const int64_t row_elements = shape.row_elements;
  const int64_t groups = row_elements / shape.width;
  // The weight's fold needs each group's inverse root: kept for a batch of rows, on the stack.
  std::array<float, 4096> inverses;
  const int64_t batch = std::max<int64_t>(1, static_cast<int64_t>(inverses.size()) / groups);
  for (int64_t first = 0; first < rows; first += batch) {
    const int64_t last = std::min(rows, first + batch);
    parallel_pieces(
        *context.pool, last - first, rows_per_piece(row_elements), [&](int64_t begin, int64_t end) {
          const int64_t offset = (first + begin) * row_elements;
          kernels.rms_norm_grad((end - begin) * groups, shape.width, shape.eps, shape.plus_one,
                                value_at(context, x, offset), w, value_at(context, dy, offset),
                                value_at(context, dx, offset), inverses.data() + begin * groups);
        });
    if (dw_acc == nullptr) continue;
    parallel_pieces(*context.pool, shape.width, 64, [&](int64_t column_begin, int64_t column_end) {
      walk_rows(table, first, last, [&](const Segment* segment, int64_t begin, int64_t end) {
        if (segment == nullptr) return;
        kernels.rms_norm_weight_grad((end - begin) * groups, shape.width, column_begin, column_end,
                                     value_at(context, x, begin * row_elements),
                                     value_at(context, dy, begin * row_elements),
                                     inverses.data() + (begin - first) * groups, dw_acc);
      });
    });
  }
}

void layer_norm_forward(const Context& context, const NormShape& shape, int64_t rows, const void* x,
                        const void* w, const void* b, void* y) {
  parallel_pieces(*context.pool, rows, rows_per_piece(shape.width),
                  [&](int64_t begin, int64_t end) {
                    const int64_t offset = begin * shape.width;
                    rows_of(context).layer_norm(end - begin, shape.width, shape.eps,
                                                value_at(context, x, offset), w, b,
                                                value_at(context, y, offset));
                  });
}

void layer_norm_grad(const Context& context, const NormShape& shape, int64_t rows, const void* x,
                     const void* w, const void* dy, void* dx, float* dw_acc,
                     const RowTable& table) {
  const RowKernels& kernels = rows_of(context);
  const int64_t width = shape.width;
  // The weight's fold needs each row's moments: kept for a batch of rows, on the stack.
  constexpr int64_t kBatch = 2048;
  std::array<float, kBatch> means;
  std::array<float, kBatch> inverses;
  for (int64_t first = 0; first < rows; first += kBatch) {
    const int64_t last = std::min(rows, first + kBatch);
    parallel_pieces(
        *context.pool, last - first, rows_per_piece(width), [&](int64_t begin, int64_t end) {
          const int64_t offset = (first + begin) * width;
          kernels.layer_norm_grad(end - begin, width, shape.eps, value_at(context, x, offset), w,
                                  value_at(context, dy, offset), value_at(context, dx, offset),
                                  means.data() + begin, inverses.data() + begin);
        });
    if (dw_acc == nullptr) continue;
    parallel_pieces(*context.pool, width, 64, [&](int64_t column_begin, int64_t column_end) {
      walk_rows(table, first, last, [&](const Segment* segment, int64_t begin, int64_t end) {
        if (segment == nullptr) return;
        kernels.layer_norm_weight_grad(
            end - begin, width, column_begin, column_end, value_at(context, x, begin * width),
            value_at(context, dy, begin * width), means.data() + (begin - first),
            inverses.data() + (begin - first), dw_acc);
      });
    });
  }
}

void rope(const Context& context, const RopeShape& shape, int64_t rows, const float* cos_sin,
          const void* x, void* y, const RowTable& table) {
  const RowKernels& kernels = rows_of(context);
  const int64_t row_elements = shape.heads * shape.width;
  parallel_pieces(
      *context.pool, rows, rows_per_piece(row_elements), [&](int64_t first, int64_t last) {
        walk_rows(table, first, last, [&](const Segment* segment, int64_t begin, int64_t end) {
          if (segment == nullptr) {
            std::memset(value_at(context, y, begin * row_elements), 0,
                        static_cast<size_t>((end - begin) * row_elements * value_bytes(context)));
            return;
          }
          for (int64_t row = begin; row < end; ++row) {
            const int64_t position = segment->position + (row - segment->row_begin);
            kernels.rope(shape.heads, shape.width, shape.rotary, cos_sin + position * shape.rotary,
                         shape.inverse, value_at(context, x, row * row_elements),
                         value_at(context, y, row * row_elements));
          }
        });
      });
}

void activation_forward(const Context& context, Activation f, int64_t n, const void* x, void* y) {
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    kernels_of(context, f)
        .forward(end - begin, value_at(context, x, begin), value_at(context, y, begin));
  });
}

void activation_grad(const Context& context, Activation f, int64_t n, const void* x, const void* dy,
                     void* dx) {
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    kernels_of(context, f)
        .grad(end - begin, value_at(context, x, begin), value_at(context, dy, begin),
              value_at(context, dx, begin));
  });
}

void gated_forward(const Context& context, Activation f, int64_t n, const void* gate,
                   const void* up, void* y) {
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    kernels_of(context, f)
        .mul(end - begin, value_at(context, gate, begin), value_at(context, up, begin),
             value_at(context, y, begin));
  });
}

void gated_grad(const Context& context, Activation f, int64_t n, const void* gate, const void* up,
                const void* dy, void* dgate, void* dup) {
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    kernels_of(context, f)
        .mul_grad(end - begin, value_at(context, gate, begin), value_at(context, up, begin),
                  value_at(context, dy, begin), value_at(context, dgate, begin),
                  value_at(context, dup, begin));
  });
}

void scale_values(const Context& context, int64_t n, const void* x, float factor, void* y) {
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    rows_of(context).scale(end - begin, value_at(context, x, begin), factor,
                           value_at(context, y, begin));
  });
}

void soft_cap(const Context& context, int64_t n, const float* x, float cap, float* y) {
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    rows_of(context).soft_cap(x + begin, end - begin, cap, y + begin);
  });
}

void multiply(const Context& context, int64_t n, const void* a, const void* b, void* y) {
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    rows_of(context).multiply(end - begin, value_at(context, a, begin), value_at(context, b, begin),
                              value_at(context, y, begin));
  });
}

void add_many(const Context& context, int64_t n, std::span<const void* const> terms, void* y) {
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    rows_of(context).add_many(begin, end, terms.data(), static_cast<int64_t>(terms.size()), y);
  });
}

void gather_rows(const Context& context, int64_t d, const void* x, void* y, const RowTable& table) {
  const auto row_bytes = static_cast<size_t>(d * value_bytes(context));
  const auto picked = static_cast<int64_t>(table.picked.size());
  parallel_pieces(*context.pool, picked, rows_per_piece(d), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = table.picked[static_cast<size_t>(i)];
      void* out = value_at(context, y, i * d);
      if (row < 0) {
        std::memset(out, 0, row_bytes);
      } else {
        std::memcpy(out, value_at(context, x, row * d), row_bytes);
      }
    }
  });
}

void scatter_rows(const Context& context, int64_t rows, int64_t d, const void* dy, void* y,
                  const RowTable& table) {
  const auto row_bytes = static_cast<size_t>(d * value_bytes(context));
  parallel_pieces(*context.pool, rows, rows_per_piece(d), [&](int64_t begin, int64_t end) {
    std::memset(value_at(context, y, begin * d), 0, static_cast<size_t>(end - begin) * row_bytes);
  });
  const auto picked = static_cast<int64_t>(table.picked.size());
  parallel_pieces(*context.pool, picked, rows_per_piece(d), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = table.picked[static_cast<size_t>(i)];
      if (row >= 0)
        std::memcpy(value_at(context, y, row * d), value_at(context, dy, i * d), row_bytes);
    }
  });
}

void accumulate(const Context& context, int64_t n, const float* x, float* y) {
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    rows_of(context).accumulate(end - begin, x + begin, y + begin);
  });
}

}  // namespace mainspring::cpu
