// Muon: the orthogonalised momentum of one whole matrix (docs/exactness.md, rules 4, 5, 15).
//
// The one idea: Newton-Schulz is three products per iteration, and each is a linear that this
// executor has: x x^T is x against its own forward layout, h x is h against x's input-gradient
// layout. So its bits do not depend on threads or paths for the reason that a linear's do not; only
// the ending differs, alpha times the sums plus beta times a matrix, on the tile while it is in
// cache. A tall matrix is transposed first: the Gram matrix is of the smaller side.
#include <algorithm>
#include <cmath>
#include <utility>

#include "mainspring/base/bf16.h"
#include "mainspring/exec/cpu/linear_gemm.h"
#include "mainspring/exec/cpu/rows_of.h"
#include "mainspring/exec/cpu/tree_sum.h"
#include "mainspring/ir/graph.h"

namespace mainspring::cpu {
namespace {

/// y = round(alpha * product + beta * x), all (rows, columns).
struct ScaledSumHooks : GemmHooks {
  const Context* context = nullptr;
  float alpha = 1.0f;
  float beta = 0.0f;
  const void* x = nullptr;
  void* y = nullptr;
  int64_t columns = 0;

  void finish(const LinearKernels&, const GemmTile& tile) const {
    for (int r = 0; r < tile.rows; ++r) {
      const int64_t at = (tile.row + r) * columns + tile.column;
      rows_of(*context).scaled_sum(tile.columns, alpha, tile.c + r * tile.c_stride, beta,
                                   value_at(*context, x, at), value_at(*context, y, at));
    }
  }
};

/// A row-major matrix of the compute dtype.
struct Matrix {
  void* data = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
};

/// Memory of one orthogonalisation of an (n, m) matrix, n <= m. `base` null: only counts.
struct Room {
  void* x;
  void* next;
  void* gram;
  void* update;
  void* forward;     // layout of x, and of the Gram matrix
  void* input_grad;  // layout of x
  void* linear;
  float* sums;  // per row of the parameter
  size_t bytes = 0;

  Room(const Context& context, int64_t n, int64_t m, void* base) {
    char* const first = base == nullptr ? nullptr : align64(base);
    const auto take = [&](size_t size) {
      char* at = first == nullptr ? nullptr : first + bytes;
      bytes += (size + 63) / 64 * 64;
      return static_cast<void*>(at);
    };
    const auto value = static_cast<size_t>(value_bytes(context));
    const size_t matrix = static_cast<size_t>(n * m) * value;
    const size_t square = static_cast<size_t>(n * n) * value;
    x = take(matrix);
    next = take(matrix);
    gram = take(square);
    update = take(square);
    forward = take(packed_forward_bytes(context, n, m));
    input_grad = take(packed_input_grad_bytes(context, n, m));
    linear = take(linear_forward_scratch_bytes(context, n, m));
    sums = static_cast<float*>(take(static_cast<size_t>(std::max(n, m)) * sizeof(float)));
    bytes += 64;
  }
};

class Orthogonaliser {
 public:
  Orthogonaliser(const Context& context, const Room& room, int64_t n, int64_t m)
      : context_(context), room_(room), n_(n), m_(m) {}

  /// Five iterations; returns where the result lies, room.x or room.next.
  void* run() {
    Matrix x{room_.x, n_, m_};
    Matrix next{room_.next, n_, m_};
    const Matrix gram{room_.gram, n_, n_};
    const Matrix update{room_.update, n_, n_};
    const auto [a, b, c] = kNewtonSchulz;
    for (int step = 0; step < kNewtonSchulzSteps; ++step) {
      pack_weight(context_, view(x), room_.forward, room_.input_grad);
      product(x, room_.forward, 1.0f, 0.0f, gram, gram);
      pack_forward(context_, view(gram), room_.forward);
      product(gram, room_.forward, c, b, gram, update);
      product(update, room_.input_grad, 1.0f, a, x, next);
      std::swap(x, next);
    }
    return x.data;
  }

 private:
  WeightView view(const Matrix& x) const { return {context_.compute, x.data, x.rows, x.columns}; }

  /// y = round(alpha * left packed + beta * addend). Without beta the addend is not read.
  void product(const Matrix& left, const void* packed, float alpha, float beta,
               const Matrix& addend, const Matrix& y) {
    const LinearKernels& kernels = linear_kernels(context_);
    ScaledSumHooks hooks;
    hooks.context = &context_;
    hooks.alpha = alpha;
    hooks.beta = beta;
    // Values left from before could be NaN, and 0 x NaN is NaN: then x itself stands in.
    hooks.x = beta == 0.0f ? room_.x : addend.data;
    hooks.y = y.data;
    hooks.columns = y.columns;
    Gemm gemm;
    gemm.rows = left.rows;
    gemm.num_terms = 1;
    gemm.terms[0] = {left.data, left.columns};
    gemm.num_chunks = num_chunks(left.columns);
    gemm.plan_pairs = num_pairs(m_);
    gemm.num_outputs = 1;
    gemm.outputs[0].columns = y.columns;
    gemm.outputs[0].b[0] = packed;
    gemm.outputs[0].panel_bytes[0] = panel_bytes(kernels, left.columns);
    gemm.scratch = room_.linear;
    run_gemm(context_, gemm, hooks);
  }

  const Context& context_;
  const Room& room_;
  int64_t n_;
  int64_t m_;
};

template <typename Value>
void transpose_values(ThreadPool& pool, int64_t rows, int64_t columns, const Value* x, Value* y) {
  constexpr int64_t kBlock = 32;  // two blocks of 4-byte values: 8 KiB
  const int64_t blocks = (columns + kBlock - 1) / kBlock;
  pool.run((rows + kBlock - 1) / kBlock * blocks, [&](int64_t task, int) {
    const int64_t row = task / blocks * kBlock;
    const int64_t column = task % blocks * kBlock;
    const int64_t row_end = std::min(rows, row + kBlock);
    const int64_t column_end = std::min(columns, column + kBlock);
    for (int64_t j = column; j < column_end; ++j) {
      for (int64_t i = row; i < row_end; ++i) y[j * rows + i] = x[i * columns + j];
    }
  });
}

/// y (columns, rows) = x (rows, columns) transposed.
void transpose(const Context& context, int64_t rows, int64_t columns, const void* x, void* y) {
  if (context.compute == DType::kBF16) {
    transpose_values(*context.pool, rows, columns, static_cast<const uint16_t*>(x),
                     static_cast<uint16_t*>(y));
  } else {
    transpose_values(*context.pool, rows, columns, static_cast<const float*>(x),
                     static_cast<float*>(y));
  }
}

int64_t row_grain(int64_t columns) { return std::max<int64_t>(1, 16384 / columns); }

/// The momentum's update, its values rounded into x and divided by their norm.
void normalised_momentum(const Context& context, int64_t rows, int64_t columns,
                         const MuonStep& step, const float* grad, float* momentum, void* x,
                         float* sums) {
  const RowKernels& kernels = rows_of(context);
  ThreadPool& pool = *context.pool;
  parallel_pieces(pool, rows, row_grain(columns), [&](int64_t begin, int64_t end) {
    const int64_t at = begin * columns;
    kernels.muon_momentum((end - begin) * columns, step.grad_scale, step.momentum, step.nesterov,
                          grad + at, momentum + at, value_at(context, x, at));
  });
  sum_rows(pool, rows, columns, sums, [&](int64_t row, int64_t begin, int64_t n) {
    return kernels.squares_of_values(value_at(context, x, row * columns + begin), n);
  });
  float norm = std::sqrt(tree_sum(sums, rows));
  if (context.compute == DType::kBF16) norm = to_f32(to_bf16(norm));
  norm = std::max(norm, kMuonEps);
  parallel_pieces(pool, rows, row_grain(columns), [&](int64_t begin, int64_t end) {
    kernels.divide_values((end - begin) * columns, norm, value_at(context, x, begin * columns));
  });
}

}  // namespace

size_t muon_scratch_bytes(const Context& context, int64_t rows, int64_t columns) {
  return Room(context, std::min(rows, columns), std::max(rows, columns), nullptr).bytes;
}

void muon(const Context& context, int64_t rows, int64_t columns, const MuonStep& step,
          const float* grad, float* param, float* momentum, void* scratch) {
  const ComputeScope scope;
  const int64_t n = std::min(rows, columns);
  const int64_t m = std::max(rows, columns);
  const bool tall = rows > columns;
  const Room room(context, n, m, scratch);
  normalised_momentum(context, rows, columns, step, grad, momentum, tall ? room.next : room.x,
                      room.sums);
  if (tall) transpose(context, rows, columns, room.next, room.x);
  void* result = Orthogonaliser(context, room, n, m).run();
  if (tall) {
    void* const other = result == room.x ? room.next : room.x;
    transpose(context, n, m, result, other);
    result = other;
  }
  const float decay = 1.0f - step.lr * step.weight_decay;
  parallel_pieces(*context.pool, rows, row_grain(columns), [&](int64_t begin, int64_t end) {
    const int64_t at = begin * columns;
    rows_of(context).decayed_step((end - begin) * columns, decay, step.rate,
                                  value_at(context, result, at), param + at);
  });
}

}  // namespace mainspring::cpu
