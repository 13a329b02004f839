// Cases of gradient norms, AdamW, and the sources that every case binds.
#include "tests/conformance/op_cases.h"

namespace mainspring::conformance {
namespace {

OpCase sum_of_squares(std::vector<std::vector<int64_t>> shapes, const std::string& suffix) {
  return {.op = OpKind::kSumOfSquares,
          .name = "sum_of_squares_" + suffix,
          .build =
              [=](CaseBuilder& b) {
                std::vector<Tensor> gradients;
                for (size_t i = 0; i < shapes.size(); ++i) {
                  gradients.push_back(b.state("g" + std::to_string(i), shapes[i]));
                }
                b.check("sum", b.tracer().node(OpKind::kSumOfSquares, gradients, NoAttrs{})[0]);
              },
          .rows = {make_rows("no_rows", {})}};
}

OpCase accumulate(std::vector<int64_t> shape, int terms, const std::string& suffix) {
  return {.op = OpKind::kAccumulate,
          .name = "accumulate_" + suffix,
          .build =
              [=](CaseBuilder& b) {
                std::vector<Tensor> inputs{b.state("sum", shape)};
                for (int i = 0; i < terms; ++i) {
                  inputs.push_back(b.state("x" + std::to_string(i), shape));
                }
                b.tracer().node(OpKind::kAccumulate, inputs, NoAttrs{});
                b.check_state("sum");
              },
          .rows = {make_rows("no_rows", {})}};
}

OpCase adamw(std::vector<int64_t> shape, double weight_decay, const std::string& suffix) {
  return {.op = OpKind::kAdamw,
          .name = "adamw_" + suffix,
          .build =
              [=](CaseBuilder& b) {
                // lr, beta1, beta2, eps, weight decay, corrections of step 3, gradient scale
                const Tensor scalars = b.constant(
                    "scalars", {8},
                    {0x1p-7, 0.90625, 0.984375, 0x1p-27, weight_decay, 0.2578125, 0.21484375, 0.5});
                b.tracer().node(OpKind::kAdamw,
                                {b.state("param", shape), b.state("m", shape),
                                 b.state("v", shape, 0, 1), b.state("grad", shape), scalars},
                                NoAttrs{});
                for (const char* name : {"param", "m", "v"}) b.check_state(name);
              },
          .tolerance = {.sums = 8},
          .rows = {make_rows("no_rows", {})}};
}

OpCase source(OpKind op, const std::string& name, std::function<Tensor(CaseBuilder&)> make) {
  return {.op = op,
          .name = name,
          .build = [=](CaseBuilder& b) { b.check("y", silu(make(b))); },
          .tolerance = {.sums = 16, .inner = 0}};
}

}  // namespace

std::vector<OpCase> optimizer_cases() {
  return {
      source(OpKind::kInput, "input", [](CaseBuilder& b) { return b.rows("x", 3); }),
      {.op = OpKind::kParam,
       .name = "param",
       .build =
           [](CaseBuilder& b) { b.check("y", linear(b.rows("x", 3), {b.param("w", {2, 3})})[0]); }},
      {.op = OpKind::kState,
       .name = "state",
       .build =
           [](CaseBuilder& b) {
             b.tracer().node(OpKind::kBiasGrad, {b.rows("dy", 3), b.state("acc", {3})}, NoAttrs{});
             b.check_state("acc");
           }},
      accumulate({1}, 1, "one"),
      accumulate({3, 17}, 2, "matrix"),
      sum_of_squares({{1}}, "one"),
      sum_of_squares({{7, 17}, {300}, {3, 515}}, "three"),
      adamw({1}, 0, "one"),
      adamw({5, 33}, 0.125, "matrix"),
      adamw({256}, 0, "no_decay")};
}

}  // namespace mainspring::conformance
