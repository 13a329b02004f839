// AdamW, Lion and the gradient norm's sums: how they are split over threads, and into slices whose
// compact states (bf16, 8 bits) are widened to f32 in the first cache, moved, and stored again.
#include <algorithm>

#include "mainspring/base/dynamic_map.h"
#include "mainspring/base/philox.h"
#include "mainspring/exec/cpu/chunks.h"
#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/cpu/row_walk.h"
#include "mainspring/exec/cpu/rows_of.h"
#include "mainspring/exec/cpu/tree_sum.h"
#include "mainspring/ir/graph.h"

namespace mainspring::cpu {
namespace {

constexpr int64_t kElementGrain = 16384;
constexpr int64_t kSlice = 1024;  // elements: three f32 arrays of them leave half of a 32 KiB cache
static_assert(kElementGrain % kSlice == 0 && kSlice % kMomentBlock == 0 && kSlice % 32 == 0);

AdamwScalars scalars_of(const AdamwStep& s) {
  return {s.lr,
          s.beta1,
          s.beta2,
          s.eps,
          s.weight_decay,
          s.bias_correction1,
          s.bias_correction2_sqrt,
          s.grad_scale};
}

LionScalars scalars_of(const LionStep& s) {
  return {s.lr, s.beta1, s.beta2, s.weight_decay, s.grad_scale};
}

/// Calls f(begin, count) for the slices of n elements, on all threads.
template <typename F>
void each_slice(const Context& context, int64_t n, F f) {
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kSlice) f(i, std::min(kSlice, end - i));
  });
}

RoundingKey key_of(const StateRounding& rounding) {
  const PhiloxCounter words =
      philox4x32({static_cast<uint32_t>(rounding.step), 0, 0, 0}, philox_key(rounding.key));
  return {{words[0], words[1]}, 0};
}

/// Slices of up to three bf16 arrays of one parameter, widened to f32 and rounded back.
class Bf16Slices {
 public:
  Bf16Slices(const RowKernels& kernels, const RoundingKey& key, std::initializer_list<bf16*> arrays)
      : kernels_(kernels), key_(key) {
    for (bf16* array : arrays) arrays_[num_++] = reinterpret_cast<uint16_t*>(array);
  }

  void load(int64_t begin, int64_t n) {
    key_.first = begin;
    for (int a = 0; a < num_; ++a) {
      at_[a] = arrays_[a] + begin;
      values_[a] = f32_[a];
      kernels_.widen_bf16(n, at_[a], f32_[a]);
    }
  }
  float* operator[](int array) { return f32_[array]; }
  void store(int64_t n) { kernels_.round_states(n, key_, num_, values_, at_); }

 private:
  const RowKernels& kernels_;
  RoundingKey key_;
  int num_ = 0;
  uint16_t* arrays_[3] = {};
  uint16_t* at_[3] = {};
  const float* values_[3] = {};
  alignas(64) float f32_[3][kSlice];
};

constexpr CodeBook kSignedBook{kSignedMap.levels.data(), kSignedMap.borders.data(), false};
constexpr CodeBook kUnsignedBook{kUnsignedMap.levels.data(), kUnsignedMap.borders.data(), true};

/// A slice of a coded moment, decoded to f32 and encoded again block by block.
class CodedSlice {
 public:
  CodedSlice(const RowKernels& kernels, const CodedMoment& moment, const CodeBook& book)
      : kernels_(kernels), moment_(moment), book_(book) {}

  void load(int64_t begin, int64_t n) {
    each_block(begin, n, [&](int64_t at, int64_t count, float& largest) {
      kernels_.decode_moments(count, book_, largest, moment_.codes + begin + at, f32_ + at);
    });
  }
  float* values() { return f32_; }
  void store(int64_t begin, int64_t n) {
    each_block(begin, n, [&](int64_t at, int64_t count, float& largest) {
      largest = kernels_.encode_moments(count, book_, f32_ + at, moment_.codes + begin + at);
    });
  }

 private:
  template <typename F>
  void each_block(int64_t begin, int64_t n, F f) {
    for (int64_t at = 0; at < n; at += kMomentBlock) {
      f(at, std::min(kMomentBlock, n - at), moment_.largest[(begin + at) / kMomentBlock]);
    }
  }

  const RowKernels& kernels_;
  const CodedMoment& moment_;
  const CodeBook& book_;
  alignas(64) float f32_[kSlice];
};

/// move(m, v) moves a slice of the parameter and its two decoded moments.
template <typename F>
void with_coded_moments(const RowKernels& kernels, int64_t begin, int64_t n, const CodedMoment& m,
                        const CodedMoment& v, F move) {
  CodedSlice m_slice(kernels, m, kSignedBook);
  CodedSlice v_slice(kernels, v, kUnsignedBook);
  m_slice.load(begin, n);
  v_slice.load(begin, n);
  move(m_slice.values(), v_slice.values());
  m_slice.store(begin, n);
  v_slice.store(begin, n);
}

}  // namespace

void adamw(const Context& context, int64_t n, const AdamwStep& step, const float* grad,
           float* param, float* m, float* v) {
  const AdamwScalars scalars = scalars_of(step);
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    rows_of(context).adamw(end - begin, scalars, grad + begin, param + begin, m + begin, v + begin);
  });
}

void lion(const Context& context, int64_t n, const LionStep& step, const float* grad, float* param,
          float* m) {
  const LionScalars scalars = scalars_of(step);
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    rows_of(context).lion(end - begin, scalars, grad + begin, param + begin, m + begin);
  });
}

void adamw_bf16(const Context& context, int64_t n, const AdamwStep& step,
                const StateRounding& rounding, const float* grad, bf16* param, bf16* m, bf16* v) {
  const RowKernels& kernels = rows_of(context);
  const AdamwScalars scalars = scalars_of(step);
  const RoundingKey key = key_of(rounding);
  each_slice(context, n, [&](int64_t begin, int64_t count) {
    Bf16Slices slices(kernels, key, {param, m, v});
    slices.load(begin, count);
    kernels.adamw(count, scalars, grad + begin, slices[0], slices[1], slices[2]);
    slices.store(count);
  });
}

void lion_bf16(const Context& context, int64_t n, const LionStep& step,
               const StateRounding& rounding, const float* grad, bf16* param, bf16* m) {
  const RowKernels& kernels = rows_of(context);
  const LionScalars scalars = scalars_of(step);
  const RoundingKey key = key_of(rounding);
  each_slice(context, n, [&](int64_t begin, int64_t count) {
    Bf16Slices slices(kernels, key, {param, m});
    slices.load(begin, count);
    kernels.lion(count, scalars, grad + begin, slices[0], slices[1]);
    slices.store(count);
  });
}

void adamw_8bit(const Context& context, int64_t n, const AdamwStep& step, const float* grad,
                float* param, const CodedMoment& m, const CodedMoment& v) {
  const RowKernels& kernels = rows_of(context);
  const AdamwScalars scalars = scalars_of(step);
  each_slice(context, n, [&](int64_t begin, int64_t count) {
    with_coded_moments(kernels, begin, count, m, v, [&](float* m_values, float* v_values) {
      kernels.adamw(count, scalars, grad + begin, param + begin, m_values, v_values);
    });
  });
}

void adamw_8bit_bf16(const Context& context, int64_t n, const AdamwStep& step,
                     const StateRounding& rounding, const float* grad, bf16* param,
                     const CodedMoment& m, const CodedMoment& v) {
  const RowKernels& kernels = rows_of(context);
  const AdamwScalars scalars = scalars_of(step);
  const RoundingKey key = key_of(rounding);
  each_slice(context, n, [&](int64_t begin, int64_t count) {
    Bf16Slices slices(kernels, key, {param});
    slices.load(begin, count);
    with_coded_moments(kernels, begin, count, m, v, [&](float* m_values, float* v_values) {
      kernels.adamw(count, scalars, grad + begin, slices[0], m_values, v_values);
    });
    slices.store(count);
  });
}

void ema(const Context& context, int64_t n, float rate, const void* param, float* average) {
  parallel_pieces(*context.pool, n, kElementGrain, [&](int64_t begin, int64_t end) {
    rows_of(context).ema(end - begin, rate, value_at(context, param, begin), average + begin);
  });
}

size_t sum_of_squares_scratch_bytes(int64_t rows) {
  return static_cast<size_t>(rows) * sizeof(float);
}

float sum_of_squares(const Context& context, int64_t rows, int64_t columns, const float* x,
                     void* scratch) {
  auto* sums = static_cast<float*>(scratch);
  const RowKernels& kernels = rows_of(context);
  sum_rows(*context.pool, rows, columns, sums, [&](int64_t row, int64_t begin, int64_t n) {
    return kernels.sum_of_squares(x + row * columns + begin, n);
  });
  const ComputeScope scope;
  return tree_sum(sums, rows);
}

}  // namespace mainspring::cpu
