// The kernels of attention and row operations that each instruction-set path provides, as plain
// functions.
//
// The one idea: a path's translation unit sees nothing but pointers and numbers; spans, segment
// tables and threads stay in the .cc files above, compiled for the baseline. One set per compute
// dtype.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mainspring::cpu {

/// Consecutive query rows of one sequence against one kv head and its group of query heads.
struct AttentionTask {
  int64_t num_rows = 0;
  int64_t position = 0;  // of the first row
  int64_t group = 1;     // query heads per kv head
  int64_t width = 0;     // c
  float scale = 1.0f;
  int64_t window = 0;
  float softcap = 0.0f;     // 0: none
  const void* q = nullptr;  // first row, first head of the group
  int64_t q_stride = 0;     // elements between rows of q and o
  void* o = nullptr;
  float* lse = nullptr;  // may be null
  int64_t lse_stride = 0;
  const void* k = nullptr;  // this kv head in key 0 (or its part of page 0)
  const void* v = nullptr;
  int64_t kv_stride = 0;           // elements between keys
  const int32_t* pages = nullptr;  // block b of 64 keys is page pages[b], packed; null: rows
  int64_t page_elements = 0;
  void* scratch = nullptr;  // attention_scratch_bytes()
};

/// Keys and values of consecutive positions of one sequence, to be written into a page: each kv
/// head's 64 keys as attention reads them, keys across and values along.
struct PageRows {
  const void* k = nullptr;  // (rows, heads * width)
  const void* v = nullptr;
  int64_t rows = 0;
  int64_t heads = 0;
  int64_t width = 0;
  int64_t slot = 0;      // of the first row in the page
  bool is_last = false;  // no other row is written behind these
  void* keys = nullptr;  // the page
  void* values = nullptr;
};

/// A whole sequence's gradients for one query head. Row pointers are at the sequence's first row.
struct AttentionGradTask {
  int64_t num_rows = 0;
  int64_t width = 0;
  float scale = 1.0f;
  int64_t window = 0;
  float softcap = 0.0f;     // 0: none
  const void* q = nullptr;  // this head; also o, d_o, dq
  const void* o = nullptr;
  const void* d_o = nullptr;
  void* dq = nullptr;
  int64_t q_stride = 0;
  const float* lse = nullptr;
  int64_t lse_stride = 0;
  const void* k = nullptr;
  const void* v = nullptr;
  int64_t kv_stride = 0;
  float* dk = nullptr;  // this head's part, unscaled: (num_rows, padded width)
  float* dv = nullptr;
  void* scratch = nullptr;  // attention_grad_scratch_bytes()
};

/// torch.optim.AdamW's scalars, as ops.h has them.
struct AdamwScalars {
  float lr, beta1, beta2, eps, weight_decay, bias_correction1, bias_correction2_sqrt, grad_scale;
};

/// Lion's scalars, as ops.h has them.
struct LionScalars {
  float lr, beta1, beta2, weight_decay, grad_scale;
};

/// What Adafactor's direction needs in one row: its factor, the mean of all factors, the least
/// second moment.
struct AdafactorRow {
  float row, mean, floor, grad_scale;
};

/// What 8-bit codes of a moment stand for (base/dynamic_map.h).
struct CodeBook {
  const float* levels = nullptr;   // 256
  const float* borders = nullptr;  // 256
  bool keeps_positive = false;     // no positive value becomes zero
};

/// The Philox key of one parameter in one step, and the index in it of a slice's first element.
struct RoundingKey {
  uint32_t key[2] = {};
  int64_t first = 0;
};

struct RowStatsValues {
  float max, sum, lse;
};

/// An activation function and what is made of it, on n elements of the compute dtype.
struct ActivationKernels {
  void (*forward)(int64_t n, const void* x, void* y) = nullptr;
  void (*grad)(int64_t n, const void* x, const void* dy, void* dx) = nullptr;
  void (*mul)(int64_t n, const void* gate, const void* up, void* y) = nullptr;
  void (*mul_grad)(int64_t n, const void* gate, const void* up, const void* dy, void* dgate,
                   void* dup) = nullptr;
};

/// The kernels of one path for one compute dtype (void* activations are of it).
struct RowKernels {
  size_t (*attention_scratch_bytes)(int64_t rows_times_group, int64_t width) = nullptr;
  void (*attention)(const AttentionTask& task) = nullptr;
  void (*write_page)(const PageRows& rows) = nullptr;
  size_t (*attention_grad_scratch_bytes)(int64_t num_rows, int64_t width) = nullptr;
  void (*attention_grad)(const AttentionGradTask& task) = nullptr;
  /// dk, dv (rows of one kv head) = round of the tree over `group` parts, `part_stride` floats
  /// apart; dk times scale.
  void (*attention_grad_combine)(int64_t num_rows, int64_t width, int64_t group, float scale,
                                 const float* dk_parts, const float* dv_parts, int64_t part_stride,
                                 void* dk, void* dv, int64_t kv_stride) = nullptr;

  /// `plus_one`: the weight is 1 + w.
  void (*rms_norm)(int64_t groups, int64_t width, float eps, bool plus_one, const void* x,
                   const void* w, void* y) = nullptr;
  /// dx and, per group, inv = 1 / sqrt(mean + eps).
  void (*rms_norm_grad)(int64_t groups, int64_t width, float eps, bool plus_one, const void* x,
                        const void* w, const void* dy, void* dx, float* inv) = nullptr;
  /// dw[begin, end) += fold over groups of dy * (x * inv).
  void (*rms_norm_weight_grad)(int64_t groups, int64_t width, int64_t begin, int64_t end,
                               const void* x, const void* dy, const float* inv,
                               float* dw) = nullptr;
  void (*layer_norm)(int64_t rows, int64_t width, float eps, const void* x, const void* w,
                     const void* b, void* y) = nullptr;
  /// dx and, per row, the mean and inv = 1 / sqrt(variance + eps).
  void (*layer_norm_grad)(int64_t rows, int64_t width, float eps, const void* x, const void* w,
                          const void* dy, void* dx, float* mean, float* inv) = nullptr;
  /// dw[begin, end) += fold over rows of dy * ((x - mean) * inv).
  void (*layer_norm_weight_grad)(int64_t rows, int64_t width, int64_t begin, int64_t end,
                                 const void* x, const void* dy, const float* mean, const float* inv,
                                 float* dw) = nullptr;
  /// One row: `heads` heads of width c, whose first `rotary` elements turn by angles (rotary/2, 2).
  void (*rope)(int64_t heads, int64_t c, int64_t rotary, const float* cos_sin, bool inverse,
               const void* x, void* y) = nullptr;
  ActivationKernels silu;
  ActivationKernels gelu;
  void (*scale)(int64_t n, const void* x, float factor, void* y) = nullptr;
  void (*multiply)(int64_t n, const void* a, const void* b, void* y) = nullptr;
  /// Elements [begin, end) of every term.
  void (*add_many)(int64_t begin, int64_t end, const void* const* terms, int64_t num_terms,
                   void* y) = nullptr;

  RowStatsValues (*row_stats)(const float* x, int64_t n) = nullptr;
  void (*row_exp)(const float* x, int64_t n, float max, float* y) = nullptr;
  void (*exp)(const float* x, int64_t n, float* y) = nullptr;
  void (*log)(const float* x, int64_t n, float* y) = nullptr;
  /// y = cap tanh(x / cap), in place too.
  void (*soft_cap)(const float* x, int64_t n, float cap, float* y) = nullptr;
  /// y[i] = round(d * (onehot(target - first)[i] - exp(x[i] - lse))) for a slice of n logits from
  /// `first`; with a cap > 0 the logits are capped ones, and its slope is a factor.
  void (*logit_grad)(int64_t n, const float* x, float lse, float d, float cap, int64_t target,
                     void* y) = nullptr;
  /// The same with e exp(x[i] - lse) added before the rounding.
  void (*logit_lse_grad)(int64_t n, const float* x, float lse, float d, float e, float cap,
                         int64_t target, void* y) = nullptr;

  void (*adamw)(int64_t n, const AdamwScalars& s, const float* grad, float* param, float* m,
                float* v) = nullptr;
  float (*sum_of_squares)(const float* x, int64_t n) = nullptr;
  void (*accumulate)(int64_t n, const float* x, float* y) = nullptr;
  // kernels/optimizer_ops.h
  void (*lion)(int64_t n, const LionScalars& s, const float* grad, float* param,
               float* m) = nullptr;
  float (*scaled_squares)(const float* x, int64_t n, float scale) = nullptr;
  void (*column_squares)(int64_t rows, int64_t stride, int64_t n, float scale, const float* x,
                         float* out) = nullptr;
  void (*blend_mean)(int64_t n, float count, float rate, const float* sums, float* state) = nullptr;
  float (*adafactor_squares)(int64_t n, const AdafactorRow& r, const float* grad,
                             const float* column) = nullptr;
  void (*adafactor_apply)(int64_t n, const AdafactorRow& r, float decay, float rate,
                          const float* grad, const float* column, float* param) = nullptr;
  void (*muon_momentum)(int64_t n, float grad_scale, float momentum, bool nesterov,
                        const float* grad, float* buffer, void* u) = nullptr;
  float (*squares_of_values)(const void* x, int64_t n) = nullptr;
  void (*divide_values)(int64_t n, float divisor, void* x) = nullptr;
  void (*scaled_sum)(int64_t n, float alpha, const float* sums, float beta, const void* x,
                     void* y) = nullptr;
  void (*decayed_step)(int64_t n, float decay, float rate, const void* u, float* param) = nullptr;
  // kernels/state_ops.h
  void (*decode_moments)(int64_t n, const CodeBook& book, float largest, const uint8_t* codes,
                         float* x) = nullptr;
  float (*encode_moments)(int64_t n, const CodeBook& book, const float* x,
                          uint8_t* codes) = nullptr;
  void (*widen_bf16)(int64_t n, const uint16_t* x, float* y) = nullptr;
  void (*round_states)(int64_t n, const RoundingKey& r, int arrays, const float* const* x,
                       uint16_t* const* y) = nullptr;
  void (*ema)(int64_t n, float rate, const void* param, float* average) = nullptr;
};

struct RowsTable {
  RowKernels bf16;
  RowKernels f32;
};

namespace scalar {
const RowsTable& rows_table();
}
namespace avx2 {
const RowsTable& rows_table();
}
namespace avx512 {
const RowsTable& rows_table();
}
namespace avx512bf16 {
const RowsTable& rows_table();
}

}  // namespace mainspring::cpu
