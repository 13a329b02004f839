// Random bf16 and f32 products with zeros, denormals, infinities' neighbours and cancelling values,
// on tile shapes of every kind and weights stored in every way, with an adapter under dropout,
// through the public operations.
#include <bit>
#include <cstring>
#include <vector>

#include "mainspring/base/philox.h"
#include "mainspring/exec/cpu/linear_gemm.h"
#include "mainspring/exec/cpu/self_test.h"

namespace mainspring::cpu {
namespace {

/// Floats of a wide range of exponents; one in sixteen is a special value.
class Values {
 public:
  explicit Values(uint64_t seed) : key_(philox_key(seed)) {}

  float next() {
    const PhiloxCounter words = philox4x32({counter_++, 0, 0, 0}, key_);
    const float sign = (words[0] & 1u) != 0 ? -1.0f : 1.0f;
    if (words[1] % 16 == 0) {
      constexpr float kSpecial[] = {0.0f, 1e-39f, 1.2e-38f, 3e-20f, 1.0f, 1e18f};
      return sign * kSpecial[words[2] % 6];
    }
    const uint32_t exponent = 127 - 4 + words[2] % 8;
    return sign * std::bit_cast<float>(exponent << 23 | words[3] >> 9);
  }

  std::vector<char> fill(int64_t n, DType dtype) {
    std::vector<char> out(static_cast<size_t>(dtype_bytes(dtype, n)));
    for (int64_t i = 0; i < n; ++i) {
      const float value = next();
      const bf16 narrow = to_bf16(value);
      if (dtype == DType::kF32) std::memcpy(out.data() + 4 * i, &value, 4);
      if (dtype == DType::kBF16) std::memcpy(out.data() + 2 * i, &narrow, 2);
    }
    return out;
  }

 private:
  PhiloxKey key_;
  uint32_t counter_ = 0;
};

struct Shape {
  int64_t rows, in, out;
  DType stored = DType::kF32;  // of the weight
};

bool has_minimum(DType dtype) {
  return dtype == DType::kQ4_1 || dtype == DType::kQ5_1 || dtype == DType::kQ4_K ||
         dtype == DType::kQ5_K;
}

/// n values as they are stored: blocks get random codes and modest scales.
std::vector<char> fill_stored(Values& values, int64_t n, DType dtype) {
  if (dtype == DType::kF32 || dtype == DType::kBF16) return values.fill(n, dtype);
  std::vector<char> out = values.fill(dtype_bytes(dtype, n) / 4 + 1, DType::kF32);
  const int64_t block_bytes = dtype_block_bytes(dtype);
  constexpr uint16_t kHalves[] = {0x3c00, 0x2e66, 0xb555};        // 1, 0.1, -0.333
  if (dtype == DType::kNF4 || dtype == DType::kInt8) return out;  // all codes; scales are aux
  const int64_t first_half = dtype == DType::kQ6_K ? 208 : 0;
  for (int64_t i = 0; i < n / dtype_block_elements(dtype); ++i) {
    for (int64_t half = 0; half < (has_minimum(dtype) ? 2 : 1); ++half) {
      std::memcpy(out.data() + i * block_bytes + first_half + 2 * half, &kHalves[(i + half) % 3],
                  2);
    }
  }
  return out;
}

/// What a path makes of one shape: y, dx, dW and an adapter's u, du and dA, as bytes.
class Products {
 public:
  Products(const KernelTable& table, DType compute, const Shape& shape)
      : pool_(1), context_{&table, &pool_, compute}, shape_(shape) {
    Values values(static_cast<uint64_t>(shape.rows * 1000003 + shape.in * 1009 + shape.out));
    x_ = values.fill(shape.rows * shape.in, compute);
    dy_ = values.fill(shape.rows * shape.out, compute);
    bias_ = values.fill(shape.out, compute);
    const auto w = fill_stored(values, shape.out * shape.in, shape.stored);
    std::vector<float> aux{0.125f, 1.5f};  // NF4 reads two, int8 one for each row
    for (int64_t row = 2; row < shape.out; ++row) aux.push_back(static_cast<float>(row) / 64.0f);
    const WeightView view{shape.stored, w.data(), shape.out, shape.in, aux.data()};
    forward_.resize(packed_forward_bytes(context_, shape.out, shape.in));
    input_grad_.resize(packed_input_grad_bytes(context_, shape.out, shape.in));
    pack_forward(context_, view, forward_.data());
    pack_input_grad(context_, view, input_grad_.data());
    a_ = pack_both(values, kRank, shape.in);
    b_ = pack_both(values, shape.out, kRank);
    segment_.num_rows = static_cast<int32_t>(shape.rows);
    segment_.adapter_slot = 0;
    rows_.num_rows = segment_.num_rows;
    rows_.segments = {&segment_, 1};
  }

  std::vector<char> all() {
    u_ = activations(kRank);
    du_ = activations(kRank);
    lora();
    std::vector<char> out = forward();
    for (const auto& part : {input_grad(), weight_grad(), lora_a_grad(), bias_sum(), u_, du_})
      out.insert(out.end(), part.begin(), part.end());
    return out;
  }

 private:
  static constexpr int64_t kRank = 5;
  static constexpr float kDropout = 0.25f;
  static constexpr uint64_t kDropoutKey = 7;

  /// The two layouts of a small matrix.
  struct Packed {
    std::vector<char> forward, input_grad;
    PackedWeight view(int64_t out, int64_t in) const {
      return {out, in, forward.data(), input_grad.data()};
    }
  };
  Packed pack_both(Values& values, int64_t out, int64_t in) const {
    const auto w = values.fill(out * in, DType::kF32);
    const WeightView view{DType::kF32, w.data(), out, in, nullptr};
    Packed packed;
    packed.forward.resize(packed_forward_bytes(context_, out, in));
    packed.input_grad.resize(packed_input_grad_bytes(context_, out, in));
    pack_forward(context_, view, packed.forward.data());
    pack_input_grad(context_, view, packed.input_grad.data());
    return packed;
  }

  void lora() {
    LoraDown down;
    down.rank = kRank;
    down.scale = 1.5f;
    down.dropout = kDropout;
    down.dropout_key = kDropoutKey;
    down.a = a_.view(kRank, shape_.in);
    down.u = u_.data();
    std::vector<char> scratch(lora_down_scratch_bytes(context_, shape_.rows, shape_.in));
    lora_down(context_, shape_.rows, shape_.in, x_.data(), down, rows_, scratch.data());
    LoraUpGrad up;
    up.rank = kRank;
    up.scale = down.scale;
    up.b = b_.view(shape_.out, kRank);
    up.du = du_.data();
    std::vector<char> grad_scratch(
        linear_input_grad_scratch_bytes(context_, shape_.rows, kRank, shape_.out));
    lora_up_input_grad(context_, shape_.rows, shape_.out, dy_.data(), up, rows_,
                       grad_scratch.data());
  }

  std::vector<char> activations(int64_t columns) const {
    return std::vector<char>(
        static_cast<size_t>(dtype_bytes(context_.compute, shape_.rows * columns)));
  }

  std::vector<char> forward() {
    std::vector<char> y = activations(shape_.out);
    LinearOutput output;
    output.weight = {shape_.out, shape_.in, forward_.data(), nullptr};
    output.bias = bias_.data();
    output.y = y.data();
    LoraUp up;
    up.rank = kRank;
    up.u = u_.data();
    up.b = b_.view(shape_.out, kRank);
    output.adapters = {&up, 1};
    std::vector<char> scratch(linear_forward_scratch_bytes(context_, shape_.rows, shape_.in));
    linear_forward(context_, shape_.rows, shape_.in, x_.data(), {&output, 1}, &rows_,
                   scratch.data());
    return y;
  }

  std::vector<char> input_grad() {
    std::vector<char> dx = activations(shape_.in);
    const LinearInputGradTerm term{dy_.data(),
                                   {shape_.out, shape_.in, nullptr, input_grad_.data()}};
    LoraInputGradTerm adapter;
    adapter.rank = kRank;
    adapter.dropout = kDropout;
    adapter.dropout_key = kDropoutKey;
    adapter.du = du_.data();
    adapter.a = a_.view(kRank, shape_.in);
    std::vector<char> scratch(
        linear_input_grad_scratch_bytes(context_, shape_.rows, shape_.in, shape_.out));
    linear_input_grad(context_, shape_.rows, shape_.in, {&term, 1}, {&adapter, 1}, dx.data(), rows_,
                      scratch.data());
    return dx;
  }

  std::vector<char> weight_grad() const {
    WeightGrad grad;
    grad.dy = dy_.data();
    grad.out = shape_.out;
    return fold(grad);
  }

  std::vector<char> lora_a_grad() const {
    WeightGrad grad;
    grad.dy = du_.data();
    grad.out = kRank;
    grad.slot = 0;
    grad.x_dropout = kDropout;
    grad.dropout_key = kDropoutKey;
    return fold(grad);
  }

  std::vector<char> fold(WeightGrad grad) const {
    std::vector<char> acc(static_cast<size_t>(grad.out * shape_.in) * sizeof(float));
    grad.x = x_.data();
    grad.in = shape_.in;
    grad.acc = reinterpret_cast<float*>(acc.data());
    std::vector<char> scratch(
        linear_weight_grad_scratch_bytes(context_, shape_.rows, grad.out, shape_.in));
    linear_weight_grad(context_, shape_.rows, grad, rows_, scratch.data());
    return acc;
  }

  std::vector<char> bias_sum() const {
    std::vector<char> acc(static_cast<size_t>(shape_.out) * sizeof(float));
    bias_grad(context_, shape_.out, dy_.data(), reinterpret_cast<float*>(acc.data()), rows_);
    return acc;
  }

  ThreadPool pool_;
  Context context_;
  Shape shape_;
  Segment segment_;
  RowTable rows_;
  std::vector<char> x_, dy_, bias_, forward_, input_grad_, u_, du_;
  Packed a_, b_;
};

}  // namespace

std::optional<std::string> self_test_linear(const KernelTable& kernels) {
  constexpr Shape kShapes[] = {{1, 70, 67},
                               {2, 256, 60, DType::kBF16},
                               {3, 261, 33},
                               {7, 66, 35, DType::kBF16},
                               {29, 515, 16},
                               {4, 64, 18, DType::kF16},
                               {5, 128, 17, DType::kQ4_0},
                               {6, 64, 33, DType::kQ4_1},
                               {3, 96, 19, DType::kQ5_0},
                               {2, 160, 18, DType::kQ5_1},
                               {8, 320, 15, DType::kQ8_0},
                               {3, 256, 17, DType::kQ4_K},
                               {2, 512, 9, DType::kQ5_K},
                               {4, 256, 18, DType::kQ6_K},
                               {9, 128, 34, DType::kNF4},
                               {7, 131, 35, DType::kInt8}};
  for (const DType compute : {DType::kBF16, DType::kF32}) {
    for (const Shape& shape : kShapes) {
      const auto expected = Products(kernel_table(Isa::kScalar), compute, shape).all();
      if (Products(kernels, compute, shape).all() != expected) {
        return "linear in " + std::string(dtype_name(compute)) + " of " +
               std::to_string(shape.rows) + " x " + std::to_string(shape.in) + " x " +
               std::to_string(shape.out) + " (weight " + std::string(dtype_name(shape.stored)) +
               ") differs from the scalar path";
      }
    }
  }
  return std::nullopt;
}

}  // namespace mainspring::cpu
