// Cases of the head (log-probabilities and their gradient) and of the per-token loss arithmetic.
#include "tests/conformance/op_cases.h"

namespace mainspring::conformance {
namespace {

std::string sizes(int64_t d, int64_t vocabulary) {
  return "d" + std::to_string(d) + "_v" + std::to_string(vocabulary);
}

// Vocabularies below, at and off the cut of 8 segments of multiples of 16.
constexpr int64_t kShapes[][2] = {{1, 2}, {8, 17}, {24, 128}, {130, 301}};

OpCase logprob(int64_t d, int64_t vocabulary, float softcap = 0.0f) {
  return {.op = OpKind::kHeadLogprob,
          .name = "head_logprob_" + sizes(d, vocabulary) + (softcap > 0.0f ? "_softcap" : ""),
          .build =
              [=](CaseBuilder& b) {
                const auto out = b.tracer().node(OpKind::kHeadLogprob,
                                                 {b.picks("x", d), b.param("head", {vocabulary, d}),
                                                  b.targets("targets", vocabulary)},
                                                 HeadAttrs{softcap});
                b.check("logprob", out[0]);
                b.check("lse", out[1]);
              },
          .tolerance = {.sums = 64},
          .has_gradient = d <= 24};
}

// A head stored quantised is frozen: its log-probability and the gradient of what comes in.
OpCase stored_head(DType dtype) {
  return {.op = OpKind::kHeadLogprobGrad,
          .name = "head_logprob_weight_" + std::string(dtype_name(dtype)),
          .build =
              [=](CaseBuilder& b) {
                const Tensor x = b.picks("x", 64);
                const Tensor head = b.param("head", {37, 64}, dtype);
                const Tensor targets = b.targets("targets", 37);
                const auto forward =
                    b.tracer().node(OpKind::kHeadLogprob, {x, head, targets}, HeadAttrs{});
                b.check("logprob", forward[0]);
                b.check("dx",
                        b.tracer().node(OpKind::kHeadLogprobGrad,
                                        {x, head, targets, forward[1], b.per_pick("d_logprob")},
                                        HeadAttrs{})[0]);
              },
          // Logits of some tens in f32: their rounding is a share of the probabilities behind dx.
          .tolerance = {.sums = 128, .inner = 1}};
}

OpCase logprob_grad(int64_t d, int64_t vocabulary, bool is_frozen, HeadAttrs attrs = {}) {
  return {.op = OpKind::kHeadLogprobGrad,
          .name = "head_logprob_grad_" + sizes(d, vocabulary) + (is_frozen ? "_frozen" : "") +
                  (attrs.softcap > 0.0f ? "_softcap" : "") + (attrs.has_d_lse ? "_d_lse" : ""),
          .build =
              [=](CaseBuilder& b) {
                const Tensor x = b.picks("x", d);
                const Tensor head = b.param("head", {vocabulary, d});
                const Tensor targets = b.targets("targets", vocabulary);
                const auto forward = b.tracer().node(OpKind::kHeadLogprob, {x, head, targets},
                                                     HeadAttrs{.softcap = attrs.softcap});
                std::vector<Tensor> inputs{x, head, targets, forward[1], b.per_pick("d_logprob")};
                if (attrs.has_d_lse) inputs.push_back(b.per_pick("d_lse"));
                if (!is_frozen) inputs.push_back(b.state("acc", {vocabulary, d}));
                b.check("dx", b.tracer().node(OpKind::kHeadLogprobGrad, inputs, attrs)[0]);
                if (!is_frozen) b.check_state("acc");
              },
          // Logit gradients are rounded; d_logprob and d_lse, up to 1 each, may cancel in them.
          .tolerance = {.sums = 64, .inner = 1, .magnitude = attrs.has_d_lse ? 2.0 : 0.0}};
}

// Several targets of a pick: their log-probabilities, and the gradient through all of them.
OpCase several_targets(int64_t d, int64_t vocabulary, int64_t k, HeadAttrs attrs = {}) {
  return {.op = OpKind::kHeadLogprobGrad,
          .name = "head_logprob_grad_" + sizes(d, vocabulary) + "_k" + std::to_string(k) +
                  (attrs.softcap > 0.0f ? "_softcap" : "") + (attrs.has_d_lse ? "_d_lse" : ""),
          .build =
              [=](CaseBuilder& b) {
                const Tensor x = b.picks("x", d);
                const Tensor head = b.param("head", {vocabulary, d});
                const Tensor targets = b.distinct_targets("targets", vocabulary, k);
                const auto forward = b.tracer().node(OpKind::kHeadLogprob, {x, head, targets},
                                                     HeadAttrs{.softcap = attrs.softcap});
                b.check("logprob", forward[0]);
                std::vector<Tensor> inputs{x, head, targets, forward[1],
                                           b.f32_picks("d_logprob", k)};
                if (attrs.has_d_lse) inputs.push_back(b.per_pick("d_lse"));
                inputs.push_back(b.state("acc", {vocabulary, d}));
                b.check("dx", b.tracer().node(OpKind::kHeadLogprobGrad, inputs, attrs)[0]);
                b.check_state("acc");
              },
          .tolerance = {.sums = 128, .inner = 1, .magnitude = static_cast<double>(k)}};
}

}  // namespace

std::vector<OpCase> head_cases() {
  std::vector<OpCase> cases{
      {.op = OpKind::kScale,
       .name = "scale",
       .build = [](CaseBuilder& b) { b.check("y", scale(b.per_pick("x"), -0.3f)); },
       .tolerance = {.sums = 0},
       .has_gradient = true},
      {.op = OpKind::kReduceSum,
       .name = "reduce_sum",
       .build = [](CaseBuilder& b) { b.check("y", reduce_sum(b.per_pick("x"))); },
       .has_gradient = true},
      {.op = OpKind::kFill,
       .name = "fill",
       // Times zero at zero picks, where a constant would not be zero.
       .build =
           [](CaseBuilder& b) {
             b.check("y", mul(fill_picked(b.tracer(), 0.3f), b.per_pick("x")));
           },
       .tolerance = {.sums = 1}},
      {.op = OpKind::kMul,
       .name = "mul_per_pick",
       .build = [](CaseBuilder& b) { b.check("y", mul(b.per_pick("a"), b.per_pick("b"))); },
       .tolerance = {.sums = 0},
       .has_gradient = true},
  };
  for (const auto& [d, vocabulary] : kShapes) {
    cases.push_back(logprob(d, vocabulary));
    cases.push_back(logprob_grad(d, vocabulary, d == 8));
    // A cap about the size of the logits bends most of them.
    cases.push_back(logprob(d, vocabulary, 2.0f));
    cases.push_back(logprob_grad(d, vocabulary, d == 24, {.softcap = 2.0f}));
    cases.push_back(logprob_grad(d, vocabulary, d == 8, {.has_d_lse = true}));
    cases.push_back(logprob_grad(d, vocabulary, d == 24, {.softcap = 2.0f, .has_d_lse = true}));
  }
  cases.push_back(several_targets(1, 2, 2));
  cases.push_back(several_targets(8, 17, 3));
  cases.push_back(several_targets(24, 128, 5, {.softcap = 2.0f}));
  cases.push_back(several_targets(24, 301, 301, {.has_d_lse = true}));
  for (DType dtype : {DType::kQ8_0, DType::kInt8}) cases.push_back(stored_head(dtype));
  return cases;
}

}  // namespace mainspring::conformance
