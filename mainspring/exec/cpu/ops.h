// The CPU executor's operations: what a planned step calls, over plain pointers.
//
// The one idea: one function per op, its order of floating-point operations fixed by
// docs/exactness.md and equal on every path; how rows and columns are split over threads or tiles
// is free. All pointers are proved by the planner, so nothing here can fail. "compute dtype" is
// bf16 or f32 (Context::compute); void* activations are of it. Scratch comes from the caller (the
// *_scratch_bytes functions). Shapes use the letters of docs/glossary.md. Padding rows (in no
// segment) are written as zeros by every op that writes rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mainspring/base/bf16.h"
#include "mainspring/base/thread_pool.h"
#include "mainspring/exec/cpu/isa.h"
#include "mainspring/exec/kv_view.h"
#include "mainspring/ir/dtype.h"
#include "mainspring/ir/row_table.h"

namespace mainspring::cpu {

struct KernelTable;  // exec/cpu/kernels/table.h

/// What every op needs: the path's kernels, the threads and the compute dtype.
struct Context {
  const KernelTable* kernels = nullptr;
  ThreadPool* pool = nullptr;
  DType compute = DType::kBF16;  // kBF16 or kF32
};

/// A context of the path; choose_isa says which one this processor can run. `pool` outlives it.
Context make_context(Isa isa, ThreadPool& pool, DType compute);

// ---- weights
// -------------------------------------------------------------------------------------

/// A stored matrix (out, in), row-major (rows of quantised blocks for quantised dtypes).
struct WeightView {
  DType dtype = DType::kF32;
  const void* data = nullptr;
  int64_t out = 0;
  int64_t in = 0;
  /// NF4: f32 offset, then one f32 scale per 256 blocks (second quantisation of the block
  /// scales: scale of block b = code_b / 255 * aux[1 + b / 256] + aux[0]); blocks count over the
  /// whole matrix. Int8: the scale of each row.
  const float* aux = nullptr;
};

/// The layouts that linear kernels read; made by pack_weight. Either pointer may be null if unused.
struct PackedWeight {
  int64_t out = 0;
  int64_t in = 0;
  const void* forward = nullptr;     // panels over out, pairs along in:  y = x W^T
  const void* input_grad = nullptr;  // panels over in, pairs along out:  dx = dy W
};

/// Bytes of one packed layout (either of the two) in the compute dtype.
size_t packed_forward_bytes(const Context& context, int64_t out, int64_t in);
size_t packed_input_grad_bytes(const Context& context, int64_t out, int64_t in);

/// Rounds (f32), widens (f16 through f32) or dequantises (to bf16, rules 16 and 17) and lays out.
/// Parameters are rounded to the compute dtype at use; quantised ones always go through bf16.
/// A null layout is left out.
void pack_weight(const Context& context, const WeightView& weight, void* forward, void* input_grad);
inline void pack_forward(const Context& context, const WeightView& weight, void* destination) {
  pack_weight(context, weight, destination, nullptr);
}
inline void pack_input_grad(const Context& context, const WeightView& weight, void* destination) {
  pack_weight(context, weight, nullptr, destination);
}

/// Row `row` of a stored matrix as `in` values of the compute dtype (as above), for embedding and
/// tests.
void dequantise_row(const Context& context, const WeightView& weight, int64_t row,
                    void* destination);

// ---- linear (rules 4, 5, 6, 16)
// ------------------------------------------------------------------

/// One adapter's part in one output: y += u B^T on the rows of its slot, in f32 before the
/// rounding, K = rank in one chunk.
struct LoraUp {
  int32_t slot = 0;
  int64_t rank = 0;
  const void* u = nullptr;  // (rows, rank)
  PackedWeight b;           // (out, rank); forward layout
};

struct LinearOutput {
  PackedWeight weight;         // forward layout
  const void* bias = nullptr;  // (out) compute dtype, or null
  void* y = nullptr;           // (rows, out): compute dtype, or f32 if y_f32
  bool y_f32 = false;
  std::span<const LoraUp> adapters = {};
};

/// y_i = round(((x W_i^T) + bias_i) + sum over the row's slot of u B^T) for every output i.
/// x (rows, in). Rows in no segment get zeros when `table` has segments; table null: all rows are
/// plain and no adapter applies.
void linear_forward(const Context& context, int64_t rows, int64_t in, const void* x,
                    std::span<const LinearOutput> outputs, const RowTable* table, void* scratch);
size_t linear_forward_scratch_bytes(const Context& context, int64_t rows, int64_t in);

/// LoRA's way down, on the rows of `slot` only (others untouched): u = round(scale * (x' A^T)),
/// where x' is x under inverted dropout (keyed by rule 18; p = 0: x itself). A (rank, in), forward
/// layout.
struct LoraDown {
  int32_t slot = 0;
  int64_t rank = 0;
  float scale = 1.0f;
  float dropout = 0.0f;
  uint64_t dropout_key = 0;  // seed and layer path, hashed by the caller
  PackedWeight a;
  void* u = nullptr;  // (rows, rank)
};
void lora_down(const Context& context, int64_t rows, int64_t in, const void* x,
               const LoraDown& lora, const RowTable& table, void* scratch);
size_t lora_down_scratch_bytes(const Context& context, int64_t rows, int64_t in);

/// One output's part in the input gradient.
struct LinearInputGradTerm {
  const void* dy = nullptr;  // (rows, out)
  PackedWeight weight;       // input_grad layout
};

/// An adapter's part in the input gradient: dx' += du A, K = rank in one chunk, under the forward's
/// dropout mask.
struct LoraInputGradTerm {
  int32_t slot = 0;
  int64_t rank = 0;
  float dropout = 0.0f;
  uint64_t dropout_key = 0;
  const void* du = nullptr;  // (rows, rank)
  PackedWeight a;            // (rank, in); input_grad layout
};

/// dx = round(reduction over all terms of dy_i W_i (rule 5: n chunks from the summed widths, chunk
/// c over the c-th chunk of each term in order, then the tree) + adapter terms in order).
void linear_input_grad(const Context& context, int64_t rows, int64_t in,
                       std::span<const LinearInputGradTerm> terms,
                       std::span<const LoraInputGradTerm> adapters, void* dx, const RowTable& table,
                       void* scratch);
size_t linear_input_grad_scratch_bytes(const Context& context, int64_t rows, int64_t in,
                                       int64_t summed_out);

/// du = round(scale * (dy B)) on the rows of `slot` (zeros elsewhere are not written). K = out,
/// chunks by rule 5. B (out, rank), input_grad layout.
struct LoraUpGrad {
  int32_t slot = 0;
  int64_t rank = 0;
  float scale = 1.0f;
  PackedWeight b;
  void* du = nullptr;  // (rows, rank)
};
void lora_up_input_grad(const Context& context, int64_t rows, int64_t out, const void* dy,
                        const LoraUpGrad& lora, const RowTable& table, void* scratch);

/// acc (out, in) f32 += fold over tokens of dy^T x, in segment order (rules 9, 10). `slot` < -1
/// (kAllSlots) folds every segment; otherwise only segments of that slot. Each segment is cut at
/// multiples of 2,048 positions. `x_dropout` > 0 applies the forward's mask to x (LoRA's A).
inline constexpr int32_t kAllSlots = -2;
struct WeightGrad {
  const void* dy = nullptr;  // (rows, out)
  int64_t out = 0;
  const void* x = nullptr;  // (rows, in)
  int64_t in = 0;
  float* acc = nullptr;  // (out, in)
  int32_t slot = kAllSlots;
  float x_dropout = 0.0f;
  uint64_t dropout_key = 0;
};
void linear_weight_grad(const Context& context, int64_t rows, const WeightGrad& grad,
                        const RowTable& table, void* scratch);
size_t linear_weight_grad_scratch_bytes(const Context& context, int64_t rows, int64_t out,
                                        int64_t in);

/// acc (out) f32 += fold over tokens of dy, one add per token in segment order.
void bias_grad(const Context& context, int64_t out, const void* dy, float* acc,
               const RowTable& table);

// ---- embedding
// -----------------------------------------------------------------------------------

/// y (rows, d) = table row of each token; padding rows zero. `tokens` (rows).
void embedding_forward(const Context& context, int64_t rows, const int32_t* tokens,
                       const WeightView& weight, void* y, const RowTable& table);
/// acc (v, d) f32: row of each token += dy, in token order (segments in order).
void embedding_grad(const Context& context, int64_t rows, int64_t d, const int32_t* tokens,
                    const void* dy, float* acc, const RowTable& table);

/// y (rows, d) = table row of each row's position; padding rows zero.
void position_embedding_forward(const Context& context, int64_t rows, const WeightView& weight,
                                void* y, const RowTable& table, void* scratch);
/// acc (positions, d) f32: row of each position += dy, in row order (segments in order).
void position_embedding_grad(const Context& context, int64_t rows, int64_t d, const void* dy,
                             float* acc, const RowTable& table, void* scratch);
size_t position_embedding_scratch_bytes(int64_t rows);

// ---- norms, rope, elementwise
// ----------------------------------------------------------------------

struct NormShape {
  int64_t row_elements = 0;
  int64_t width = 0;  // of a group; divides row_elements
  float eps = 0.0f;
  bool plus_one = false;  // rms_norm: the weight is 1 + w, added in f32
};

/// y = round((x * inv) * w), inv = 1 / sqrt(mean(x^2) + eps), over groups of `width` along each row
/// of `row_elements` (width = row_elements for the block norm, = head width for q/k norm). w
/// (width) compute dtype. 16-lane fixed-tree reductions (rule 14).
void rms_norm_forward(const Context& context, const NormShape& shape, int64_t rows, const void* x,
                      const void* w, void* y);
/// dx = round(...) per group; dw_acc (width) f32 (null: frozen) += fold over rows, then groups
/// within a row in order, of dy * (x * inv), segments in order.
void rms_norm_grad(const Context& context, const NormShape& shape, int64_t rows, const void* x,
                   const void* w, const void* dy, void* dx, float* dw_acc, const RowTable& table);

/// y = round(fma(h, w, b)), h = (x - mean) * inv, inv = 1 / sqrt(mean((x - mean)^2) + eps) over
/// whole rows (width = row_elements). w, b (width) compute dtype. 16-lane fixed-tree reductions.
void layer_norm_forward(const Context& context, const NormShape& shape, int64_t rows, const void* x,
                        const void* w, const void* b, void* y);
/// With g = dy * w: dx = round(inv * ((g - mean(g)) - h * mean(g h))); dw_acc (null: frozen) +=
/// fold over rows of dy * h, segments in order. The bias's gradient is bias_grad's.
void layer_norm_grad(const Context& context, const NormShape& shape, int64_t rows, const void* x,
                     const void* w, const void* dy, void* dx, float* dw_acc, const RowTable& table);

struct RopeShape {
  int64_t heads = 0;
  int64_t width = 0;     // c
  int64_t rotary = 0;    // leading elements of a head that turn, even; the others are copied
  bool inverse = false;  // the transposed rotation (gradient)
};

/// Rotary embedding (the "rotate half" pairing: i with i + rotary/2) by the row's position; cos_sin
/// is (max_position, rotary/2, 2) f32. In f32, rounded once.
void rope(const Context& context, const RopeShape& shape, int64_t rows, const float* cos_sin,
          const void* x, void* y, const RowTable& table);

enum class Activation { kSilu, kGelu };  // x sigmoid(x); gelu in its tanh form

/// y = round(f(x)), n elements; dx = round(dy * f'(x)).
void activation_forward(const Context& context, Activation f, int64_t n, const void* x, void* y);
void activation_grad(const Context& context, Activation f, int64_t n, const void* x, const void* dy,
                     void* dx);
/// y = round(round(f(gate)) * up), n elements.
void gated_forward(const Context& context, Activation f, int64_t n, const void* gate,
                   const void* up, void* y);
/// dgate, dup as the parts give them: s = round(f(gate)), dup = round(dy * s),
/// ds = round(dy * up), dgate = round(ds * f'(gate)).
void gated_grad(const Context& context, Activation f, int64_t n, const void* gate, const void* up,
                const void* dy, void* dgate, void* dup);
/// y = round(factor * x).
void scale_values(const Context& context, int64_t n, const void* x, float factor, void* y);
/// y = cap * tanh(x * (1 / cap)), n f32 values, in place too.
void soft_cap(const Context& context, int64_t n, const float* x, float cap, float* y);
void multiply(const Context& context, int64_t n, const void* a, const void* b, void* y);
/// y = round(a_0 + a_1 + ...) added in f32 in the order given.
void add_many(const Context& context, int64_t n, std::span<const void* const> terms, void* y);

/// y (picked, d): row picked[i] of x; zeros for -1.
void gather_rows(const Context& context, int64_t d, const void* x, void* y, const RowTable& table);
/// y (rows, d): zeros, then row picked[i] = dy row i.
void scatter_rows(const Context& context, int64_t rows, int64_t d, const void* dy, void* y,
                  const RowTable& table);

// ---- attention (rules 7, 8)
// ------------------------------------------------------------------------

struct AttentionShape {
  int64_t query_heads = 0;  // h
  int64_t kv_heads = 0;     // kv, divides h; query head i reads kv head i / (h / kv)
  int64_t width = 0;        // c, a multiple of 8 up to 256
  float scale = 1.0f;       // applied to the f32 score
  int64_t window = 0;       // 0: full causal; else keys p - window < j <= p
  float softcap = 0.0f;     // > 0: the score is softcap * tanh(q.k * (scale / softcap))
};

/// o (rows, h*c), lse (rows, h) f32 (may be null). q (rows, h*c), k and v (rows, kv*c). Segments
/// without a cache attend to their own rows (position of a segment's first row must be 0); with a
/// cache, the segment's k and v rows are first written to the pages of `layer`, then keys come from
/// the pages.
void attention_forward(const Context& context, const AttentionShape& shape, int64_t rows,
                       const void* q, const void* k, const void* v, void* o, float* lse,
                       const RowTable& table, const KvView* kv, int64_t layer, void* scratch);
size_t attention_forward_scratch_bytes(const Context& context, const AttentionShape& shape,
                                       int64_t rows);

/// Gradients for whole sequences (no cache). dq (rows, h*c), dk and dv (rows, kv*c).
void attention_grad(const Context& context, const AttentionShape& shape, int64_t rows,
                    const void* q, const void* k, const void* v, const void* o, const float* lse,
                    const void* d_o, void* dq, void* dk, void* dv, const RowTable& table,
                    void* scratch);
size_t attention_grad_scratch_bytes(const Context& context, const AttentionShape& shape,
                                    int64_t rows);

// ---- the head: log-probabilities without [rows, v] (rules 13, 14)
// -----------------------------------

/// For picked rows x (picked, d): logit = x W^T (f32), lse over the vocabulary (8 segments at
/// multiples of 16, 16 lanes, tree), logprob[i, j] = logit[target j] - lse. Pick -1 (zero rows):
/// logprob = 0, lse = 0.
struct Head {
  int64_t picked = 0;
  int64_t d = 0;
  PackedWeight weight;  // (v, d): forward layout; the gradient needs input_grad too
  const void* x = nullptr;
  const int32_t* targets = nullptr;  // (picked, num_targets)
  int64_t num_targets = 1;           // of each pick
  const int32_t* picks = nullptr;    // (picked): RowTable::picked, to know the zero rows
  /// Room for the logits (kept_picks, v) of the first picks, which the forward leaves to the
  /// gradient; without, or beyond, the gradient computes them again. The same bits either way.
  float* kept_logits = nullptr;
  int64_t kept_picks = 0;
  float softcap = 0.0f;          // > 0: every logit is softcap * tanh(logit * (1 / softcap))
  const float* d_lse = nullptr;  // (picked), gradient only: what else reads lse; null: nothing
};
void head_logprob_forward(const Context& context, const Head& head, float* logprob, float* lse,
                          void* scratch);
/// Given d_logprob (picked) f32: dlogits = round(d_logprob * (onehot - p) + d_lse * p) with p =
/// exp(logit - lse), without the second term if there is no d_lse; of capped logits round(that in
/// f32 * (1 - (logit * (1 / softcap))^2)). With several targets, s their d_logprob added in order:
/// round((d_lse - s) * p), but where v is a target with g = d_logprob not 0, g for d_logprob and
/// d_lse - (s - g) for d_lse in the form above; such targets of one pick are distinct. dx (picked,
/// d) by rule 5; dw_acc (v, d) f32 (null: frozen) folded over picks in order. `pick_segments`: the
/// table whose segments index picks instead of rows (sequences in order).
void head_logprob_grad(const Context& context, const Head& head, const float* lse,
                       const float* d_logprob, void* dx, float* dw_acc,
                       const RowTable& pick_segments, void* scratch);
size_t head_scratch_bytes(const Context& context, int64_t picked, int64_t d, int64_t vocabulary,
                          int64_t kept_picks = 0);
/// Picks whose logits are worth keeping: those that fit into 256 MiB.
int64_t head_kept_picks(int64_t picked, int64_t vocabulary);

// ---- rows of logits, for the sampler (rules 14, 19)
// --------------------------------------------------

/// The maximum and log-sum-exp of n logits, exactly as the head computes them.
struct RowStats {
  float max = 0.0f;
  float sum = 0.0f;  // of exp(x - max), by rule 14
  float lse = 0.0f;
};
RowStats row_stats(const Context& context, const float* logits, int64_t n);
/// out[i] = exp(logits[i] - max) by our own exp.
void row_exp(const Context& context, const float* logits, int64_t n, float max, float* out);
/// Our own natural logarithm and exponential on one value, equal to the vector ones.
float log_f32(const Context& context, float x);
float exp_f32(const Context& context, float x);

// ---- optimizer (rules 13, 15)
// ------------------------------------------------------------------------

/// torch.optim.AdamW's update, in place on n elements; g is scaled by grad_scale first (normaliser
/// and clipping). step counts from 1; the bias corrections are computed by the caller.
struct AdamwStep {
  float lr, beta1, beta2, eps, weight_decay;
  float bias_correction1, bias_correction2_sqrt;  // 1 - beta1^t, sqrt(1 - beta2^t)
  float grad_scale;
};
void adamw(const Context& context, int64_t n, const AdamwStep& step, const float* grad,
           float* param, float* m, float* v);

/// Lion: c = beta1 m + (1 - beta1) g; p = p (1 - lr weight_decay) - lr sign(c); m = beta2 m +
/// (1 - beta2) g, in place on n elements; g is scaled by grad_scale first, sign(0) = 0.
struct LionStep {
  float lr, beta1, beta2, weight_decay, grad_scale;
};
void lion(const Context& context, int64_t n, const LionStep& step, const float* grad, float* param,
          float* m);

/// What keys the rounding of a parameter's bf16 states in one step: docs/exactness.md, rule 18. A
/// value x of finite bits u becomes the upper half of u + r, r of 16 random bits: of the two bf16
/// around x the farther from zero with the chance that keeps the mean. The Philox key of step t is
/// words 0 and 1 of Philox(key, (t, 0, 0, 0)); kernels/state_ops.h says which words are an
/// element's.
struct StateRounding {
  uint64_t key = 0;
  int32_t step = 0;  // from 1
};
/// adamw and lion above, on states widened to f32 and rounded so afterwards.
void adamw_bf16(const Context& context, int64_t n, const AdamwStep& step,
                const StateRounding& rounding, const float* grad, bf16* param, bf16* m, bf16* v);
void lion_bf16(const Context& context, int64_t n, const LionStep& step,
               const StateRounding& rounding, const float* grad, bf16* param, bf16* m);

/// A moment in 8 bits: x[i] = level[codes[i]] * largest[i / kMomentBlock].
struct CodedMoment {
  uint8_t* codes = nullptr;
  float* largest = nullptr;  // magnitude in a block of kMomentBlock
};
/// adamw above, on moments decoded to f32; the new ones are encoded by base/dynamic_map.h, m by the
/// signed map and v by the unsigned one: the code of x is that of x / largest. A positive v gets
/// code 1 or more: at 0 an element whose gradient fades would be divided by eps alone.
/// Source: Dettmers et al. 2022, arXiv:2110.02861, of which that last rule is not a part.
void adamw_8bit(const Context& context, int64_t n, const AdamwStep& step, const float* grad,
                float* param, const CodedMoment& m, const CodedMoment& v);
/// The same on a bf16 parameter, rounded as by adamw_bf16.
void adamw_8bit_bf16(const Context& context, int64_t n, const AdamwStep& step,
                     const StateRounding& rounding, const float* grad, bf16* param,
                     const CodedMoment& m, const CodedMoment& v);

/// average += rate (param - average), n elements; param is of the compute dtype.
void ema(const Context& context, int64_t n, float rate, const void* param, float* average);

/// torch.optim.Adafactor's update of a (rows, columns) matrix, in place, g scaled by grad_scale:
///   r += rate (mean over columns of g^2 - r); c += rate (mean over rows of g^2 - c);
///   u = g / sqrt(max(r c / max(mean(r), eps1), eps1^2));
///   p = p (1 - lr weight_decay) - alpha / max(1, rms(u) / clip) u, alpha = max(eps2, rms(p)) rho.
/// A vector has rows = 1 and r null: c is its second moment. Sums over a row and over the matrix
/// are rule 15's blocks and tree; those over a column fold over rows in rule 5's chunks of rows.
struct AdafactorStep {
  float lr, weight_decay;
  float rho;   // min(lr, 1 / sqrt(t))
  float rate;  // t^beta2_decay
  float eps1, eps2, clip, grad_scale;
};
void adafactor(const Context& context, int64_t rows, int64_t columns, const AdafactorStep& step,
               const float* grad, float* param, float* r, float* c, void* scratch);
size_t adafactor_scratch_bytes(int64_t rows, int64_t columns);

/// torch.optim.Muon's update of a whole (rows, columns) matrix, in place, g scaled by grad_scale:
///   b += (1 - momentum)(g - b); x = round(nesterov ? b + (1 - momentum)(g - b) : b);
///   x = round(x / max(round(|x|), 1e-7)), transposed if rows > columns; five times:
///   g = round(x x^T), h = round(b g + c g g), x = round(a x + h x);
///   p = p (1 - lr weight_decay) - rate x.
/// Rounding is to `context.compute`; the products are linears by rules 4 and 5, the norm is rule
/// 15's.
struct MuonStep {
  float lr, rate, weight_decay, momentum, grad_scale;
  bool nesterov;
};
void muon(const Context& context, int64_t rows, int64_t columns, const MuonStep& step,
          const float* grad, float* param, float* momentum, void* scratch);
size_t muon_scratch_bytes(const Context& context, int64_t rows, int64_t columns);

/// Sum of squares of a logical (rows, columns) f32 tensor: blocks (row, K-chunk of rule 5), tree
/// over chunks, then a balanced tree over rows.
float sum_of_squares(const Context& context, int64_t rows, int64_t columns, const float* x,
                     void* scratch);
size_t sum_of_squares_scratch_bytes(int64_t rows);

/// y += x, n elements of f32.
void accumulate(const Context& context, int64_t n, const float* x, float* y);

}  // namespace mainspring::cpu
