// Cases of embedding, norms, rope, elementwise ops, row moves and their gradients.
#include <cmath>

#include "tests/conformance/op_cases.h"

namespace mainspring::conformance {
namespace {

std::string with_width(const std::string& stem, int64_t width) {
  return stem + "_d" + std::to_string(width);
}

Tensor node(CaseBuilder& b, OpKind op, std::vector<Tensor> inputs, Attrs attrs = NoAttrs{}) {
  return b.tracer().node(op, std::move(inputs), std::move(attrs))[0];
}

OpCase embedding_case(int64_t d, DType dtype) {
  return {.op = OpKind::kEmbedding,
          .name = with_width("embedding_" + std::string(dtype_name(dtype)), d),
          .build =
              [=](CaseBuilder& b) {
                b.check("y", embedding(b.tokens("tokens", 11), b.param("table", {11, d}, dtype)));
              },
          .has_gradient = dtype == DType::kF32};
}

OpCase embedding_grad_case(int64_t d) {
  return {.op = OpKind::kEmbeddingGrad,
          .name = with_width("embedding_grad", d),
          .build = [=](CaseBuilder& b) {
            b.tracer().node(OpKind::kEmbeddingGrad,
                            {b.tokens("tokens", 5), b.rows("dy", d), b.state("acc", {5, d})},
                            NoAttrs{});
            b.check_state("acc");
          }};
}

OpCase position_embedding_case(int64_t d, DType dtype) {
  return {.op = OpKind::kPositionEmbedding,
          .name = with_width("position_embedding_" + std::string(dtype_name(dtype)), d),
          .build =
              [=](CaseBuilder& b) {
                const Tensor y = position_embedding(b.param("table", {256, d}, dtype));
                b.check("y", add({y, b.rows("x", d)}));
              },
          .has_gradient = dtype == DType::kF32};
}

OpCase position_embedding_grad_case(int64_t d) {
  return {.op = OpKind::kPositionEmbeddingGrad,
          .name = with_width("position_embedding_grad", d),
          .build = [=](CaseBuilder& b) {
            b.tracer().node(OpKind::kPositionEmbeddingGrad,
                            {b.rows("dy", d), b.state("acc", {256, d})}, NoAttrs{});
            b.check_state("acc");
          }};
}

OpCase layer_norm_case(int64_t width, bool by_picks) {
  return {.op = OpKind::kLayerNorm,
          .name = with_width("layer_norm", width) + (by_picks ? "_of_picks" : ""),
          .build =
              [=](CaseBuilder& b) {
                const Tensor x = by_picks ? b.picks("x", width) : b.rows("x", width);
                b.check("y", layer_norm(x, b.param("w", {width}), b.param("b", {width}), 1e-5f));
              },
          // x - mean is a difference of neighbours
          .tolerance = {.sums = 32, .inner = 0, .magnitude = 1},
          // At width 1 the result does not depend on x.
          .has_gradient = width > 1 && width <= 64};
}

OpCase layer_norm_grad_case(int64_t width, bool is_frozen) {
  return {.op = OpKind::kLayerNormGrad,
          .name = with_width("layer_norm_grad", width) + (is_frozen ? "_frozen" : ""),
          .build =
              [=](CaseBuilder& b) {
                std::vector<Tensor> inputs{b.rows("x", width), b.param("w", {width}),
                                           b.rows("dy", width)};
                if (!is_frozen) inputs.push_back(b.state("acc", {width}));
                b.check("dx", node(b, OpKind::kLayerNormGrad, inputs, NormAttrs{width, 1e-5f}));
                if (!is_frozen) b.check_state("acc");
              },
          .tolerance = {.sums = 64, .inner = 0, .magnitude = 1}};
}

OpCase rms_norm_plus_one_case(int64_t groups, int64_t width) {
  return {.op = OpKind::kRmsNorm,
          .name = with_width("rms_norm_plus_one_" + std::to_string(groups) + "_groups", width),
          .build =
              [=](CaseBuilder& b) {
                b.check("y", rms_norm(b.rows("x", groups * width), b.param("w", {width}), 1e-5f,
                                      /*plus_one=*/true));
              },
          .tolerance = {.sums = 16},
          .has_gradient = true};
}

OpCase rms_norm_case(int64_t groups, int64_t width) {
  return {.op = OpKind::kRmsNorm,
          .name = with_width("rms_norm_" + std::to_string(groups) + "_groups", width),
          .build =
              [=](CaseBuilder& b) {
                b.check("y", rms_norm(b.rows("x", groups * width), b.param("w", {width}), 1e-5f));
              },
          // At width 1, dx is what is left of a difference of equals: no executor could be near.
          .has_gradient = width > 1 && width <= 64};
}

OpCase rms_norm_of_picks() {
  return {.op = OpKind::kRmsNorm,
          .name = "rms_norm_of_picks",
          .build =
              [](CaseBuilder& b) {
                b.check("y", rms_norm(b.picks("x", 24), b.param("w", {24}), 1e-6f));
              },
          .has_gradient = true};
}

OpCase rms_norm_grad_case(int64_t groups, int64_t width, bool is_frozen) {
  return {.op = OpKind::kRmsNormGrad,
          .name = with_width("rms_norm_grad_" + std::to_string(groups) + "_groups", width) +
                  (is_frozen ? "_frozen" : ""),
          .build =
              [=](CaseBuilder& b) {
                std::vector<Tensor> inputs{b.rows("x", groups * width), b.param("w", {width}),
                                           b.rows("dy", groups * width)};
                if (!is_frozen) inputs.push_back(b.state("acc", {width}));
                b.check("dx", node(b, OpKind::kRmsNormGrad, inputs, NormAttrs{width, 1e-5f}));
                if (!is_frozen) b.check_state("acc");
              },
          // At width 1, dx is a difference of equals of the size of dy * w / x.
          .tolerance = {.sums = 32, .inner = 0, .magnitude = 1}};
}

// Angles of position p and pair i, rounded to f32 as a table is.
std::vector<double> rope_table(int64_t positions, int64_t half) {
  std::vector<double> table;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) *
                           std::pow(100.0, -static_cast<double>(i) / static_cast<double>(half));
      table.push_back(std::cos(angle));
      table.push_back(std::sin(angle));
    }
  }
  return table;
}

OpCase rope_case(int64_t heads, int64_t c, int64_t rotary, bool inverse) {
  return {.op = OpKind::kRope,
          .name = "rope_h" + std::to_string(heads) + "_c" + std::to_string(c) +
                  (rotary < c ? "_rotary" + std::to_string(rotary) : "") +
                  (inverse ? "_inverse" : ""),
          .build =
              [=](CaseBuilder& b) {
                const Tensor table =
                    b.constant("table", {64, rotary / 2, 2}, rope_table(64, rotary / 2));
                b.check("y", node(b, OpKind::kRope, {b.rows("x", heads * c), table},
                                  RopeAttrs{heads, c, inverse}));
              },
          // two products and a sum, where 2^-24 of the table's f32 shows
          .tolerance = {.sums = 4},
          .has_gradient = !inverse};
}

OpCase elementwise_case(OpKind op, const std::string& stem, size_t num_inputs, int64_t width,
                        double inner, bool has_gradient) {
  return {.op = op,
          .name = with_width(stem, width),
          .build =
              [=](CaseBuilder& b) {
                std::vector<Tensor> inputs;
                for (size_t i = 0; i < num_inputs; ++i) {
                  inputs.push_back(b.rows("x" + std::to_string(i), width, 4));
                }
                const auto outputs = b.tracer().node(op, inputs, NoAttrs{});
                for (size_t i = 0; i < outputs.size(); ++i)
                  b.check("y" + std::to_string(i), outputs[i]);
              },
          .tolerance = {.sums = 16, .inner = inner},
          .has_gradient = has_gradient};
}

// Far from zero sigmoid saturates; exp must neither overflow nor lose the tail.
OpCase silu_extremes() {
  return {.op = OpKind::kSilu,
          .name = "silu_extremes",
          .build = [](CaseBuilder& b) { b.check("y", silu(b.rows("x", 33, 200))); },
          .tolerance = {.sums = 16}};
}

OpCase gelu_extremes() {
  return {.op = OpKind::kGelu,
          .name = "gelu_extremes",
          .build = [](CaseBuilder& b) { b.check("y", gelu(b.rows("x", 33, 200))); },
          .tolerance = {.sums = 16}};
}

// Embeddings are scaled before the first layer.
OpCase scale_of_activations(int64_t width) {
  return {.op = OpKind::kScale,
          .name = with_width("scale_of_activations", width),
          .build = [=](CaseBuilder& b) { b.check("y", scale(b.rows("x", width), 5.5f)); },
          .has_gradient = true};
}

// Logits of a linear with f32 output, as the sampler has them.
OpCase soft_cap_case(float cap) {
  return {.op = OpKind::kSoftCap,
          .name = "soft_cap_" + std::to_string(static_cast<int>(cap)),
          .build =
              [=](CaseBuilder& b) {
                const Tensor logits =
                    linear(b.picks("x", 17, 4), {b.param("w", {45, 17})}, {.f32_output = true})[0];
                b.check("y", soft_cap(logits, cap), {.differentiable = false});
              },
          .tolerance = {.sums = 32}};
}

// A second table behind the first: its angles start at row 32.
OpCase rope_second_table() {
  return {.op = OpKind::kRope,
          .name = "rope_second_table",
          .build =
              [](CaseBuilder& b) {
                const Tensor table = b.constant("table", {96, 8, 2}, rope_table(96, 8));
                b.check("y", rope(b.rows("x", 2 * 16), table, 2, /*first_row=*/32));
              },
          .tolerance = {.sums = 4},
          .has_gradient = true};
}

OpCase gather_case(int64_t d) {
  return {.op = OpKind::kGatherRows,
          .name = with_width("gather_rows", d),
          .build = [=](CaseBuilder& b) { b.check("y", gather_rows(b.rows("x", d))); },
          .tolerance = {.sums = 0},
          .has_gradient = true};
}

OpCase scatter_case(int64_t d) {
  return {
      .op = OpKind::kScatterRows,
      .name = with_width("scatter_rows", d),
      .build =
          [=](CaseBuilder& b) { b.check("y", node(b, OpKind::kScatterRows, {b.picks("dy", d)})); },
      .tolerance = {.sums = 0}};
}

}  // namespace

std::vector<OpCase> row_cases() {
  std::vector<OpCase> cases{gelu_extremes(),
                            soft_cap_case(30.0f),
                            soft_cap_case(3.0f),
                            rope_second_table(),
                            layer_norm_case(24, true),
                            silu_extremes(),
                            rms_norm_of_picks(),
                            rope_case(1, 2, 2, false),
                            rope_case(3, 16, 16, false),
                            rope_case(2, 64, 64, true),
                            rope_case(3, 24, 6, false),
                            rope_case(2, 64, 48, true)};
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kInt8})
    cases.push_back(embedding_case(9, dtype));
  for (DType dtype : {DType::kF32, DType::kBF16})
    cases.push_back(position_embedding_case(19, dtype));
  cases.push_back(rms_norm_plus_one_case(1, 33));
  cases.push_back(rms_norm_plus_one_case(3, 16));
  for (DType dtype : {DType::kQ4_0, DType::kQ5_1, DType::kQ8_0, DType::kNF4})
    cases.push_back(embedding_case(64, dtype));
  for (DType dtype : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K})
    cases.push_back(embedding_case(256, dtype));
  for (int64_t width : {1, 17, 64, 300}) {
    cases.push_back(rms_norm_case(1, width));
    cases.push_back(rms_norm_grad_case(1, width, width == 17));
    cases.push_back(embedding_grad_case(width));
    cases.push_back(position_embedding_grad_case(width));
    cases.push_back(layer_norm_case(width, false));
    cases.push_back(layer_norm_grad_case(width, width == 17));
  }
  cases.push_back(rms_norm_case(3, 16));
  cases.push_back(rms_norm_grad_case(3, 16, false));
  for (int64_t width : {1, 16, 33}) {
    cases.push_back(elementwise_case(OpKind::kSilu, "silu", 1, width, 0, true));
    cases.push_back(elementwise_case(OpKind::kSiluGrad, "silu_grad", 2, width, 0, false));
    cases.push_back(elementwise_case(OpKind::kMul, "mul", 2, width, 0, true));
    cases.push_back(elementwise_case(OpKind::kSiluMul, "silu_mul", 2, width, 1, true));
    cases.push_back(elementwise_case(OpKind::kSiluMulGrad, "silu_mul_grad", 3, width, 2, false));
    cases.push_back(elementwise_case(OpKind::kGelu, "gelu", 1, width, 0, true));
    cases.push_back(elementwise_case(OpKind::kGeluGrad, "gelu_grad", 2, width, 0, false));
    cases.push_back(elementwise_case(OpKind::kGeluMul, "gelu_mul", 2, width, 1, true));
    cases.push_back(elementwise_case(OpKind::kGeluMulGrad, "gelu_mul_grad", 3, width, 2, false));
    cases.push_back(scale_of_activations(width));
    cases.push_back(elementwise_case(OpKind::kAdd, "add_two", 2, width, 0, true));
    cases.push_back(elementwise_case(OpKind::kAdd, "add_five", 5, width, 0, true));
    cases.push_back(gather_case(width));
    cases.push_back(scatter_case(width));
  }
  return cases;
}

}  // namespace mainspring::conformance
