// The head: log-probabilities of the targets and their gradient, in bounded memory.
//
// Forward takes the picks in batches and has one batch of logits at a time, beside those it was
// given room to keep. The gradient takes the vocabulary in slices and has one slice of the logits
// that were not kept and of all logits' gradients, so that
// a slice of dW is one fold over the picks in order (rule 9 as the linear's weight gradient has
// it), and dx continues its fold from slice to slice: slices end at the borders of rule 5's chunks,
// whose sums wait for the tree.

#include <algorithm>
#include <array>
#include <cstring>

#include "mainspring/exec/cpu/linear_gemm.h"
#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/cpu/row_walk.h"
#include "mainspring/exec/cpu/rows_of.h"

namespace mainspring::cpu {
namespace {

/// Picks of a forward batch: the weights are read once per batch, 128 rows hide it behind the
/// products.
constexpr int64_t kBatchPicks = 128;
/// Logits of a gradient slice (all picks): about this many fit a cache shared by the threads.
constexpr int64_t kSliceLogits = int64_t{2} << 20;
constexpr int kTreeLevels = 3;  // 8 chunks

constexpr int64_t kKeptBytes = int64_t{256} << 20;

int64_t align_bytes(int64_t bytes) { return ceil_div(bytes, 64) * 64; }

/// Widest slice of the vocabulary, a multiple of 64 (of every path's panel).
int64_t slice_width(int64_t picked, int64_t vocabulary) {
  const int64_t wanted = kSliceLogits / std::max<int64_t>(picked, 1) / 64 * 64;
  return std::min(std::clamp<int64_t>(wanted, 256, 8192), ceil_div(vocabulary, 64) * 64);
}

/// Columns of a slice's logits: panels that overlap it are whole.
int64_t slice_columns(int64_t picked, int64_t vocabulary) {
  return slice_width(picked, vocabulary) + 2 * 64;
}

struct GradScratch {
  float* logits;
  void* dlogits;
  float* dx;  // the running chunk, (picked, d)
  std::array<float*, kTreeLevels> waiting;
  void* linear;
  size_t bytes;

  /// `all_kept`: no logits are computed again. `base` null: only counts.
  GradScratch(const Context& context, int64_t picked, int64_t d, int64_t vocabulary, bool all_kept,
              void* base) {
    int64_t used = 0;
    const auto take = [&](int64_t size) {
      char* at = base == nullptr ? nullptr : static_cast<char*>(base) + used;
      used += align_bytes(size);
      return at;
    };
    const int64_t columns = slice_columns(picked, vocabulary);
    logits = reinterpret_cast<float*>(take(all_kept ? 0 : picked * columns * 4));
    dlogits = take(picked * columns * value_bytes(context));
    dx = reinterpret_cast<float*>(take(picked * d * 4));
    for (float*& level : waiting) level = reinterpret_cast<float*>(take(picked * d * 4));
    linear = take(0);
    const size_t products =
        std::max({linear_forward_scratch_bytes(context, picked, d),
                  gemm_scratch_bytes(context, picked, num_pairs(columns)),
                  linear_weight_grad_scratch_bytes(context, picked, columns, d)});
    bytes = static_cast<size_t>(used) + products;
  }
};

/// Bytes of one batch of logits, for those that are not kept.
int64_t batch_bytes(int64_t picked, int64_t vocabulary, bool all_kept) {
  return all_kept ? 0 : align_bytes(std::min(picked, kBatchPicks) * vocabulary * 4);
}

size_t forward_bytes(const Context& context, int64_t picked, int64_t d, int64_t vocabulary,
                     bool all_kept) {
  return static_cast<size_t>(batch_bytes(picked, vocabulary, all_kept)) +
         linear_forward_scratch_bytes(context, std::min(picked, kBatchPicks), d);
}

/// Picks whose logits the forward keeps: all, or whole batches.
int64_t num_kept(const Head& head) {
  if (head.kept_logits == nullptr) return 0;
  return head.picked <= head.kept_picks ? head.picked : head.kept_picks / kBatchPicks * kBatchPicks;
}

/// A slice [begin, end) of the vocabulary inside one chunk.
struct Slice {
  int64_t begin = 0;
  int64_t end = 0;
  bool first_of_chunk = false;
};

/// dx of a slice: the fold goes on from the running sums, except in a chunk's first slice.
struct SliceHooks : GemmHooks {
  bool continues = false;
  float* dx = nullptr;
  int64_t d = 0;

  bool load(const GemmTile& tile) const {
    if (!continues) return false;
    for (int r = 0; r < tile.rows; ++r) {
      std::memcpy(tile.c + r * tile.c_stride, dx + (tile.row + r) * d + tile.column,
                  static_cast<size_t>(tile.columns) * sizeof(float));
      std::fill(tile.c + r * tile.c_stride + tile.columns, tile.c + (r + 1) * tile.c_stride, 0.0f);
    }
    return true;
  }
  void finish(const LinearKernels&, const GemmTile& tile) const {
    for (int r = 0; r < tile.rows; ++r) {
      std::memcpy(dx + (tile.row + r) * d + tile.column, tile.c + r * tile.c_stride,
                  static_cast<size_t>(tile.columns) * sizeof(float));
    }
  }
};

class HeadGrad {
 public:
  HeadGrad(const Context& context, const Head& head, const float* lse, const float* d_logprob,
           float* dw_acc, const RowTable& pick_segments, void* scratch)
      : context_(context),
        head_(head),
        lse_(lse),
        d_logprob_(d_logprob),
        dw_acc_(dw_acc),
        pick_segments_(pick_segments),
        kept_(num_kept(head)),
        scratch_(context, head.picked, head.d, head.weight.out, kept_ == head.picked, scratch) {}

  void run(void* dx) {
    const int64_t vocabulary = head_.weight.out;
    const int chunks = num_chunks(vocabulary);
    const int64_t chunk_width = 2 * chunk_pairs(vocabulary, chunks);
    const int64_t width = slice_width(head_.picked, vocabulary);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const int64_t chunk_begin = std::min(vocabulary, chunk * chunk_width);
      const int64_t chunk_end = std::min(vocabulary, chunk_begin + chunk_width);
      if (chunk_begin == chunk_end) std::fill_n(scratch_.dx, head_.picked * head_.d, 0.0f);
      for (int64_t begin = chunk_begin; begin < chunk_end; begin += width) {
        run_slice({begin, std::min(chunk_end, begin + width), begin == chunk_begin});
      }
      close_chunk(chunk, chunk + 1 == chunks);
    }
    const void* const term = scratch_.dx;
    round_rows(term, dx);
  }

 private:
  void run_slice(const Slice& slice) {
    const int64_t width = slice.end - slice.begin;
    const Rows computed = compute_logits(slice);
    parallel_pieces(*context_.pool, head_.picked, 4, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        void* y = value_at(context_, scratch_.dlogits, i * width);
        if (head_.picks[i] < 0) {
          std::memset(y, 0, static_cast<size_t>(width * value_bytes(context_)));
          continue;
        }
        const float* logits = head_.kept_logits + i * head_.weight.out + slice.begin;
        if (i >= kept_) {
          float* row = computed.first + (i - kept_) * computed.stride;
          if (head_.softcap > 0.0f) rows_of(context_).soft_cap(row, width, head_.softcap, row);
          logits = row;
        }
        if (head_.num_targets > 1) {
          logit_grads_of_several(i, slice, logits, y);
          continue;
        }
        const int64_t target = head_.targets[i] - slice.begin;
        if (head_.d_lse != nullptr) {
          rows_of(context_).logit_lse_grad(width, logits, lse_[i], d_logprob_[i], head_.d_lse[i],
                                           head_.softcap, target, y);
        } else {
          rows_of(context_).logit_grad(width, logits, lse_[i], d_logprob_[i], head_.softcap, target,
                                       y);
        }
      }
    });
    fold_input_grad(slice);
    if (dw_acc_ == nullptr) return;
    WeightGrad grad;
    grad.dy = scratch_.dlogits;
    grad.out = width;
    grad.x = head_.x;
    grad.in = head_.d;
    grad.acc = dw_acc_ + slice.begin * head_.d;
    linear_weight_grad(context_, head_.picked, grad, pick_segments_, scratch_.linear);
  }

  /// dlogits of pick i, first as if none of its targets were in the slice.
  void logit_grads_of_several(int64_t i, const Slice& slice, const float* logits, void* y) const {
    const RowKernels& kernels = rows_of(context_);
    const int64_t k = head_.num_targets;
    const float d_lse = head_.d_lse != nullptr ? head_.d_lse[i] : 0.0f;
    float sum = 0.0f;
    for (int64_t j = 0; j < k; ++j) sum += d_logprob_[i * k + j];
    kernels.logit_lse_grad(slice.end - slice.begin, logits, lse_[i], 0.0f, d_lse - sum,
                           head_.softcap, -1, y);
    for (int64_t j = 0; j < k; ++j) {
      const float own = d_logprob_[i * k + j];
      const int64_t v = head_.targets[i * k + j] - slice.begin;
      if (own == 0.0f || v < 0 || v >= slice.end - slice.begin) continue;
      kernels.logit_lse_grad(1, logits + v, lse_[i], own, d_lse - (sum - own), head_.softcap, 0,
                             value_at(context_, y, v));
    }
  }

  struct Rows {
    float* first = nullptr;
    int64_t stride = 0;
  };

  /// A slice of the logits of the picks that were not kept.
  Rows compute_logits(const Slice& slice) {
    if (kept_ == head_.picked) return {};
    const LinearKernels& kernels = linear_kernels(context_);
    const int64_t first_panel = slice.begin / kernels.panel_columns;
    const int64_t first_column = first_panel * kernels.panel_columns;
    LinearOutput logits;
    logits.weight = head_.weight;
    logits.weight.out = slice.end - first_column;
    logits.weight.forward = static_cast<const char*>(head_.weight.forward) +
                            first_panel * panel_bytes(kernels, head_.d);
    logits.y = scratch_.logits;
    logits.y_f32 = true;
    linear_forward(context_, head_.picked - kept_, head_.d,
                   value_at(context_, head_.x, kept_ * head_.d), {&logits, 1}, nullptr,
                   scratch_.linear);
    return {scratch_.logits + (slice.begin - first_column), logits.weight.out};
  }

  void fold_input_grad(const Slice& slice) {
    const LinearKernels& kernels = linear_kernels(context_);
    Gemm gemm;
    gemm.rows = head_.picked;
    gemm.num_terms = 1;
    gemm.terms[0] = {scratch_.dlogits, slice.end - slice.begin};
    gemm.num_outputs = 1;
    gemm.outputs[0].columns = head_.d;
    gemm.outputs[0].b[0] = static_cast<const char*>(head_.weight.input_grad) +
                           slice.begin / 2 * kernels.b_pair_bytes * kernels.panel_columns;
    gemm.outputs[0].panel_bytes[0] = panel_bytes(kernels, head_.weight.out);
    gemm.plan_pairs = num_pairs(slice_columns(head_.picked, head_.weight.out));
    gemm.scratch = scratch_.linear;
    SliceHooks hooks;
    hooks.continues = !slice.first_of_chunk;
    hooks.dx = scratch_.dx;
    hooks.d = head_.d;
    run_gemm(context_, gemm, hooks);
  }

  /// Rule 5's tree as a binary counter: dx = (what waits at the levels of chunk's low one bits) +
  /// dx.
  void close_chunk(int chunk, bool last) {
    const int64_t n = head_.picked * head_.d;
    int level = 0;
    for (; (chunk >> level) & 1; ++level) {
      // a + b has the bits of b + a, so the running sums take the waiting ones in place.
      accumulate(context_, n, scratch_.waiting[static_cast<size_t>(level)], scratch_.dx);
    }
    if (!last) std::swap(scratch_.waiting[static_cast<size_t>(level)], scratch_.dx);
  }

  void round_rows(const void* sums, void* dx) {
    const LinearKernels& kernels = linear_kernels(context_);
    const int64_t d = head_.d;
    parallel_pieces(*context_.pool, head_.picked, 16, [&](int64_t first, int64_t last) {
      StoreTile store;
      store.tile = static_cast<const float*>(sums) + first * d;
      store.tile_stride = d;
      store.rows = static_cast<int>(last - first);
      store.columns = d;
      store.row_mask = (1u << store.rows) - 1u;
      store.y = value_at(context_, dx, first * d);
      store.y_stride = d;
      kernels.store(store);
    });
  }

  const Context& context_;
  const Head& head_;
  const float* lse_;
  const float* d_logprob_;
  float* dw_acc_;
  const RowTable& pick_segments_;
  int64_t kept_;
  GradScratch scratch_;
};

}  // namespace

size_t head_scratch_bytes(const Context& context, int64_t picked, int64_t d, int64_t vocabulary,
                          int64_t kept_picks) {
  const bool all_kept = kept_picks >= picked;
  const GradScratch grad(context, picked, d, vocabulary, all_kept, nullptr);
  return std::max(grad.bytes, forward_bytes(context, picked, d, vocabulary, all_kept));
}

int64_t head_kept_picks(int64_t picked, int64_t vocabulary) {
  return std::min(picked, kKeptBytes / 4 / vocabulary / kBatchPicks * kBatchPicks);
}

void head_logprob_forward(const Context& context, const Head& head, float* logprob, float* lse,
                          void* scratch) {
  const int64_t vocabulary = head.weight.out;
  const int64_t kept = num_kept(head);
  void* linear_scratch =
      static_cast<char*>(scratch) + batch_bytes(head.picked, vocabulary, kept == head.picked);
  for (int64_t first = 0; first < head.picked; first += kBatchPicks) {
    const int64_t count = std::min(kBatchPicks, head.picked - first);
    float* logits =
        first < kept ? head.kept_logits + first * vocabulary : static_cast<float*>(scratch);
    LinearOutput output;
    output.weight = head.weight;
    output.y = logits;
    output.y_f32 = true;
    linear_forward(context, count, head.d, value_at(context, head.x, first * head.d), {&output, 1},
                   nullptr, linear_scratch);
    context.pool->run(count, [&](int64_t i, int) {
      const int64_t pick = first + i;
      float* row = logits + i * vocabulary;
      const int32_t* targets = head.targets + pick * head.num_targets;
      float* logprobs = logprob + pick * head.num_targets;
      if (head.picks[pick] < 0) {
        std::fill_n(logprobs, head.num_targets, 0.0f);
        lse[pick] = 0.0f;
        return;
      }
      if (head.softcap > 0.0f) rows_of(context).soft_cap(row, vocabulary, head.softcap, row);
      const RowStatsValues stats = rows_of(context).row_stats(row, vocabulary);
      lse[pick] = stats.lse;
      for (int64_t j = 0; j < head.num_targets; ++j) logprobs[j] = row[targets[j]] - stats.lse;
    });
  }
}

void head_logprob_grad(const Context& context, const Head& head, const float* lse,
                       const float* d_logprob, void* dx, float* dw_acc,
                       const RowTable& pick_segments, void* scratch) {
  if (head.picked == 0) return;
  HeadGrad(context, head, lse, d_logprob, dw_acc, pick_segments, scratch).run(dx);
}

}  // namespace mainspring::cpu
