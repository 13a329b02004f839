// Optimizers whose states are kept in fewer bits than f32: AdamW and Lion in bf16 rounded by
// chance, AdamW with moments in 8 bits; and the moving average of the weights.
//
// The one idea: which code or which of two bf16 a value becomes is a step function of it, so an
// oracle in f64 would differ by whole steps wherever the value lies near an edge. What is stored is
// therefore computed in f32, as exec/cpu/ops.h writes it, one element after another.
#include <algorithm>
#include <bit>
#include <cmath>

#include "mainspring/base/bf16.h"
#include "mainspring/base/dynamic_map.h"
#include "mainspring/base/philox.h"
#include "mainspring/base/thread_pool.h"
#include "mainspring/exec/ref/op.h"

namespace mainspring::ref {
namespace {

std::vector<float> floats(const Value& x) { return {x.data.begin(), x.data.end()}; }

void put(const std::vector<float>& from, Value& to) { to.data.assign(from.begin(), from.end()); }

// One element's AdamW; `s` as optim/ makes them.
void move_adamw(const std::vector<float>& s, float grad, float& param, float& m, float& v) {
  const float g = grad * s[7];
  m = std::fma(g - m, 1.0f - s[1], m);
  v = std::fma(g * g, 1.0f - s[2], v * s[2]);
  const float denominator = std::sqrt(v) / s[6] + s[3];
  param = std::fma(-(s[0] / s[5]), m / denominator, param * (1.0f - s[0] * s[4]));
}

void move_lion(const std::vector<float>& s, float grad, float& param, float& m) {
  const float away = grad * s[4] - m;
  const float c = std::fma(away, 1.0f - s[1], m);
  const float step = c > 0.0f ? s[0] : c < 0.0f ? -s[0] : 0.0f;
  param = param * (1.0f - s[0] * s[3]) - step;
  m = std::fma(away, 1.0f - s[2], m);
}

// Element `index` of array `which` of a parameter (its first state, its second, its third).
class Rounding {
 public:
  Rounding(uint64_t key, double step) {
    const PhiloxCounter words = philox4x32({static_cast<uint32_t>(step), 0, 0, 0}, philox_key(key));
    key_ = {words[0], words[1]};
  }

  float operator()(float x, uint64_t index, size_t which) const {
    const uint32_t u = std::bit_cast<uint32_t>(x);
    if (!std::isfinite(x)) return to_f32(to_bf16(x));
    const uint64_t counter = index / 32 * 16 + index % 16;
    const PhiloxCounter words = philox4x32(
        {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}, key_);
    const uint32_t word = words[index / 16 % 2 * 2 + which / 2];
    const uint32_t chance = which == 1 ? word & 0xffffu : word >> 16;
    return std::bit_cast<float>((u + chance) & 0xffff0000u);
  }

 private:
  PhiloxKey key_;
};

std::vector<float> decoded(const DynamicMap& map, const Value& codes, const Value& largest) {
  std::vector<float> x;
  for (size_t i = 0; i < codes.data.size(); ++i) {
    const auto block = static_cast<float>(largest.data[i / kMomentBlock]);
    x.push_back(map.levels[static_cast<size_t>(codes.data[i])] * block);
  }
  return x;
}

void encode(const DynamicMap& map, bool keeps_positive, const std::vector<float>& x, Value& codes,
            Value& largest) {
  for (size_t begin = 0; begin < x.size(); begin += kMomentBlock) {
    const size_t end = std::min<size_t>(x.size(), begin + kMomentBlock);
    float most = 0.0f;
    for (size_t i = begin; i < end; ++i) most = std::max(most, std::abs(x[i]));
    largest.data[begin / kMomentBlock] = most;
    for (size_t i = begin; i < end; ++i) {
      uint8_t code = dynamic_code(map, most > 0.0f ? x[i] / most : 0.0f);
      if (keeps_positive && x[i] > 0.0f) code = std::max<uint8_t>(code, 1);
      codes.data[i] = code;
    }
  }
}

}  // namespace

void adamw_bf16(const OpCall& call) {
  const ComputeScope scope;
  const std::vector<float> s = floats(call.in(4));
  const Rounding round(call.attrs<RoundingAttrs>().key, call.in(5).data[0]);
  std::vector<float> grad = floats(call.in(3));
  std::vector<float> param = floats(call.in(0)), m = floats(call.in(1)), v = floats(call.in(2));
  for (size_t i = 0; i < param.size(); ++i) {
    move_adamw(s, grad[i], param[i], m[i], v[i]);
    param[i] = round(param[i], i, 0);
    m[i] = round(m[i], i, 1);
    v[i] = round(v[i], i, 2);
  }
  put(param, call.out(0));
  put(m, call.out(1));
  put(v, call.out(2));
}

void lion_bf16(const OpCall& call) {
  const ComputeScope scope;
  const std::vector<float> s = floats(call.in(3));
  const Rounding round(call.attrs<RoundingAttrs>().key, call.in(4).data[0]);
  std::vector<float> grad = floats(call.in(2));
  std::vector<float> param = floats(call.in(0)), m = floats(call.in(1));
  for (size_t i = 0; i < param.size(); ++i) {
    move_lion(s, grad[i], param[i], m[i]);
    param[i] = round(param[i], i, 0);
    m[i] = round(m[i], i, 1);
  }
  put(param, call.out(0));
  put(m, call.out(1));
}

// Inputs param, codes and maxima of m and of v, grad, scalars as AdamW's [, step]; outputs the
// states.
void adamw_8bit(const OpCall& call) {
  const ComputeScope scope;
  const std::vector<float> s = floats(call.in(6));
  const bool rounds = std::holds_alternative<RoundingAttrs>(call.node.attrs);
  std::vector<float> param = floats(call.in(0)), grad = floats(call.in(5));
  std::vector<float> m = decoded(kSignedMap, call.in(1), call.in(2));
  std::vector<float> v = decoded(kUnsignedMap, call.in(3), call.in(4));
  for (size_t i = 0; i < param.size(); ++i) move_adamw(s, grad[i], param[i], m[i], v[i]);
  if (rounds) {
    const Rounding round(call.attrs<RoundingAttrs>().key, call.in(7).data[0]);
    for (size_t i = 0; i < param.size(); ++i) param[i] = round(param[i], i, 0);
  }
  put(param, call.out(0));
  encode(kSignedMap, false, m, call.out(1), call.out(2));
  encode(kUnsignedMap, true, v, call.out(3), call.out(4));
}

// Inputs average, param, rate; output average += rate (param - average).
void ema(const OpCall& call) {
  const double rate = call.in(2).data[0];
  for (size_t i = 0; i < call.in(0).data.size(); ++i) {
    double& average = call.out(0).data[i];
    average += rate * (call.in(1).data[i] - average);
  }
}

}  // namespace mainspring::ref
