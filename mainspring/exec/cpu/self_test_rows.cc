// Attention with its gradient, norms, rotary, elementwise, row statistics and AdamW on small odd
// shapes with values of many exponents, through the public operations.
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "mainspring/base/philox.h"
#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/cpu/self_test.h"

namespace mainspring::cpu {
namespace {

using Bytes = std::vector<char>;

Bytes random_values(uint64_t seed, DType dtype, int64_t n) {
  Bytes out(static_cast<size_t>(dtype_bytes(dtype, n)));
  for (int64_t i = 0; i < n; ++i) {
    const PhiloxCounter words = philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, philox_key(seed));
    float value = std::bit_cast<float>((121 + words[0] % 8) << 23 | words[1] >> 9);
    if ((words[2] & 1u) != 0) value = -value;
    if (words[3] % 32 == 0) value = 0.0f;
    if (words[3] % 32 == 1) value *= 0x1p-120f;
    const bf16 narrow = to_bf16(value);
    if (dtype == DType::kF32) std::memcpy(out.data() + 4 * i, &value, 4);
    if (dtype == DType::kBF16) std::memcpy(out.data() + 2 * i, &narrow, 2);
  }
  return out;
}

/// What one path computes, by family.
class Outputs {
 public:
  explicit Outputs(const Context& context) : context_(context) {}

  std::vector<std::pair<const char*, Bytes>> take() { return std::move(all_); }

  void attention(int64_t width, int64_t window, float softcap) {
    const AttentionShape shape{3, 1, width, 0.125f, window, softcap};
    const Segment segments[2] = {{.row_begin = 0, .num_rows = 67},
                                 {.row_begin = 68, .num_rows = 9}};
    const RowTable table{78, segments, {}};
    const int64_t rows = table.num_rows;
    const Bytes q = values(1, rows * 3 * width);
    const Bytes k = values(2, rows * width);
    const Bytes v = values(3, rows * width);
    const Bytes d_o = values(4, rows * 3 * width);
    char* o = make("attention", rows * 3 * width);
    auto* lse = reinterpret_cast<float*>(make_floats("attention", rows * 3));
    Bytes scratch(attention_forward_scratch_bytes(context_, shape, rows) + 64);
    attention_forward(context_, shape, rows, q.data(), k.data(), v.data(), o, lse, table, nullptr,
                      0, align(scratch));
    char* dq = make("attention gradient", rows * 3 * width);
    char* dk = make("attention gradient", rows * width);
    char* dv = make("attention gradient", rows * width);
    Bytes grad_scratch(attention_grad_scratch_bytes(context_, shape, rows) + 64);
    attention_grad(context_, shape, rows, q.data(), k.data(), v.data(), o, lse, d_o.data(), dq, dk,
                   dv, table, align(grad_scratch));
  }

  void rows(int64_t width) {
    const int64_t rows = 6;
    const int64_t n = rows * 2 * width;
    const Segment segments[1] = {{.row_begin = 0, .num_rows = 5}};
    const RowTable table{6, segments, {}};
    const Bytes x = values(5, n);
    const Bytes dy = values(6, n);
    const Bytes w = values(7, width);
    const NormShape norm{2 * width, width, 1e-5f};
    rms_norm_forward(context_, norm, rows, x.data(), w.data(), make("rms_norm", n));
    char* dx = make("rms_norm gradient", n);
    auto* dw = reinterpret_cast<float*>(make_floats("rms_norm gradient", width));
    rms_norm_grad(context_, norm, rows, x.data(), w.data(), dy.data(), dx, dw, table);
    const NormShape plus_one{2 * width, width, 1e-5f, true};
    rms_norm_forward(context_, plus_one, rows, x.data(), w.data(), make("rms_norm", n));
    const NormShape layer{width, width, 1e-5f};
    layer_norm_forward(context_, layer, rows, x.data(), w.data(), w.data(), make("layer_norm", n));
    layer_norm_grad(context_, layer, rows, x.data(), w.data(), dy.data(),
                    make("layer_norm gradient", n),
                    reinterpret_cast<float*>(make_floats("layer_norm gradient", width)), table);
    const Bytes angles = random_values(8, DType::kF32, 5 * width);
    if (width % 2 == 0) {
      for (const int64_t rotary : {width, width / 4 * 2}) {
        rope(context_, {2, width, rotary}, rows, reinterpret_cast<const float*>(angles.data()),
             x.data(), make("rope", n), table);
      }
    }
    for (const Activation f : {Activation::kSilu, Activation::kGelu}) {
      gated_forward(context_, f, n, x.data(), dy.data(), make("gated product", n));
      char* dgate = make("gated product's gradient", n);
      gated_grad(context_, f, n, x.data(), dy.data(), x.data(), dgate,
                 make("gated product's gradient", n));
    }
    scale_values(context_, n, x.data(), 5.5f, make("scale", n));
    const void* terms[3] = {x.data(), dy.data(), x.data()};
    add_many(context_, n, terms, make("add", n));
  }

  void vocabulary(int64_t n) {
    const Bytes logits = random_values(9, DType::kF32, n);
    const auto* x = reinterpret_cast<const float*>(logits.data());
    const RowStats stats = row_stats(context_, x, n);
    std::memcpy(make_floats("row statistics", 3), &stats, sizeof(stats));
    soft_cap(context_, n, x, 0.7f, reinterpret_cast<float*>(make_floats("soft cap", n)));
    row_exp(context_, x, n, stats.max, reinterpret_cast<float*>(make_floats("exp", n)));
  }

  void optimizer(int64_t n) {
    const Bytes grad = random_values(10, DType::kF32, n);
    auto* p = reinterpret_cast<float*>(make_floats("AdamW", n));
    auto* m = reinterpret_cast<float*>(make_floats("AdamW", n));
    auto* v = reinterpret_cast<float*>(make_floats("AdamW", n));
    const AdamwStep step{1e-3f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.1f, 0.0316f, 0.5f};
    adamw(context_, n, step, reinterpret_cast<const float*>(grad.data()), p, m, v);
    compact_states(n, step, reinterpret_cast<const float*>(grad.data()));
    Bytes scratch(sum_of_squares_scratch_bytes(1));
    const float norm = sum_of_squares(context_, 1, n, p, scratch.data());
    std::memcpy(make_floats("sum of squares", 1), &norm, sizeof(norm));
  }

  // Two steps: the second reads what the first has stored.
  void compact_states(int64_t n, const AdamwStep& step, const float* grad) {
    auto* p = reinterpret_cast<float*>(make_floats("AdamW in 8 bits", n));
    const CodedMoment m{make_codes(n), reinterpret_cast<float*>(make_floats("AdamW in 8 bits", 1))};
    const CodedMoment v{make_codes(n), reinterpret_cast<float*>(make_floats("AdamW in 8 bits", 1))};
    auto* q = reinterpret_cast<bf16*>(make_floats("AdamW in bf16", 2 * n));
    for (int32_t t = 1; t <= 2; ++t) {
      adamw_8bit(context_, n, step, grad, p, m, v);
      adamw_bf16(context_, n, step, {5, t}, grad, q, q + n, q + 2 * n);
    }
    auto* average = reinterpret_cast<float*>(make_floats("average", n));
    ema(context_, n, 0.3f, values(11, n).data(), average);
  }

 private:
  uint8_t* make_codes(int64_t n) {
    return reinterpret_cast<uint8_t*>(make_floats("AdamW in 8 bits", n));
  }
  Bytes values(uint64_t seed, int64_t n) const { return random_values(seed, context_.compute, n); }

  char* make(const char* family, int64_t n) {
    all_.emplace_back(family, Bytes(static_cast<size_t>(dtype_bytes(context_.compute, n))));
    return all_.back().second.data();
  }
  char* make_floats(const char* family, int64_t n) {
    all_.emplace_back(family, Bytes(static_cast<size_t>(n) * sizeof(float)));
    return all_.back().second.data();
  }
  static void* align(Bytes& scratch) {
    return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  }

  const Context& context_;
  std::vector<std::pair<const char*, Bytes>> all_;
};

std::vector<std::pair<const char*, Bytes>> outputs_of(const KernelTable& kernels, DType compute) {
  ThreadPool pool(1);
  const Context context{&kernels, &pool, compute};
  Outputs outputs(context);
  outputs.attention(24, 0, 0.0f);
  outputs.attention(8, 21, 0.0f);
  outputs.attention(16, 0, 0.4f);
  outputs.rows(40);
  outputs.rows(17);
  outputs.vocabulary(1000);
  outputs.optimizer(77);
  return outputs.take();
}

}  // namespace

std::optional<std::string> self_test_rows(const KernelTable& kernels) {
  for (const DType compute : {DType::kBF16, DType::kF32}) {
    const auto expected = outputs_of(kernel_table(Isa::kScalar), compute);
    const auto got = outputs_of(kernels, compute);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (got[i].second != expected[i].second) {
        return std::string(expected[i].first) + " in " + std::string(dtype_name(compute)) +
               " differs from the scalar path";
      }
    }
  }
  return std::nullopt;
}

}  // namespace mainspring::cpu
