// Cases of linear, its adapters, its quantised weights and its gradients.
#include "tests/conformance/op_cases.h"

namespace mainspring::conformance {
namespace {

std::string widths(int64_t in, int64_t out) {
  return "k" + std::to_string(in) + "_out" + std::to_string(out);
}

// K of 1, odd, one vector, just over it, 2 chunks (256), 4 chunks with a short odd end (515);
// outputs around a panel of 16.
constexpr int64_t kShapes[][2] = {{1, 1}, {7, 3}, {16, 16}, {17, 33}, {256, 5}, {515, 48}};

OpCase plain(int64_t in, int64_t out) {
  return {.op = OpKind::kLinear,
          .name = "linear_" + widths(in, out),
          .build =
              [=](CaseBuilder& b) {
                b.check("y", linear(b.rows("x", in), {b.param("w", {out, in})})[0]);
              },
          .has_gradient = in <= 17};
}

OpCase shared_input_with_bias() {
  return {.op = OpKind::kLinear,
          .name = "linear_three_weights_bias",
          .build =
              [](CaseBuilder& b) {
                const auto y = linear(
                    b.rows("x", 24),
                    {b.param("wq", {40, 24}), b.param("wk", {8, 24}), b.param("wv", {9, 24})},
                    {.biases = {b.param("bq", {40}), b.param("bk", {8}), b.param("bv", {9})}});
                for (size_t i = 0; i < 3; ++i) b.check("y" + std::to_string(i), y[i]);
              },
          .has_gradient = true};
}

OpCase f32_logits() {
  return {.op = OpKind::kLinear, .name = "linear_f32_output_of_picks", .build = [](CaseBuilder& b) {
            b.check("y",
                    linear(b.picks("x", 24), {b.param("w", {50, 24})}, {.f32_output = true})[0]);
          }};
}

// As a scalar head has it: its gradients fold over picks.
OpCase one_output_of_picks() {
  return {.op = OpKind::kLinear,
          .name = "linear_one_output_of_picks",
          .build =
              [](CaseBuilder& b) {
                b.check("y", linear(b.picks("x", 24), {b.param("w", {1, 24})})[0]);
              },
          .has_gradient = true};
}

OpCase input_grad_of_picks(int64_t in, int64_t out) {
  return {.op = OpKind::kLinearInputGrad,
          .name = "linear_input_grad_of_picks_" + widths(in, out),
          .build = [=](CaseBuilder& b) {
            b.check("dx", b.tracer().node(OpKind::kLinearInputGrad,
                                          {b.picks("dy", out), b.param("w", {out, in})},
                                          LinearAttrs{})[0]);
          }};
}

OpCase weight_grad_of_picks(int64_t in, int64_t out) {
  return {.op = OpKind::kLinearWeightGrad,
          .name = "linear_weight_grad_of_picks_" + widths(in, out),
          .build = [=](CaseBuilder& b) {
            b.tracer().node(OpKind::kLinearWeightGrad,
                            {b.picks("dy", out), b.picks("x", in), b.state("acc", {out, in})},
                            WeightGradAttrs{});
            b.check_state("acc");
          }};
}

OpCase stored(DType dtype) {
  const int64_t in = dtype == DType::kInt8 ? 195 : dtype_block_elements(dtype) == 256 ? 512 : 192;
  return {.op = OpKind::kLinear,
          .name = "linear_weight_" + std::string(dtype_name(dtype)),
          .build =
              [=](CaseBuilder& b) {
                b.check("y", linear(b.rows("x", in), {b.param("w", {20, in}, dtype)})[0]);
              },
          // f16 weights are rounded to the compute dtype at use: one rounding of each product.
          .tolerance = {.sums = 32, .inner = dtype == DType::kF16 ? 1.0 : 0.0}};
}

// Two adapters on two outputs, ranks that differ, one output with both slots.
OpCase adapters(float dropout, bool check_u) {
  return {.op = OpKind::kLinear,
          .name = dropout > 0 ? "linear_adapters_dropout" : "linear_adapters",
          .build =
              [=](CaseBuilder& b) {
                const Tensor x = b.rows("x", 20);
                LinearAttrs attrs;
                attrs.num_weights = 2;
                attrs.adapters = {{.output = 0,
                                   .slot = 0,
                                   .rank = 4,
                                   .scale = 2,
                                   .dropout = dropout,
                                   .dropout_key = 5},
                                  {.output = 0,
                                   .slot = 1,
                                   .rank = 7,
                                   .scale = 0.5f,
                                   .dropout = dropout,
                                   .dropout_key = 6},
                                  {.output = 1,
                                   .slot = 0,
                                   .rank = 16,
                                   .scale = 1,
                                   .dropout = dropout,
                                   .dropout_key = 7}};
                const auto y = b.tracer().node(
                    OpKind::kLinear,
                    {x, b.param("w0", {18, 20}), b.param("w1", {33, 20}), b.param("a0", {4, 20}),
                     b.param("b0", {18, 4}), b.param("a1", {7, 20}), b.param("b1", {18, 7}),
                     b.param("a2", {16, 20}), b.param("b2", {33, 16})},
                    attrs);
                b.check("y0", y[0]);
                b.check("y1", y[1]);
                if (!check_u) return;
                for (size_t j = 0; j < 3; ++j) {
                  b.check("u" + std::to_string(j), y[2 + j],
                          {.slot = attrs.adapters[j].slot, .differentiable = false});
                }
              },
          // u is rounded, and so is x after dropout.
          .tolerance = {.sums = 32, .inner = 4},
          .has_gradient = true};
}

OpCase input_grad(int64_t in, int64_t out) {
  return {.op = OpKind::kLinearInputGrad,
          .name = "linear_input_grad_" + widths(in, out),
          .build = [=](CaseBuilder& b) {
            b.check("dx", b.tracer().node(OpKind::kLinearInputGrad,
                                          {b.rows("dy", out), b.param("w", {out, in})},
                                          LinearAttrs{})[0]);
          }};
}

OpCase input_grad_of_three(bool with_adapters) {
  return {.op = OpKind::kLinearInputGrad,
          .name = with_adapters ? "linear_input_grad_three_weights_adapters"
                                : "linear_input_grad_three_weights",
          .build = [=](CaseBuilder& b) {
            LinearAttrs attrs;
            attrs.num_weights = 3;
            // Summed widths of 297: two chunks, cut inside every one of the three.
            std::vector<Tensor> inputs{b.rows("dq", 201),       b.rows("dk", 47),
                                       b.rows("dv", 49),        b.param("wq", {201, 24}),
                                       b.param("wk", {47, 24}), b.param("wv", {49, 24})};
            if (with_adapters) {
              attrs.adapters = {
                  {.output = 0, .slot = 0, .rank = 4, .dropout = 0.25f, .dropout_key = 3},
                  {.output = 2, .slot = 1, .rank = 3}};
              for (const Tensor& t : {b.rows("du0", 4), b.param("a0", {4, 24}), b.rows("du1", 3),
                                      b.param("a1", {3, 24})}) {
                inputs.push_back(t);
              }
            }
            b.check("dx", b.tracer().node(OpKind::kLinearInputGrad, inputs, attrs)[0]);
          }};
}

OpCase weight_grad(int64_t in, int64_t out, WeightGradAttrs attrs, const std::string& suffix) {
  return {.op = OpKind::kLinearWeightGrad,
          .name = "linear_weight_grad_" + widths(in, out) + suffix,
          .build =
              [=](CaseBuilder& b) {
                b.tracer().node(OpKind::kLinearWeightGrad,
                                {b.rows("dy", out), b.rows("x", in), b.state("acc", {out, in})},
                                attrs);
                b.check_state("acc");
              },
          // x after dropout may be rounded.
          .tolerance = {.sums = 32, .inner = attrs.x_dropout > 0 ? 1.0 : 0.0}};
}

OpCase lora_up_grad(int64_t rank, int64_t out) {
  return {.op = OpKind::kLoraUpGrad,
          .name = "lora_up_grad_rank" + std::to_string(rank),
          .build = [=](CaseBuilder& b) {
            b.check(
                "du",
                b.tracer().node(OpKind::kLoraUpGrad, {b.rows("dy", out), b.param("b", {out, rank})},
                                LoraAttrs{.slot = 0, .rank = rank, .scale = 2})[0],
                {.slot = 0});
          }};
}

OpCase bias_grad(int64_t out) {
  return {.op = OpKind::kBiasGrad,
          .name = "bias_grad_out" + std::to_string(out),
          .build = [=](CaseBuilder& b) {
            b.tracer().node(OpKind::kBiasGrad, {b.rows("dy", out), b.state("acc", {out})},
                            NoAttrs{});
            b.check_state("acc");
          }};
}

}  // namespace

std::vector<OpCase> linear_cases() {
  std::vector<OpCase> cases{
      shared_input_with_bias(),
      f32_logits(),
      one_output_of_picks(),
      input_grad_of_picks(24, 1),
      input_grad_of_picks(24, 33),
      weight_grad_of_picks(24, 1),
      weight_grad_of_picks(24, 17),
      adapters(0, true),
      adapters(0.25f, true),
      input_grad_of_three(false),
      input_grad_of_three(true),
      weight_grad(20, 17, {.slot = 0}, "_one_slot"),
      weight_grad(20, 4, {.slot = 0, .x_dropout = 0.25f, .dropout_key = 3}, "_dropout"),
      lora_up_grad(1, 7),
      lora_up_grad(8, 300),
      bias_grad(1),
      bias_grad(33)};
  for (const auto& [in, out] : kShapes) {
    cases.push_back(plain(in, out));
    cases.push_back(input_grad(out, in));
    cases.push_back(weight_grad(in, out, {}, ""));
  }
  for (DType dtype :
       {DType::kBF16, DType::kF16, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
        DType::kQ8_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kNF4, DType::kInt8}) {
    cases.push_back(stored(dtype));
  }
  return cases;
}

}  // namespace mainspring::conformance
