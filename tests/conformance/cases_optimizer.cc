// Cases of gradient norms, optimizers, and the sources that every case binds.
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

OpCase lion(std::vector<int64_t> shape, const std::string& suffix) {
  return {.op = OpKind::kLion,
          .name = "lion_" + suffix,
          .build =
              [=](CaseBuilder& b) {
                // lr, beta1, beta2, weight decay, gradient scale
                const Tensor scalars =
                    b.constant("scalars", {8}, {0x1p-7, 0.90625, 0.984375, 0.125, 0.5, 0, 0, 0});
                b.tracer().node(
                    OpKind::kLion,
                    {b.state("param", shape), b.state("m", shape), b.state("grad", shape), scalars},
                    NoAttrs{});
                for (const char* name : {"param", "m"}) b.check_state(name);
              },
          .tolerance = {.sums = 8},
          .rows = {make_rows("no_rows", {})}};
}

// `clip` below the direction's root mean square of about 1: it is cut.
OpCase adafactor(std::vector<int64_t> shape, double clip, const std::string& suffix) {
  return {.op = OpKind::kAdafactor,
          .name = "adafactor_" + suffix,
          .build =
              [=](CaseBuilder& b) {
                // lr, weight decay, rho, rate of step 3, eps1, eps2, clip, gradient scale
                const Tensor scalars =
                    b.constant("scalars", {8},
                               {0x1p-4, 0.125, 0x1p-4, 0.4140625, 0x1p-23, 0x1p-10, clip, 0.5});
                std::vector<Tensor> inputs{b.state("param", shape)};
                std::vector<std::string> names{"param"};
                for (size_t i = 0; i < shape.size(); ++i) {
                  names.push_back("factor" + std::to_string(i));
                  inputs.push_back(b.state(names.back(), {shape[i]}, 0.25, 1));
                }
                inputs.push_back(b.state("grad", shape));
                inputs.push_back(scalars);
                b.tracer().node(OpKind::kAdafactor, inputs, NoAttrs{});
                for (const std::string& name : names) b.check_state(name);
              },
          .tolerance = {.sums = 32},
          .rows = {make_rows("no_rows", {})}};
}

// The iteration's polynomial grows small singular values by up to 3.4^5 = 480 and roundings with
// them, three per step. The rate is large, so that the direction is half of what is compared.
OpCase muon(std::vector<int64_t> shape, DType products, const std::string& suffix) {
  const double sums = products == DType::kF32 ? 480 * 16 : 0x1p24 * 0x1p-8 * 24;
  return {.op = OpKind::kMuon,
          .name = "muon_" + suffix,
          .build =
              [=](CaseBuilder& b) {
                // lr, weight decay, momentum, gradient scale
                const Tensor scalars =
                    b.constant("scalars", {8}, {0.5, 0.125, 0.9375, 0.5, 0, 0, 0, 0});
                b.tracer().node(OpKind::kMuon,
                                {b.state("param", shape), b.state("momentum", shape),
                                 b.state("grad", shape), scalars},
                                MuonAttrs{products, true, 2.0f});
                for (const char* name : {"param", "momentum"}) b.check_state(name);
              },
          .tolerance = {.sums = sums},
          .rows = {make_rows("no_rows", {})}};
}

// lr, beta1, beta2, eps, weight decay, corrections of step 3, gradient scale
const std::vector<double> kAdamwScalars{0x1p-7, 0.90625,   0.984375,   0x1p-27,
                                        0.125,  0.2578125, 0.21484375, 0.5};
constexpr uint64_t kRoundingKey = 0x123456789abcdef0;

// What is stored is the same in every executor, to the bit (exec/ref/compact_states.cc).
OpCase adamw_bf16(std::vector<int64_t> shape, const std::string& suffix) {
  return {.op = OpKind::kAdamw,
          .name = "adamw_bf16_" + suffix,
          .build =
              [=](CaseBuilder& b) {
                const ValueType type{DType::kBF16, {shape}};
                b.tracer().node(OpKind::kAdamw,
                                {b.state("param", type, -1, 1), b.state("m", type, -1, 1),
                                 b.state("v", type, 0, 1), b.state("grad", shape),
                                 b.constant("scalars", {8}, kAdamwScalars), b.integer("step", 3)},
                                RoundingAttrs{kRoundingKey});
                for (const char* name : {"param", "m", "v"}) b.check_state(name);
              },
          .tolerance = kSameBits,
          .rows = {make_rows("no_rows", {})}};
}

OpCase lion_bf16(std::vector<int64_t> shape, const std::string& suffix) {
  return {.op = OpKind::kLion,
          .name = "lion_bf16_" + suffix,
          .build =
              [=](CaseBuilder& b) {
                const ValueType type{DType::kBF16, {shape}};
                const Tensor scalars =
                    b.constant("scalars", {8}, {0x1p-7, 0.90625, 0.984375, 0.125, 0.5, 0, 0, 0});
                b.tracer().node(OpKind::kLion,
                                {b.state("param", type, -1, 1), b.state("m", type, -1, 1),
                                 b.state("grad", shape), scalars, b.integer("step", 70000)},
                                RoundingAttrs{kRoundingKey});
                for (const char* name : {"param", "m"}) b.check_state(name);
              },
          .tolerance = kSameBits,
          .rows = {make_rows("no_rows", {})}};
}

// Maxima below `largest`; 0: all moments are zero, as before the first step.
OpCase adamw_8bit(std::vector<int64_t> shape, DType param, double largest,
                  const std::string& suffix) {
  return {.op = OpKind::kAdamw8bit,
          .name = "adamw_8bit_" + suffix,
          .build =
              [=](CaseBuilder& b) {
                const Shape of_param{shape};
                const int64_t blocks =
                    (of_param.num_elements({}) + kMomentBlock - 1) / kMomentBlock;
                const ValueType codes{DType::kU8, of_param};
                const ValueType maxima{DType::kF32, {{blocks}}};
                std::vector<Tensor> inputs{b.state("param", {param, of_param}, -1, 1)};
                for (const std::string moment : {"m", "v"}) {
                  inputs.push_back(b.state(moment, codes, 0, 256));
                  inputs.push_back(b.state(moment + "_largest", maxima, 0, largest));
                }
                inputs.push_back(b.state("grad", shape));
                inputs.push_back(b.constant("scalars", {8}, kAdamwScalars));
                Attrs attrs = NoAttrs{};
                if (param == DType::kBF16) {
                  inputs.push_back(b.integer("step", 3));
                  attrs = RoundingAttrs{kRoundingKey};
                }
                b.tracer().node(OpKind::kAdamw8bit, inputs, attrs);
                for (const char* name : {"param", "m", "m_largest", "v", "v_largest"}) {
                  b.check_state(name);
                }
              },
          .tolerance = kSameBits,
          .rows = {make_rows("no_rows", {})}};
}

OpCase ema(std::vector<int64_t> shape, DType param, const std::string& suffix) {
  return {.op = OpKind::kEma,
          .name = "ema_" + suffix,
          .build =
              [=](CaseBuilder& b) {
                b.tracer().node(
                    OpKind::kEma,
                    {b.state("average", shape), b.state("param", {param, {shape}}, -1, 1),
                     b.constant("rate", {1}, {0x1.8p-4})},
                    NoAttrs{});
                b.check_state("average");
              },
          .tolerance = {.sums = 4},
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
      adamw({256}, 0, "no_decay"),
      lion({1}, "one"),
      lion({5, 33}, "matrix"),
      adafactor({1}, 1, "one"),
      adafactor({37}, 1, "vector"),
      adafactor({5, 33}, 1, "matrix"),
      adafactor({300, 17}, 1, "chunks_of_rows"),
      adafactor({3, 515}, 1, "chunks_of_columns"),
      adamw_bf16({1}, "one"),
      adamw_bf16({5, 33}, "matrix"),
      adamw_bf16({3, 1111}, "slices"),
      lion_bf16({17}, "vector"),
      lion_bf16({3, 1111}, "slices"),
      adamw_8bit({1}, DType::kF32, 1, "one"),
      adamw_8bit({5, 33}, DType::kF32, 1, "part_of_a_block"),
      adamw_8bit({512}, DType::kF32, 1, "two_blocks"),
      adamw_8bit({3, 1111}, DType::kF32, 1, "slices"),
      adamw_8bit({300}, DType::kF32, 0, "fresh"),
      adamw_8bit({3, 1111}, DType::kBF16, 1, "bf16"),
      ema({1}, DType::kF32, "one"),
      ema({5, 33}, DType::kF32, "matrix"),
      ema({5, 33}, DType::kBF16, "bf16"),
      muon({1, 1}, DType::kF32, "one"),
      muon({5, 33}, DType::kF32, "wide"),
      muon({33, 5}, DType::kF32, "tall"),
      muon({16, 300}, DType::kF32, "chunks"),
      muon({1, 1}, DType::kBF16, "one_bf16"),
      muon({5, 33}, DType::kBF16, "wide_bf16"),
      muon({33, 5}, DType::kBF16, "tall_bf16"),
      muon({16, 300}, DType::kBF16, "chunks_bf16")};
}

}  // namespace mainspring::conformance
