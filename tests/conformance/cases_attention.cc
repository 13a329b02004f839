// Cases of attention: groups of heads, windows, caches, segments longer than a block, and the
// gradient.
#include "tests/conformance/op_cases.h"

namespace mainspring::conformance {
namespace {

std::string name_of(const std::string& stem, const AttentionAttrs& a) {
  return stem + "_h" + std::to_string(a.query_heads) + "_kv" + std::to_string(a.kv_heads) + "_c" +
         std::to_string(a.head_width) + (a.window > 0 ? "_window" + std::to_string(a.window) : "") +
         (a.softcap > 0 ? "_softcap" : "");
}

// Probabilities are rounded before their product; in the gradient also their derivatives, and o and
// the scores behind them carry earlier roundings.
constexpr Tolerance kForward{.sums = 64, .inner = 2};
// Under one key every ds is a difference of equals of the size of d_o . v.
constexpr Tolerance kBackward{.sums = 256, .inner = 4, .magnitude = 1};

OpCase forward(const AttentionAttrs& attrs, bool has_gradient, std::vector<Rows> rows = {},
               const std::string& suffix = "") {
  return {.op = OpKind::kAttention,
          .name = name_of("attention", attrs) + suffix,
          .build =
              [=](CaseBuilder& b) {
                const int64_t c = attrs.head_width;
                const auto out = b.tracer().node(
                    OpKind::kAttention,
                    {b.rows("q", attrs.query_heads * c, 2), b.rows("k", attrs.kv_heads * c, 2),
                     b.rows("v", attrs.kv_heads * c)},
                    attrs);
                b.check("o", out[0]);
                b.check("lse", out[1], {.differentiable = false});
              },
          .tolerance = kForward,
          .has_gradient = has_gradient,
          .rows = std::move(rows)};
}

// Decode steps and prefill chunks over paged caches, beside a sequence without one.
OpCase cached(const AttentionAttrs& attrs) {
  return {.op = OpKind::kAttention,
          .name = name_of("attention", attrs) + "_cached",
          .build =
              [=](CaseBuilder& b) {
                const int64_t c = attrs.head_width;
                b.cache(attrs.kv_heads, c);
                const auto out = b.tracer().node(
                    OpKind::kAttention,
                    {b.rows("q", attrs.query_heads * c, 2), b.rows("k", attrs.kv_heads * c, 2),
                     b.rows("v", attrs.kv_heads * c)},
                    attrs);
                b.check("o", out[0]);
              },
          .tolerance = kForward,
          .rows = {make_rows("decode_prefill_and_plain",
                             {{.length = 1, .position = 130, .cache_sequence = 0},
                              {.length = 7, .position = 60, .cache_sequence = 1},
                              {.length = 5},
                              {.length = 3, .position = 0, .cache_sequence = 2}})}};
}

OpCase backward(const AttentionAttrs& attrs, std::vector<Rows> rows = {},
                const std::string& suffix = "") {
  return {.op = OpKind::kAttentionGrad,
          .name = name_of("attention_grad", attrs) + suffix,
          .build =
              [=](CaseBuilder& b) {
                const int64_t c = attrs.head_width;
                const Tensor q = b.rows("q", attrs.query_heads * c, 2);
                const Tensor k = b.rows("k", attrs.kv_heads * c, 2);
                const Tensor v = b.rows("v", attrs.kv_heads * c);
                // o and lse must be those of q, k and v, so the forward op makes them.
                const auto out = b.tracer().node(OpKind::kAttention, {q, k, v}, attrs);
                const auto grads = b.tracer().node(
                    OpKind::kAttentionGrad,
                    {q, k, v, out[0], out[1], b.rows("d_o", attrs.query_heads * c)}, attrs);
                b.check("dq", grads[0]);
                b.check("dk", grads[1]);
                b.check("dv", grads[2]);
              },
          .tolerance = kBackward,
          .rows = std::move(rows)};
}

// Across a key block (64), several of them, and an odd end.
std::vector<Rows> blocks() {
  return {make_rows("blocks", {{.length = 63}, {.length = 64}, {.length = 65}, {.length = 129}})};
}

// Across the segment cut at 2,048 positions.
std::vector<Rows> long_sequence() { return {make_rows("long", {{.length = 2100}})}; }

}  // namespace

std::vector<OpCase> attention_cases() {
  const AttentionAttrs narrow{1, 1, 8, 0.35f, 0, 0};
  const AttentionAttrs grouped{6, 2, 16, 0.25f, 0, 0};
  const AttentionAttrs wide{2, 2, 64, 0.125f, 0, 0};
  const AttentionAttrs odd_vector{3, 1, 24, 0.2f, 0, 0};
  AttentionAttrs window = grouped;
  window.window = 3;
  AttentionAttrs long_window = narrow;
  long_window.window = 70;
  AttentionAttrs capped = grouped;
  capped.softcap = 2.0f;  // scores reach 4: the cap bends them
  AttentionAttrs capped_window = long_window;
  capped_window.softcap = 1.5f;
  return {forward(capped, true),
          forward(capped_window, false, blocks(), "_blocks"),
          cached(capped_window),
          backward(capped),
          backward(capped_window, blocks(), "_blocks"),
          forward(narrow, true),
          forward(grouped, true),
          forward(wide, false),
          forward(odd_vector, false),
          forward(window, true),
          forward(grouped, false, blocks(), "_blocks"),
          forward(long_window, false, blocks(), "_blocks"),
          forward(narrow, false, long_sequence(), "_long"),
          cached(grouped),
          cached(long_window),
          backward(narrow),
          backward(grouped),
          backward(wide),
          backward(odd_vector),
          backward(window),
          backward(grouped, blocks(), "_blocks"),
          backward(long_window, blocks(), "_blocks"),
          backward(narrow, long_sequence(), "_long"),
          forward(long_window, false, long_sequence(), "_long"),
          backward(long_window, long_sequence(), "_long")};
}

}  // namespace mainspring::conformance
