#include "mainspring/train/live_model.h"

#include "mainspring/models/decoder.h"

namespace mainspring {

Result<ForwardModel> live_model(Engine& engine, ModelId id, ParameterSet& base) {
  MS_ASSIGN_OR_RETURN(const ParameterSet* parameters, engine.parameters(id));
  const auto adapter = id == kBaseModel ? Result<nn::AdapterSpec>(invalid_argument("base"))
                                        : engine.adapter_spec(id);
  base = adapter.ok() || id == kBaseModel ? engine.base_parameters() : *parameters;
  base[kRopeTableParam] = engine.rope_table();
  ForwardModel model{.compute = engine.options().compute,
                     .config = engine.model().config,
                     .base = &base,
                     .adapters = {},
                     .weight_version = 0};
  if (adapter.ok())
    model.adapters.push_back({.spec = *adapter, .parameters = parameters, .weight_version = 0});
  return model;
}

}  // namespace mainspring
