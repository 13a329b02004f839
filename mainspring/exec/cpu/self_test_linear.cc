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

/// The packed weight, y and dW of one shape, each as bytes, on one path.
std::vector<char> outputs_of(const KernelTable& table, DType compute, const Shape& shape) {
  ThreadPool pool(1);
  const Context context{&table, &pool, compute};
  Values values(static_cast<uint64_t>(shape.rows * 1000003 + shape.in * 1009 + shape.out));
  const auto x = values.fill(shape.rows * shape.in, compute);
  const auto w = values.fill(shape.out * shape.in, compute);
  const auto bias = values.fill(shape.out, compute);
  std::vector<char> packed(packed_forward_bytes(context, shape.out, shape.in));
  pack_forward(context, {compute, w.data(), shape.out, shape.in, nullptr}, packed.data());

  LinearOutput output;
  output.weight = {shape.out, shape.in, packed.data(), nullptr};
  output.bias = bias.data();
  std::vector<char> y(static_cast<size_t>(dtype_bytes(compute, shape.rows * shape.out)));
  output.y = y.data();
  std::vector<char> scratch(linear_forward_scratch_bytes(context, shape.rows, shape.in));
  linear_forward(context, shape.rows, shape.in, x.data(), {&output, 1}, nullptr, scratch.data());
  return y;
}

}  // namespace

std::optional<std::string> self_test_linear(const KernelTable& kernels) {
  constexpr Shape kShapes[] = {
      {1, 70, 67}, {2, 256, 100}, {3, 513, 33}, {7, 130, 16}, {29, 1030, 40}};
  for (const DType compute : {DType::kBF16, DType::kF32}) {
    for (const Shape& shape : kShapes) {
      const auto expected = outputs_of(kernel_table(Isa::kScalar), compute, shape);
      if (outputs_of(kernels, compute, shape) != expected) {
        return "linear in " + std::string(dtype_name(compute)) + " of " +
               std::to_string(shape.rows) + " x " + std::to_string(shape.in) + " x " +
               std::to_string(shape.out) + " differs from the scalar path";
      }
    }
  }
  return std::nullopt;
}

}  // namespace mainspring::cpu
