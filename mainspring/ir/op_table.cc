// The facts themselves. Order of rows = order of OpKind, checked by op_info's test.
#include "mainspring/ir/op_table.h"

#include <string>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

using Types = TypeRefs;

std::string got(const Types& inputs, size_t index) {
  return index < inputs.size() ? inputs[index].to_string() : "nothing";
}

Status expect(bool condition, const std::string& expected, const std::string& received) {
  if (condition) return {};
  return invalid_argument("expected " + expected + ", got " + received);
}

bool is_f32(const ValueType& type, const std::vector<int64_t>& dims) {
  return type.dtype == DType::kF32 && type.shape.dims == dims;
}

Status expect_accumulator(const Types& in, size_t index, const std::vector<int64_t>& dims) {
  return expect(is_f32(in[index], dims), "an accumulator f32" + Shape{dims}.to_string(),
                got(in, index));
}

// A matrix whose last axis is `width` (any when 0) and whose first is rows or picked.
bool is_activation(const ValueType& type, DType dtype, int64_t width) {
  return type.dtype == dtype && type.shape.rank() == 2 && type.shape.dims[0] < 0 &&
         (width == 0 || type.shape.dims[1] == width);
}

Status expect_count(const Types& inputs, size_t count) {
  return expect(inputs.size() == count, std::to_string(count) + " inputs",
                std::to_string(inputs.size()));
}

Result<Types> infer_source(DType, const Attrs&, const Types&) { return Types{}; }

Result<Types> infer_embedding(DType compute, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 2));
  MS_RETURN_IF_ERROR(expect(in[0].dtype == DType::kI32 && in[0].shape.rank() == 1,
                            "tokens i32(rows)", got(in, 0)));
  MS_RETURN_IF_ERROR(expect(in[1].shape.rank() == 2, "a table (v, d)", got(in, 1)));
  return Types{{compute, {{in[0].shape.dims[0], in[1].shape.dims[1]}}}};
}

Result<Types> infer_linear(DType compute, const Attrs& attrs, const Types& in) {
  const auto& a = std::get<LinearAttrs>(attrs);
  const size_t n = static_cast<size_t>(a.num_weights);
  const size_t fixed = 1 + n * (a.has_bias ? 2 : 1);
  MS_RETURN_IF_ERROR(expect_count(in, fixed + 2 * a.adapters.size()));
  MS_RETURN_IF_ERROR(expect(is_activation(in[0], compute, 0), "x (rows, in)", got(in, 0)));
  const int64_t width = in[0].shape.dims[1];
  const int64_t rows = in[0].shape.dims[0];
  Types out;
  for (size_t i = 0; i < n; ++i) {
    const Shape& w = in[1 + i].shape;
    MS_RETURN_IF_ERROR(expect(w.rank() == 2 && w.dims[1] == width,
                              "a weight (out, " + std::to_string(width) + ")", got(in, 1 + i)));
    if (a.has_bias) {
      MS_RETURN_IF_ERROR(expect(in[1 + n + i].shape.dims == std::vector<int64_t>{w.dims[0]},
                                "a bias (" + std::to_string(w.dims[0]) + ")", got(in, 1 + n + i)));
    }
    out.push_back({a.f32_output ? DType::kF32 : compute, {{rows, w.dims[0]}}});
  }
  for (size_t j = 0; j < a.adapters.size(); ++j) {
    const LoraAttrs& lora = a.adapters[j];
    MS_RETURN_IF_ERROR(expect(lora.output >= 0 && lora.output < a.num_weights,
                              "an adapter on one of the outputs", std::to_string(lora.output)));
    const Shape want_a{{lora.rank, width}};
    const Shape want_b{{in[1 + static_cast<size_t>(lora.output)].shape.dims[0], lora.rank}};
    MS_RETURN_IF_ERROR(expect(in[fixed + 2 * j].shape == want_a, "A " + want_a.to_string(),
                              got(in, fixed + 2 * j)));
    MS_RETURN_IF_ERROR(expect(in[fixed + 2 * j + 1].shape == want_b, "B " + want_b.to_string(),
                              got(in, fixed + 2 * j + 1)));
    out.push_back({compute, {{rows, lora.rank}}});
  }
  return out;
}

Result<Types> infer_rms_norm(DType compute, const Attrs& attrs, const Types& in) {
  const auto& a = std::get<NormAttrs>(attrs);
  MS_RETURN_IF_ERROR(expect_count(in, 2));
  MS_RETURN_IF_ERROR(
      expect(is_activation(in[0], compute, 0) && a.width > 0 && in[0].shape.dims[1] % a.width == 0,
             "x (rows, multiple of " + std::to_string(a.width) + ")", got(in, 0)));
  MS_RETURN_IF_ERROR(expect(in[1].shape.dims == std::vector<int64_t>{a.width},
                            "w (" + std::to_string(a.width) + ")", got(in, 1)));
  return Types{in[0]};
}

// Inputs x, w, b.
Result<Types> infer_layer_norm(DType compute, const Attrs& attrs, const Types& in) {
  const auto& a = std::get<NormAttrs>(attrs);
  MS_RETURN_IF_ERROR(expect_count(in, 3));
  MS_RETURN_IF_ERROR(expect(a.width > 0 && is_activation(in[0], compute, a.width),
                            "x (rows, " + std::to_string(a.width) + ")", got(in, 0)));
  for (size_t i = 1; i < 3; ++i) {
    MS_RETURN_IF_ERROR(expect(in[i].shape.dims == std::vector<int64_t>{a.width},
                              "w, b (" + std::to_string(a.width) + ")", got(in, i)));
  }
  return Types{in[0]};
}

// Input table (positions, d): a row of it per row.
Result<Types> infer_position_embedding(DType compute, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 1));
  MS_RETURN_IF_ERROR(expect(in[0].shape.rank() == 2, "a table (positions, d)", got(in, 0)));
  return Types{{compute, {{kRows, in[0].shape.dims[1]}}}};
}

Result<Types> infer_rope(DType compute, const Attrs& attrs, const Types& in) {
  const auto& a = std::get<RopeAttrs>(attrs);
  MS_RETURN_IF_ERROR(expect_count(in, 2));
  MS_RETURN_IF_ERROR(expect(is_activation(in[0], compute, a.heads * a.head_width),
                            "x (rows, " + std::to_string(a.heads * a.head_width) + ")",
                            got(in, 0)));
  const Shape& t = in[1].shape;
  MS_RETURN_IF_ERROR(expect(in[1].dtype == DType::kF32 && t.rank() == 3 && t.dims[1] > 0 &&
                                t.dims[1] <= a.head_width / 2 && t.dims[2] == 2,
                            "a table f32(positions, at most c/2, 2)", got(in, 1)));
  MS_RETURN_IF_ERROR(expect(a.first_row >= 0 && a.first_row < t.dims[0], "a first row of the table",
                            std::to_string(a.first_row)));
  return Types{in[0]};
}

Status expect_attention(DType compute, const AttentionAttrs& a, const Types& in) {
  MS_RETURN_IF_ERROR(expect(a.kv_heads > 0 && a.query_heads % a.kv_heads == 0,
                            "query heads a multiple of kv heads",
                            std::to_string(a.query_heads) + " and " + std::to_string(a.kv_heads)));
  const int64_t q = a.query_heads * a.head_width;
  const int64_t kv = a.kv_heads * a.head_width;
  MS_RETURN_IF_ERROR(
      expect(is_activation(in[0], compute, q), "q (rows, " + std::to_string(q) + ")", got(in, 0)));
  for (size_t i = 1; i < 3; ++i) {
    MS_RETURN_IF_ERROR(expect(is_activation(in[i], compute, kv),
                              "k, v (rows, " + std::to_string(kv) + ")", got(in, i)));
  }
  return {};
}

Result<Types> infer_attention(DType compute, const Attrs& attrs, const Types& in) {
  const auto& a = std::get<AttentionAttrs>(attrs);
  MS_RETURN_IF_ERROR(expect_count(in, 3));
  MS_RETURN_IF_ERROR(expect_attention(compute, a, in));
  return Types{in[0], {DType::kF32, {{in[0].shape.dims[0], a.query_heads}}}};
}

Result<Types> infer_attention_grad(DType compute, const Attrs& attrs, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 6));
  const auto& a = std::get<AttentionAttrs>(attrs);
  MS_RETURN_IF_ERROR(expect_attention(compute, a, in));
  MS_RETURN_IF_ERROR(expect(in[3] == in[0], "o like q", got(in, 3)));
  MS_RETURN_IF_ERROR(
      expect(is_f32(in[4], {in[0].shape.dims[0], a.query_heads}), "lse f32(rows, h)", got(in, 4)));
  MS_RETURN_IF_ERROR(expect(in[5] == in[0], "d_o like q", got(in, 5)));
  return Types{in[0], in[1], in[2]};
}

Result<Types> infer_same_as_first(DType, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect(!in.empty(), "at least one input", "none"));
  for (size_t i = 1; i < in.size(); ++i) {
    MS_RETURN_IF_ERROR(expect(in[i] == in[0], in[0].to_string(), got(in, i)));
  }
  return Types{in[0]};
}

template <size_t kCount>
Result<Types> infer_same(DType compute, const Attrs& attrs, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, kCount));
  return infer_same_as_first(compute, attrs, in);
}

Result<Types> infer_gather(DType compute, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 1));
  MS_RETURN_IF_ERROR(expect(is_activation(in[0], compute, 0) && in[0].shape.dims[0] == kRows,
                            "x (rows, d)", got(in, 0)));
  return Types{{compute, {{kPicked, in[0].shape.dims[1]}}}};
}

Result<Types> infer_scatter(DType compute, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 1));
  MS_RETURN_IF_ERROR(expect(is_activation(in[0], compute, 0) && in[0].shape.dims[0] == kPicked,
                            "dy (picked, d)", got(in, 0)));
  return Types{{compute, {{kRows, in[0].shape.dims[1]}}}};
}

Status expect_head(DType compute, const Types& in) {
  MS_RETURN_IF_ERROR(expect(is_activation(in[0], compute, 0), "x (picked, d)", got(in, 0)));
  MS_RETURN_IF_ERROR(expect(in[1].shape.rank() == 2 && in[1].shape.dims[1] == in[0].shape.dims[1],
                            "a head (v, d)", got(in, 1)));
  const Shape& targets = in[2].shape;
  return expect(in[2].dtype == DType::kI32 && targets.rank() >= 1 && targets.rank() <= 2 &&
                    targets.dims[0] == in[0].shape.dims[0],
                "targets i32(picked) or i32(picked, k)", got(in, 2));
}

Result<Types> infer_head(DType compute, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 3));
  MS_RETURN_IF_ERROR(expect_head(compute, in));
  return Types{{DType::kF32, in[2].shape}, {DType::kF32, {{in[0].shape.dims[0]}}}};
}

// Where the head's accumulator stands among its gradient's inputs, if it is there.
size_t head_accumulator(const Attrs& attrs) {
  const auto* a = std::get_if<HeadAttrs>(&attrs);
  return a != nullptr && a->has_d_lse ? 6 : 5;
}

// Inputs x, w, targets, lse, d_logprob [, d_lse] [, acc]; outputs dx [, acc].
Result<Types> infer_head_grad(DType compute, const Attrs& attrs, const Types& in) {
  const size_t acc = head_accumulator(attrs);
  MS_RETURN_IF_ERROR(expect(in.size() == acc || in.size() == acc + 1,
                            std::to_string(acc) + " inputs or one more",
                            std::to_string(in.size())));
  MS_RETURN_IF_ERROR(expect_head(compute, in));
  for (size_t i = 3; i < acc; ++i) {
    if (i == 4) continue;
    MS_RETURN_IF_ERROR(
        expect(is_f32(in[i], {in[0].shape.dims[0]}), "lse, d_lse f32(picked)", got(in, i)));
  }
  MS_RETURN_IF_ERROR(
      expect(is_f32(in[4], in[2].shape.dims), "d_logprob f32 like the targets", got(in, 4)));
  Types out{in[0]};
  if (in.size() > acc) {
    MS_RETURN_IF_ERROR(expect_accumulator(in, acc, in[1].shape.dims));
    out.push_back(in[acc]);
  }
  return out;
}

Result<Types> infer_scale(DType compute, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 1));
  MS_RETURN_IF_ERROR(expect(in[0].dtype == DType::kF32 || in[0].dtype == compute,
                            "f32 or an activation", got(in, 0)));
  return Types{in[0]};
}

Result<Types> infer_soft_cap(DType, const Attrs& attrs, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 1));
  MS_RETURN_IF_ERROR(expect(in[0].dtype == DType::kF32, "f32", got(in, 0)));
  const float cap = std::get<ScalarAttrs>(attrs).value;
  MS_RETURN_IF_ERROR(expect(cap > 0.0f, "a positive cap", std::to_string(cap)));
  return Types{in[0]};
}

Result<Types> infer_reduce_sum(DType, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 1));
  MS_RETURN_IF_ERROR(expect(in[0].dtype == DType::kF32, "f32", got(in, 0)));
  return Types{{DType::kF32, {{1}}}};
}

Result<Types> infer_fill(DType, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 0));
  return Types{{DType::kF32, {{kPicked}}}};
}

// Inputs tokens, dy, acc.
Result<Types> infer_embedding_grad(DType compute, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 3));
  MS_RETURN_IF_ERROR(expect(is_activation(in[1], compute, 0), "dy (rows, d)", got(in, 1)));
  MS_RETURN_IF_ERROR(expect(in[2].dtype == DType::kF32 && in[2].shape.rank() == 2 &&
                                in[2].shape.dims[1] == in[1].shape.dims[1],
                            "an accumulator f32(v, d)", got(in, 2)));
  return Types{in[2]};
}

// Inputs dy, acc (positions, d).
Result<Types> infer_position_embedding_grad(DType compute, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 2));
  MS_RETURN_IF_ERROR(expect(is_activation(in[0], compute, 0), "dy (rows, d)", got(in, 0)));
  MS_RETURN_IF_ERROR(expect(in[1].dtype == DType::kF32 && in[1].shape.rank() == 2 &&
                                in[1].shape.dims[1] == in[0].shape.dims[1],
                            "an accumulator f32(positions, d)", got(in, 1)));
  return Types{in[1]};
}

Result<Types> infer_linear_input_grad(DType compute, const Attrs& attrs, const Types& in) {
  const auto& a = std::get<LinearAttrs>(attrs);
  const size_t n = static_cast<size_t>(a.num_weights);
  MS_RETURN_IF_ERROR(expect_count(in, 2 * n + 2 * a.adapters.size()));
  for (size_t i = 0; i < n; ++i) {
    MS_RETURN_IF_ERROR(expect(
        in[n + i].shape.rank() == 2 && is_activation(in[i], compute, in[n + i].shape.dims[0]),
        "dy (rows, out) for a weight (out, in)", got(in, i)));
  }
  const int64_t rows = in[0].shape.dims[0];
  const int64_t width = in[n].shape.dims[1];
  for (size_t i = 1; i < n; ++i) {
    MS_RETURN_IF_ERROR(expect(in[n + i].shape.dims[1] == width,
                              "weights (out, " + std::to_string(width) + ")", got(in, n + i)));
  }
  for (size_t j = 0; j < a.adapters.size(); ++j) {
    const size_t du = 2 * n + 2 * j;
    const Shape want_a{{a.adapters[j].rank, width}};
    MS_RETURN_IF_ERROR(
        expect(is_activation(in[du], compute, a.adapters[j].rank), "du (rows, rank)", got(in, du)));
    MS_RETURN_IF_ERROR(
        expect(in[du + 1].shape == want_a, "A " + want_a.to_string(), got(in, du + 1)));
  }
  return Types{{compute, {{rows, width}}}};
}

// Inputs dy, x, acc (out, in).
Result<Types> infer_weight_grad(DType compute, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 3));
  MS_RETURN_IF_ERROR(expect(is_activation(in[0], compute, 0) && is_activation(in[1], compute, 0),
                            "dy (rows, out), x (rows, in)", got(in, 0) + ", " + got(in, 1)));
  MS_RETURN_IF_ERROR(expect_accumulator(in, 2, {in[0].shape.dims[1], in[1].shape.dims[1]}));
  return Types{in[2]};
}

// Inputs dy (rows, out), B (out, rank).
Result<Types> infer_lora_up_grad(DType compute, const Attrs& attrs, const Types& in) {
  const auto& a = std::get<LoraAttrs>(attrs);
  MS_RETURN_IF_ERROR(expect_count(in, 2));
  MS_RETURN_IF_ERROR(expect(in[1].shape.rank() == 2 && in[1].shape.dims[1] == a.rank &&
                                is_activation(in[0], compute, in[1].shape.dims[0]),
                            "dy (rows, out), B (out, rank)", got(in, 0) + ", " + got(in, 1)));
  return Types{{compute, {{in[0].shape.dims[0], a.rank}}}};
}

// Inputs dy (rows, out), acc (out).
Result<Types> infer_bias_grad(DType compute, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 2));
  MS_RETURN_IF_ERROR(expect(is_activation(in[0], compute, 0), "dy (rows, out)", got(in, 0)));
  MS_RETURN_IF_ERROR(expect_accumulator(in, 1, {in[0].shape.dims[1]}));
  return Types{in[1]};
}

// Inputs x, w, dy [, acc]; outputs dx [, acc].
Result<Types> infer_rms_norm_grad(DType compute, const Attrs& attrs, const Types& in) {
  MS_RETURN_IF_ERROR(
      expect(in.size() == 3 || in.size() == 4, "3 or 4 inputs", std::to_string(in.size())));
  MS_RETURN_IF_ERROR(infer_rms_norm(compute, attrs, {in[0], in[1]}).status());
  MS_RETURN_IF_ERROR(expect(in[0] == in[2], "dy like x", got(in, 2)));
  Types out{in[0]};
  if (in.size() == 4) {
    MS_RETURN_IF_ERROR(expect_accumulator(in, 3, {std::get<NormAttrs>(attrs).width}));
    out.push_back(in[3]);
  }
  return out;
}

// Inputs x, w, dy [, acc]; outputs dx [, acc].
Result<Types> infer_layer_norm_grad(DType compute, const Attrs& attrs, const Types& in) {
  return infer_rms_norm_grad(compute, attrs, in);
}

// Inputs gate, up, dy; outputs dgate, dup.
Result<Types> infer_gated_grad(DType compute, const Attrs& attrs, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 3));
  MS_RETURN_IF_ERROR(infer_same_as_first(compute, attrs, in).status());
  return Types{in[0], in[0]};
}

Result<Types> infer_sum_of_squares(DType, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect(!in.empty(), "at least one gradient", "none"));
  return Types{{DType::kF32, {{1}}}};
}

Status expect_scalars(const Types& in, size_t index) {
  return expect(is_f32(in[index], {8}), "scalars f32(8)", got(in, index));
}

// The inputs behind `states` states, of which the first is the parameter: grad f32 of its shape,
// scalars f32(8), and step i32(1) if the parameter is bf16, whose rounding it keys.
Status expect_step_inputs(const Attrs& attrs, const Types& in, size_t states) {
  const bool rounds = !in.empty() && in[0].dtype == DType::kBF16;
  MS_RETURN_IF_ERROR(expect_count(in, states + (rounds ? 3 : 2)));
  MS_RETURN_IF_ERROR(
      expect(rounds || in[0].dtype == DType::kF32, "a parameter in f32 or bf16", got(in, 0)));
  MS_RETURN_IF_ERROR(expect(is_f32(in[states], in[0].shape.dims),
                            "a gradient f32" + in[0].shape.to_string(), got(in, states)));
  MS_RETURN_IF_ERROR(expect_scalars(in, states + 1));
  if (!rounds) return {};
  MS_RETURN_IF_ERROR(
      expect(std::holds_alternative<RoundingAttrs>(attrs), "a rounding key", "none"));
  return expect(in[states + 2] == ValueType{DType::kI32, {{1}}}, "the step i32(1)",
                got(in, states + 2));
}

// `states` states of one type, of which the first is the parameter, then what a step gives.
Result<Types> infer_moments(const Attrs& attrs, const Types& in, size_t states) {
  MS_RETURN_IF_ERROR(expect_step_inputs(attrs, in, states));
  for (size_t i = 1; i < states; ++i) {
    MS_RETURN_IF_ERROR(expect(in[i] == in[0], in[0].to_string(), got(in, i)));
  }
  return Types(in.begin(), in.begin() + static_cast<int64_t>(states));
}

// Inputs param, m, v (states), grad, scalars [, step]; outputs param, m, v.
Result<Types> infer_adamw(DType, const Attrs& attrs, const Types& in) {
  return infer_moments(attrs, in, 3);
}

// Inputs param, m (states), grad, scalars [, step]; outputs param, m.
Result<Types> infer_lion(DType, const Attrs& attrs, const Types& in) {
  return infer_moments(attrs, in, 2);
}

// Inputs param, then codes u8 and maxima f32(blocks) of m and of v (states), grad, scalars [,
// step]; outputs the states.
Result<Types> infer_adamw_8bit(DType, const Attrs& attrs, const Types& in) {
  MS_RETURN_IF_ERROR(expect_step_inputs(attrs, in, 5));
  const int64_t blocks = (in[0].shape.num_elements({}) + kMomentBlock - 1) / kMomentBlock;
  for (size_t i = 1; i < 5; i += 2) {
    const ValueType codes{DType::kU8, in[0].shape};
    MS_RETURN_IF_ERROR(expect(in[i] == codes, codes.to_string(), got(in, i)));
    MS_RETURN_IF_ERROR(
        expect(is_f32(in[i + 1], {blocks}), "f32(" + std::to_string(blocks) + ")", got(in, i + 1)));
  }
  return Types(in.begin(), in.begin() + 5);
}

// Inputs average (state), param f32 or bf16, rate f32(1); output average.
Result<Types> infer_ema(DType, const Attrs&, const Types& in) {
  MS_RETURN_IF_ERROR(expect_count(in, 3));
  MS_RETURN_IF_ERROR(expect(is_f32(in[0], in[1].shape.dims),
                            "an average f32" + in[1].shape.to_string(), got(in, 0)));
  MS_RETURN_IF_ERROR(expect(in[1].dtype == DType::kF32 || in[1].dtype == DType::kBF16,
                            "a parameter in f32 or bf16", got(in, 1)));
  MS_RETURN_IF_ERROR(expect(is_f32(in[2], {1}), "a rate f32(1)", got(in, 2)));
  return Types{in[0]};
}

// Inputs param (rows, columns), momentum (states), grad, scalars f32(8); outputs param, momentum.
Result<Types> infer_muon(DType compute, const Attrs& attrs, const Types& in) {
  MS_RETURN_IF_ERROR(infer_lion(compute, attrs, in).status());
  MS_RETURN_IF_ERROR(
      expect(in[0].dtype == DType::kF32 && in[0].shape.rank() == 2, "a matrix in f32", got(in, 0)));
  return Types{in[0], in[1]};
}

// A matrix: inputs param (rows, columns), row (rows), column (columns) (states), grad, scalars
// f32(8); outputs param, row, column. A vector: param, variance, grad, scalars; outputs param,
// variance.
Result<Types> infer_adafactor(DType compute, const Attrs& attrs, const Types& in) {
  MS_RETURN_IF_ERROR(
      expect(!in.empty() && in[0].dtype == DType::kF32, "a parameter in f32", got(in, 0)));
  if (in[0].shape.rank() == 1) return infer_lion(compute, attrs, in);
  MS_RETURN_IF_ERROR(expect_count(in, 5));
  const auto& dims = in[0].shape.dims;
  MS_RETURN_IF_ERROR(expect(dims.size() == 2, "a matrix or a vector", got(in, 0)));
  for (size_t i = 0; i < 2; ++i) {
    MS_RETURN_IF_ERROR(expect(is_f32(in[1 + i], {dims[i]}), "f32(" + std::to_string(dims[i]) + ")",
                              got(in, 1 + i)));
  }
  MS_RETURN_IF_ERROR(expect(in[3] == in[0], in[0].to_string(), got(in, 3)));
  MS_RETURN_IF_ERROR(expect_scalars(in, 4));
  return Types{in[0], in[1], in[2]};
}

double elements(const Types& types, RowCounts counts) {
  double n = 0;
  for (const ValueType& type : types) n += static_cast<double>(type.shape.num_elements(counts));
  return n;
}

double flops_none(const Attrs&, const Types&, const Types&, RowCounts) { return 0; }

// A few operations per output element; the exact constant matters to nobody.
double flops_pointwise(const Attrs&, const Types&, const Types& out, RowCounts counts) {
  return 4 * elements(out, counts);
}

// What is summed is in the inputs.
double flops_reduction(const Attrs&, const Types& in, const Types&, RowCounts counts) {
  return 2 * elements(in, counts);
}

double flops_linear(const Attrs& attrs, const Types& in, const Types& out, RowCounts counts) {
  const auto& a = std::get<LinearAttrs>(attrs);
  const double width = static_cast<double>(in[0].shape.dims[1]);
  double flops = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    flops += 2 * width * static_cast<double>(out[i].shape.num_elements(counts));
  }
  for (size_t j = 0; j < a.adapters.size(); ++j) {
    const ValueType& y = out[static_cast<size_t>(a.adapters[j].output)];
    flops += 2 * static_cast<double>(a.adapters[j].rank * y.shape.num_elements(counts));
  }
  return flops;
}

double flops_linear_input_grad(const Attrs& attrs, const Types& in, const Types&,
                               RowCounts counts) {
  const auto& a = std::get<LinearAttrs>(attrs);
  const size_t n = static_cast<size_t>(a.num_weights);
  double flops = 0;
  for (size_t i = 0; i < n; ++i) {
    flops += 2 * static_cast<double>(in[i].shape.num_elements(counts) * in[n + i].shape.dims[1]);
  }
  for (size_t j = 0; j < a.adapters.size(); ++j) {
    flops += 2 * static_cast<double>(in[2 * n + 2 * j].shape.num_elements(counts) *
                                     in[2 * n + 2 * j + 1].shape.dims[1]);
  }
  return flops;
}

double flops_weight_grad(const Attrs&, const Types& in, const Types&, RowCounts counts) {
  return 2 * static_cast<double>(in[0].shape.num_elements(counts) * in[1].shape.dims[1]);
}

double flops_lora_up_grad(const Attrs& attrs, const Types& in, const Types&, RowCounts counts) {
  return 2 *
         static_cast<double>(in[0].shape.num_elements(counts) * std::get<LoraAttrs>(attrs).rank);
}

// Causal: half of the square, or a band of it, counted for one sequence of all rows (an upper bound
// for packed rows).
double flops_attention(const Attrs& attrs, const Types&, const Types&, RowCounts counts) {
  const auto& a = std::get<AttentionAttrs>(attrs);
  const auto triangle = [](int64_t n) {
    return 0.5 * static_cast<double>(n) * static_cast<double>(n + 1);
  };
  const int64_t hidden = a.window > 0 && a.window < counts.rows ? counts.rows - a.window : 0;
  const double pairs = triangle(counts.rows) - triangle(hidden);
  return 4 * pairs * static_cast<double>(a.query_heads * a.head_width);
}

double flops_attention_grad(const Attrs& attrs, const Types& in, const Types& out,
                            RowCounts counts) {
  return 2.5 * flops_attention(attrs, in, out, counts);
}

double flops_head(const Attrs&, const Types& in, const Types&, RowCounts counts) {
  return 2 * static_cast<double>(in[0].shape.num_elements(counts) * in[1].shape.dims[0]);
}

double flops_head_grad(const Attrs& attrs, const Types& in, const Types& out, RowCounts counts) {
  return (in.size() > head_accumulator(attrs) ? 3 : 2) * flops_head(attrs, in, out, counts);
}

// Per step the Gram matrix, its square and the product with the matrix, of the smaller side n.
double flops_muon(const Attrs&, const Types& in, const Types&, RowCounts) {
  const double rows = static_cast<double>(in[0].shape.dims[0]);
  const double columns = static_cast<double>(in[0].shape.dims[1]);
  const double n = rows < columns ? rows : columns;
  return kNewtonSchulzSteps * (4 * n * rows * columns + 2 * n * n * n);
}

constexpr OpInfo kTable[] = {
    {.kind = OpKind::kInput,
     .name = "input",
     .is_source = true,
     .infer = infer_source,
     .flops = flops_none},
    {.kind = OpKind::kParam,
     .name = "param",
     .is_source = true,
     .infer = infer_source,
     .flops = flops_none},
    {.kind = OpKind::kState,
     .name = "state",
     .is_source = true,
     .infer = infer_source,
     .flops = flops_none},
    {.kind = OpKind::kEmbedding,
     .name = "embedding",
     .is_cheap = true,
     .is_differentiable = true,
     .infer = infer_embedding,
     .flops = flops_none},
    {.kind = OpKind::kPositionEmbedding,
     .name = "position_embedding",
     .is_cheap = true,
     .is_differentiable = true,
     .infer = infer_position_embedding,
     .flops = flops_none},
    {.kind = OpKind::kLinear,
     .name = "linear",
     .is_differentiable = true,
     .infer = infer_linear,
     .flops = flops_linear},
    {.kind = OpKind::kRmsNorm,
     .name = "rms_norm",
     .is_cheap = true,
     .is_differentiable = true,
     .infer = infer_rms_norm,
     .flops = flops_pointwise},
    {.kind = OpKind::kLayerNorm,
     .name = "layer_norm",
     .is_cheap = true,
     .is_differentiable = true,
     .infer = infer_layer_norm,
     .flops = flops_pointwise},
    {.kind = OpKind::kRope,
     .name = "rope",
     .is_cheap = true,
     .is_differentiable = true,
     .infer = infer_rope,
     .flops = flops_pointwise},
    {.kind = OpKind::kAttention,
     .name = "attention",
     .is_quadratic = true,
     .is_differentiable = true,
     .infer = infer_attention,
     .flops = flops_attention},
    {.kind = OpKind::kSilu,
     .name = "silu",
     .is_elementwise = true,
     .is_cheap = true,
     .is_differentiable = true,
     .infer = infer_same<1>,
     .flops = flops_pointwise},
    {.kind = OpKind::kGelu,
     .name = "gelu",
     .is_elementwise = true,
     .is_cheap = true,
     .is_differentiable = true,
     .infer = infer_same<1>,
     .flops = flops_pointwise},
    {.kind = OpKind::kMul,
     .name = "mul",
     .is_elementwise = true,
     .is_cheap = true,
     .is_differentiable = true,
     .infer = infer_same<2>,
     .flops = flops_pointwise},
    {.kind = OpKind::kSiluMul,
     .name = "silu_mul",
     .is_elementwise = true,
     .is_fused = true,
     .is_cheap = true,
     .is_differentiable = true,
     .infer = infer_same<2>,
     .flops = flops_pointwise},
    {.kind = OpKind::kGeluMul,
     .name = "gelu_mul",
     .is_elementwise = true,
     .is_fused = true,
     .is_cheap = true,
     .is_differentiable = true,
     .infer = infer_same<2>,
     .flops = flops_pointwise},
    {.kind = OpKind::kAdd,
     .name = "add",
     .is_elementwise = true,
     .is_cheap = true,
     .is_differentiable = true,
     .infer = infer_same_as_first,
     .flops = flops_pointwise},
    {.kind = OpKind::kGatherRows,
     .name = "gather_rows",
     .is_cheap = true,
     .is_differentiable = true,
     .infer = infer_gather,
     .flops = flops_none},
    {.kind = OpKind::kSoftCap,
     .name = "soft_cap",
     .is_elementwise = true,
     .is_cheap = true,
     .infer = infer_soft_cap,
     .flops = flops_pointwise},
    {.kind = OpKind::kHeadLogprob,
     .name = "head_logprob",
     .is_fused = true,
     .is_differentiable = true,
     .infer = infer_head,
     .flops = flops_head},
    {.kind = OpKind::kScale,
     .name = "scale",
     .is_elementwise = true,
     .is_cheap = true,
     .is_differentiable = true,
     .infer = infer_scale,
     .flops = flops_pointwise},
    {.kind = OpKind::kReduceSum,
     .name = "reduce_sum",
     .is_differentiable = true,
     .infer = infer_reduce_sum,
     .flops = flops_reduction},
    {.kind = OpKind::kFill, .name = "fill", .infer = infer_fill, .flops = flops_none},
    {.kind = OpKind::kEmbeddingGrad,
     .name = "embedding_grad",
     .writes_state = true,
     .aliased_input = 2,
     .infer = infer_embedding_grad,
     .flops = flops_pointwise},
    {.kind = OpKind::kPositionEmbeddingGrad,
     .name = "position_embedding_grad",
     .writes_state = true,
     .aliased_input = 1,
     .infer = infer_position_embedding_grad,
     .flops = flops_pointwise},
    {.kind = OpKind::kLinearInputGrad,
     .name = "linear_input_grad",
     .infer = infer_linear_input_grad,
     .flops = flops_linear_input_grad},
    {.kind = OpKind::kLinearWeightGrad,
     .name = "linear_weight_grad",
     .writes_state = true,
     .aliased_input = 2,
     .infer = infer_weight_grad,
     .flops = flops_weight_grad},
    {.kind = OpKind::kLoraUpGrad,
     .name = "lora_up_grad",
     .infer = infer_lora_up_grad,
     .flops = flops_lora_up_grad},
    {.kind = OpKind::kBiasGrad,
     .name = "bias_grad",
     .writes_state = true,
     .aliased_input = 1,
     .infer = infer_bias_grad,
     .flops = flops_pointwise},
    {.kind = OpKind::kRmsNormGrad,
     .name = "rms_norm_grad",
     .writes_state = true,
     .aliased_input = 3,
     .infer = infer_rms_norm_grad,
     .flops = flops_pointwise},
    {.kind = OpKind::kLayerNormGrad,
     .name = "layer_norm_grad",
     .writes_state = true,
     .aliased_input = 3,
     .infer = infer_layer_norm_grad,
     .flops = flops_pointwise},
    {.kind = OpKind::kSiluGrad,
     .name = "silu_grad",
     .is_elementwise = true,
     .infer = infer_same<2>,
     .flops = flops_pointwise},
    {.kind = OpKind::kGeluGrad,
     .name = "gelu_grad",
     .is_elementwise = true,
     .infer = infer_same<2>,
     .flops = flops_pointwise},
    {.kind = OpKind::kSiluMulGrad,
     .name = "silu_mul_grad",
     .is_elementwise = true,
     .is_fused = true,
     .infer = infer_gated_grad,
     .flops = flops_pointwise},
    {.kind = OpKind::kGeluMulGrad,
     .name = "gelu_mul_grad",
     .is_elementwise = true,
     .is_fused = true,
     .infer = infer_gated_grad,
     .flops = flops_pointwise},
    {.kind = OpKind::kAttentionGrad,
     .name = "attention_grad",
     .infer = infer_attention_grad,
     .flops = flops_attention_grad},
    {.kind = OpKind::kScatterRows,
     .name = "scatter_rows",
     .infer = infer_scatter,
     .flops = flops_none},
    {.kind = OpKind::kHeadLogprobGrad,
     .name = "head_logprob_grad",
     .is_fused = true,
     .writes_state = true,
     .aliased_input = 5,
     .infer = infer_head_grad,
     .flops = flops_head_grad},
    {.kind = OpKind::kAccumulate,
     .name = "accumulate",
     .is_elementwise = true,
     .writes_state = true,
     .aliased_input = 0,
     .infer = infer_same_as_first,
     .flops = flops_pointwise},
    {.kind = OpKind::kSumOfSquares,
     .name = "sum_of_squares",
     .infer = infer_sum_of_squares,
     .flops = flops_reduction},
    {.kind = OpKind::kAdamw,
     .name = "adamw",
     .writes_state = true,
     .aliased_input = 0,
     .infer = infer_adamw,
     .flops = flops_pointwise},
    {.kind = OpKind::kLion,
     .name = "lion",
     .writes_state = true,
     .aliased_input = 0,
     .infer = infer_lion,
     .flops = flops_pointwise},
    {.kind = OpKind::kAdafactor,
     .name = "adafactor",
     .writes_state = true,
     .aliased_input = 0,
     .infer = infer_adafactor,
     .flops = flops_pointwise},
    {.kind = OpKind::kMuon,
     .name = "muon",
     .writes_state = true,
     .aliased_input = 0,
     .infer = infer_muon,
     .flops = flops_muon},
    {.kind = OpKind::kAdamw8bit,
     .name = "adamw_8bit",
     .writes_state = true,
     .aliased_input = 0,
     .infer = infer_adamw_8bit,
     .flops = flops_pointwise},
    {.kind = OpKind::kEma,
     .name = "ema",
     .writes_state = true,
     .aliased_input = 0,
     .infer = infer_ema,
     .flops = flops_pointwise},
};
static_assert(std::size(kTable) == static_cast<size_t>(OpKind::kNumOps));

}  // namespace

const OpInfo& op_info(OpKind kind) { return kTable[static_cast<size_t>(kind)]; }

std::span<const OpInfo> op_table() { return kTable; }

namespace {

int32_t first_aliased_input(const Node& node) {
  if (node.op == OpKind::kHeadLogprobGrad)
    return static_cast<int32_t>(head_accumulator(node.attrs));
  return op_info(node.op).aliased_input;
}

}  // namespace

int32_t aliased_input(const Node& node, size_t output) {
  const int32_t first = first_aliased_input(node);
  if (first < 0 || static_cast<size_t>(first) >= node.inputs.size()) return -1;
  if (first == 0) return static_cast<int32_t>(output);  // an optimizer: every output is a state
  return output + 1 == node.outputs.size() ? first : -1;
}

bool has_effect(const Node& node) {
  const OpInfo& info = op_info(node.op);
  return info.writes_state && static_cast<size_t>(first_aliased_input(node)) < node.inputs.size();
}

namespace {

Types types_of(const Graph& graph, const std::vector<ValueId>& values) {
  Types types;
  for (ValueId value : values) types.push_back(graph.type(value));
  return types;
}

}  // namespace

double node_bytes(const Graph& graph, const Node& node, RowCounts counts) {
  double bytes = 0;
  for (const auto* side : {&node.inputs, &node.outputs}) {
    for (ValueId value : *side) {
      const ValueType& type = graph.type(value);
      bytes += static_cast<double>(type.shape.num_elements(counts)) *
               static_cast<double>(dtype_block_bytes(type.dtype)) /
               static_cast<double>(dtype_block_elements(type.dtype));
    }
  }
  return bytes;
}

double node_flops(const Graph& graph, const Node& node, RowCounts counts) {
  return op_info(node.op).flops(node.attrs, types_of(graph, node.inputs),
                                types_of(graph, node.outputs), counts);
}

}  // namespace mainspring
