// Fills a path's RowsTable. Included by a path's unit after simd.h.
#pragma once

#include "mainspring/exec/cpu/kernels/rows_table.h"

// Each text needs those above it; the order is not alphabetical.

#include "mainspring/exec/cpu/kernels/math.h"

#include "mainspring/exec/cpu/kernels/element.h"

#include "mainspring/exec/cpu/kernels/tile.h"

#include "mainspring/exec/cpu/kernels/attention_forward.h"

#include "mainspring/exec/cpu/kernels/page.h"

#include "mainspring/exec/cpu/kernels/attention_backward.h"

#include "mainspring/exec/cpu/kernels/row_ops.h"

#include "mainspring/exec/cpu/kernels/vocabulary_ops.h"

#include "mainspring/exec/cpu/kernels/optimizer_ops.h"

#include "mainspring/exec/cpu/kernels/philox.h"

#include "mainspring/exec/cpu/kernels/state_ops.h"

namespace mainspring::cpu::MS_ISA_NAMESPACE {

template <class M>
constexpr RowKernels make_row_kernels() {
  RowKernels k;
  k.attention_scratch_bytes = &attention_scratch_bytes<M>;
  k.attention = &attention_rows<M>;
  k.write_page = &write_page_rows<M>;
  k.attention_grad_scratch_bytes = &attention_grad_scratch_bytes<M>;
  k.attention_grad = &attention_grad_rows<M>;
  k.attention_grad_combine = &attention_grad_combine<M>;
  k.rms_norm = &rms_norm_rows<M>;
  k.rms_norm_grad = &rms_norm_grad_rows<M>;
  k.rms_norm_weight_grad = &rms_norm_weight_grad_columns<M>;
  k.layer_norm = &layer_norm_rows<M>;
  k.layer_norm_grad = &layer_norm_grad_rows<M>;
  k.layer_norm_weight_grad = &layer_norm_weight_grad_columns<M>;
  k.rope = &rope_row<M>;
  k.silu = make_activation_kernels<M, SiluActivation>();
  k.gelu = make_activation_kernels<M, GeluActivation>();
  k.scale = &scale_values<M>;
  k.multiply = &multiply_values<M>;
  k.add_many = &add_many_values<M>;
  k.row_stats = &row_stats;
  k.row_exp = &row_exp;
  k.exp = &exp_values;
  k.log = &log_values;
  k.soft_cap = &soft_cap_values;
  k.logit_grad = &logit_grad_values<M>;
  k.logit_lse_grad = &logit_lse_grad_values<M>;
  k.adamw = &adamw;
  k.sum_of_squares = &sum_of_squares;
  k.accumulate = &accumulate;
  k.lion = &lion;
  k.scaled_squares = &scaled_squares;
  k.column_squares = &column_squares;
  k.blend_mean = &blend_mean;
  k.adafactor_squares = &adafactor_squares;
  k.adafactor_apply = &adafactor_apply;
  k.muon_momentum = &muon_momentum<M>;
  k.squares_of_values = &squares_of_values<M>;
  k.divide_values = &divide_values<M>;
  k.scaled_sum = &scaled_sum<M>;
  k.decayed_step = &decayed_step<M>;
  k.decode_moments = &decode_moments;
  k.encode_moments = &encode_moments;
  k.widen_bf16 = &widen_bf16_values;
  k.round_states = &round_states;
  k.ema = &ema_values<M>;
  return k;
}

constexpr RowsTable make_rows_table() {
  return {make_row_kernels<Bf16>(), make_row_kernels<F32>()};
}

}  // namespace mainspring::cpu::MS_ISA_NAMESPACE
