#include "mainspring/train/checkpointing.h"

namespace mainspring {
namespace {

constexpr const char* kAdamStep = "adam_step";

bool is_adapter(const Engine& engine, ModelId id) { return engine.adapter_spec(id).ok(); }

StoredTensor renamed(StoredTensor tensor, const std::string& name) {
  tensor.name = name;
  return tensor;
}

// Where a tensor of Engine::State is kept: "<role>/<name in the file>", as a checkpoint has it.
struct Place {
  std::string role;
  std::string name;
  friend auto operator<=>(const Place&, const Place&) = default;
};

Place place_of(const std::string& name, bool adapter) {
  for (const std::string role : {"model", "ema"}) {  // weights, as their model's file names them
    if (!name.starts_with(role + "/")) continue;
    const std::string weight = name.substr(role.size() + 1);
    // In a file of its own, so that the others stay what PEFT and transformers load.
    if (weight == kValueHead) return {"value_head", role == "model" ? weight : name};
    return {role, adapter ? peft_tensor_name(weight) : weight};
  }
  return {"optimizer", name};
}

}  // namespace

Result<CheckpointContent> checkpoint_content(const Engine& engine, ModelId id, TrainState state) {
  MS_ASSIGN_OR_RETURN(const Engine::State engine_state, engine.state(id));
  const bool adapter = is_adapter(engine, id);
  std::map<std::string, CheckpointFile> files;  // by role
  for (const auto& [role, file_name] :
       {std::pair{"model", adapter ? "adapter_model.safetensors" : "model.safetensors"},
        {"optimizer", "optimizer.safetensors"},
        {"ema", kEmaFile},
        {"value_head", "value_head.safetensors"}}) {
    files[role].role = role;
    files[role].file_name = file_name;
  }
  for (const auto& [name, tensor] : engine_state.tensors) {
    const Place place = place_of(name, adapter);
    files[place.role].tensors[place.name] = renamed(tensor, place.name);
  }
  CheckpointContent content{.state = std::move(state), .files = {}, .texts = {}};
  content.state.extra[kAdamStep] = std::to_string(engine_state.step);
  content.files = {std::move(files["model"]), std::move(files["optimizer"])};
  for (const char* role : {"ema", "value_head"}) {
    if (!files[role].tensors.empty()) content.files.push_back(std::move(files[role]));
  }
  if (adapter) {
    MS_ASSIGN_OR_RETURN(const Adapter values, engine.adapter(id));
    content.texts["adapter_config.json"] =
        peft_config_text(values, engine.model().config, engine.model().path);
  } else if (!engine.model().config_json.empty()) {
    content.texts["config.json"] = engine.model().config_json;
    const TokenizerSource& tokenizer = engine.model().tokenizer;
    if (!tokenizer.tokenizer_json.empty()) {
      content.texts["tokenizer.json"] = tokenizer.tokenizer_json;
    }
    if (!tokenizer.tokenizer_config_json.empty()) {
      content.texts["tokenizer_config.json"] = tokenizer.tokenizer_config_json;
    }
  }
  return content;
}

Status restore_engine(Engine& engine, ModelId id, const Checkpoint& checkpoint) {
  const bool adapter = is_adapter(engine, id);
  MS_ASSIGN_OR_RETURN(const Engine::State own, engine.state(id));
  std::map<Place, StoredTensor> saved;
  for (const CheckpointFile& file : checkpoint.files) {
    for (const auto& [name, tensor] : file.tensors) saved[{file.role, name}] = tensor;
  }
  Engine::State state;
  for (const auto& [name, tensor] : own.tensors) {
    const Place place = place_of(name, adapter);
    const auto found = saved.find(place);
    if (found == saved.end()) {
      return invalid_argument(checkpoint.path + ": no tensor " + place.role + "/" + place.name +
                              ": was it saved with another recipe?");
    }
    state.tensors[name] = renamed(found->second, name);
  }
  if (state.tensors.size() != saved.size()) {
    return invalid_argument(checkpoint.path + ": has " + std::to_string(saved.size()) +
                            " tensors, this recipe " + std::to_string(state.tensors.size()));
  }
  const auto step = checkpoint.state.extra.find(kAdamStep);
  if (step == checkpoint.state.extra.end())
    return invalid_argument(checkpoint.path + ": no optimizer step");
  state.step = std::stoll(step->second);
  return engine.load_state(id, state).with_context(checkpoint.path);
}

}  // namespace mainspring
