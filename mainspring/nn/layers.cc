#include "mainspring/nn/layers.h"

#include "mainspring/base/check.h"

namespace mainspring::nn {

const AdapterSpec::Module* AdapterSpec::find(const std::string& module) const {
  for (const auto& [name, sizes] : modules) {
    if (name == module) return &sizes;
  }
  return nullptr;
}

Tensor Params::get(const std::string& name, std::vector<int64_t> dims) const {
  return tracer_.param(name, {dtype_of_(name), {std::move(dims)}});
}

std::vector<Tensor> linears(const Params& params, const Tensor& x,
                            const std::vector<LinearSpec>& specs) {
  const int64_t in = x.shape().dims[1];
  std::vector<Tensor> weights;
  LinearOptions options;
  for (const LinearSpec& spec : specs) {
    MS_CHECK(spec.bias == specs[0].bias, "linears that share an input have biases all or none");
    weights.push_back(params.get(spec.module + ".weight", {spec.out, in}));
    if (spec.bias) options.biases.push_back(params.get(spec.module + ".bias", {spec.out}));
  }
  for (const AdapterSpec& adapter : params.adapters()) {
    for (size_t i = 0; i < specs.size(); ++i) {
      const AdapterSpec::Module* sizes = adapter.find(specs[i].module);
      if (sizes == nullptr) continue;
      LoraAttrs attrs{.output = static_cast<int32_t>(i),
                      .slot = adapter.slot,
                      .rank = sizes->rank,
                      .scale = sizes->scale,
                      .dropout = adapter.dropout,
                      .dropout_key = random_key(adapter.dropout_seed, specs[i].module)};
      const std::string name = adapter.prefix + specs[i].module;
      options.adapters.push_back(
          {attrs,
           params.tracer().param(name + ".lora_A.weight", {DType::kF32, {{sizes->rank, in}}}),
           params.tracer().param(name + ".lora_B.weight",
                                 {DType::kF32, {{specs[i].out, sizes->rank}}})});
    }
  }
  return linear(x, weights, options);
}

uint64_t random_key(uint64_t seed, const std::string& path) {
  uint64_t hash = 0xcbf29ce484222325ull ^ seed;
  for (char c : path) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace mainspring::nn
