#include "tests/conformance/decoder.h"

#include "mainspring/autodiff/grad.h"

namespace mainspring::conformance {
namespace {

constexpr int64_t kWidth = 16, kFfn = 40, kVocabulary = 29, kHeads = 2, kKvHeads = 1,
                  kHeadWidth = 8;

class Decoder {
 public:
  explicit Decoder(CaseBuilder& builder) : b_(builder) {
    table_ = b_.random_constant("rope", {64, kHeadWidth / 2, 2}, -1, 1);
  }

  void trace() {
    Tensor x =
        embedding(b_.tokens("tokens", kVocabulary), b_.param("embed", {kVocabulary, kWidth}));
    for (int32_t l = 0; l < 2; ++l) {
      x = checkpoint(b_.tracer(), "layers." + std::to_string(l), l, [&] { return layer(x, l); });
    }
    x = gather_rows(rms_norm(x, b_.param("norm", {kWidth}), 1e-5f));
    const Tensor logprob = head_logprob(x, b_.param("head", {kVocabulary, kWidth}),
                                        b_.targets("targets", kVocabulary));
    b_.check("nll", scale(logprob, -1));
  }

 private:
  LoraTensors adapter(const std::string& name, int64_t in, int64_t out, int32_t slot,
                      uint64_t key) {
    return {LoraAttrs{.slot = slot, .rank = 4, .scale = 2, .dropout = 0.25f, .dropout_key = key},
            b_.param(name + ".a", {4, in}), b_.param(name + ".b", {out, 4})};
  }

  Tensor layer(const Tensor& x, int32_t l) {
    const std::string p = "l" + std::to_string(l) + ".";
    const Tensor n = rms_norm(x, b_.param(p + "norm1", {kWidth}), 1e-5f);
    const int64_t kv = kKvHeads * kHeadWidth;
    const auto qkv = linear(n,
                            {b_.param(p + "q", {kWidth, kWidth}), b_.param(p + "k", {kv, kWidth}),
                             b_.param(p + "v", {kv, kWidth})},
                            {.biases = {b_.param(p + "qb", {kWidth}), b_.param(p + "kb", {kv}),
                                        b_.param(p + "vb", {kv})},
                             .adapters = {adapter(p + "q.lora0", kWidth, kWidth, 0, 1),
                                          adapter(p + "q.lora1", kWidth, kWidth, 1, 2)}});
    const Tensor q =
        rope(rms_norm(qkv[0], b_.param(p + "qn", {kHeadWidth}), 1e-5f), table_, kHeads);
    const Tensor k =
        rope(rms_norm(qkv[1], b_.param(p + "kn", {kHeadWidth}), 1e-5f), table_, kKvHeads);
    const AttentionAttrs attrs{kHeads, kKvHeads, kHeadWidth, 0.35f, 0, l};
    const Tensor o =
        linear(attention(q, k, qkv[2], attrs), {b_.param(p + "o", {kWidth, kWidth})})[0];
    const Tensor middle = add({x, o});
    const Tensor m = rms_norm(middle, b_.param(p + "norm2", {kWidth}), 1e-5f);
    const auto gate_up =
        linear(m, {b_.param(p + "gate", {kFfn, kWidth}), b_.param(p + "up", {kFfn, kWidth})});
    const Tensor inner = mul(silu(gate_up[0]), gate_up[1]);
    const Tensor down = linear(inner, {b_.param(p + "down", {kWidth, kFfn})},
                               {.adapters = {adapter(p + "down.lora0", kFfn, kWidth, 0, 3)}})[0];
    return add({middle, down});
  }

  CaseBuilder& b_;
  Tensor table_;
};

}  // namespace

BuiltCase build_decoder(DType compute, const Rows& rows) {
  CaseBuilder builder(compute, rows, Mode::kGradient);
  Decoder(builder).trace();
  return builder.finish(true);
}

}  // namespace mainspring::conformance
