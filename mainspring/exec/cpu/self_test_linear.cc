// Random bf16 and f32 products with zeros, denormals, infinities' neighbours and cancelling values,
// on tile shapes of every kind, through the public operations.
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
};

/// What a path makes of one shape: y, dx and dW after one another, as bytes.
class Products {
 public:
  Products(const KernelTable& table, DType compute, const Shape& shape)
      : pool_(1), context_{&table, &pool_, compute}, shape_(shape) {
    Values values(static_cast<uint64_t>(shape.rows * 1000003 + shape.in * 1009 + shape.out));
    x_ = values.fill(shape.rows * shape.in, compute);
    dy_ = values.fill(shape.rows * shape.out, compute);
    bias_ = values.fill(shape.out, compute);
    const auto w = values.fill(shape.out * shape.in, DType::kF32);
    const WeightView view{DType::kF32, w.data(), shape.out, shape.in, nullptr};
    forward_.resize(packed_forward_bytes(context_, shape.out, shape.in));
    input_grad_.resize(packed_input_grad_bytes(context_, shape.out, shape.in));
    pack_forward(context_, view, forward_.data());
    pack_input_grad(context_, view, input_grad_.data());
    segment_.num_rows = static_cast<int32_t>(shape.rows);
    rows_.num_rows = segment_.num_rows;
    rows_.segments = {&segment_, 1};
  }

  std::vector<char> all() {
    std::vector<char> out = forward();
    for (const auto& part : {input_grad(), weight_grad()})
      out.insert(out.end(), part.begin(), part.end());
    return out;
  }

 private:
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
    std::vector<char> scratch(linear_forward_scratch_bytes(context_, shape_.rows, shape_.in));
    linear_forward(context_, shape_.rows, shape_.in, x_.data(), {&output, 1}, &rows_,
                   scratch.data());
    return y;
  }

  std::vector<char> input_grad() {
    std::vector<char> dx = activations(shape_.in);
    const LinearInputGradTerm term{dy_.data(),
                                   {shape_.out, shape_.in, nullptr, input_grad_.data()}};
    std::vector<char> scratch(
        linear_input_grad_scratch_bytes(context_, shape_.rows, shape_.in, shape_.out));
    linear_input_grad(context_, shape_.rows, shape_.in, {&term, 1}, {}, dx.data(), rows_,
                      scratch.data());
    return dx;
  }

  std::vector<char> weight_grad() {
    std::vector<char> acc(static_cast<size_t>(shape_.out * shape_.in) * sizeof(float));
    WeightGrad grad;
    grad.dy = dy_.data();
    grad.out = shape_.out;
    grad.x = x_.data();
    grad.in = shape_.in;
    grad.acc = reinterpret_cast<float*>(acc.data());
    std::vector<char> scratch(
        linear_weight_grad_scratch_bytes(context_, shape_.rows, shape_.out, shape_.in));
    linear_weight_grad(context_, shape_.rows, grad, rows_, scratch.data());
    return acc;
  }

  ThreadPool pool_;
  Context context_;
  Shape shape_;
  Segment segment_;
  RowTable rows_;
  std::vector<char> x_, dy_, bias_, forward_, input_grad_;
};

}  // namespace

std::optional<std::string> self_test_linear(const KernelTable& kernels) {
  constexpr Shape kShapes[] = {{1, 70, 67}, {2, 256, 60}, {3, 261, 33}, {7, 66, 35}, {29, 515, 16}};
  for (const DType compute : {DType::kBF16, DType::kF32}) {
    for (const Shape& shape : kShapes) {
      const auto expected = Products(kernel_table(Isa::kScalar), compute, shape).all();
      if (Products(kernels, compute, shape).all() != expected) {
        return "linear in " + std::string(dtype_name(compute)) + " of " +
               std::to_string(shape.rows) + " x " + std::to_string(shape.in) + " x " +
               std::to_string(shape.out) + " differs from the scalar path";
      }
    }
  }
  return std::nullopt;
}

}  // namespace mainspring::cpu
