#include "mainspring/train/checkpointing.h"

namespace mainspring {
namespace {

constexpr const char* kAdamStep = "adam_step";
constexpr std::string_view kModelPrefix = "model/";

bool is_adapter(const Engine& engine, ModelId id) { return engine.adapter_spec(id).ok(); }

StoredTensor renamed(StoredTensor tensor, const std::string& name) {
  tensor.name = name;
  return tensor;
}

// "model/x" -> x as it is called in the model's file.
std::string file_name_of(const std::string& name, bool adapter) {
  return adapter ? peft_tensor_name(name) : name;
}

}  // namespace

Result<CheckpointContent> checkpoint_content(const Engine& engine, ModelId id, TrainState state) {
  MS_ASSIGN_OR_RETURN(const Engine::State engine_state, engine.state(id));
  const bool adapter = is_adapter(engine, id);
  CheckpointFile model{.file_name = adapter ? "adapter_model.safetensors" : "model.safetensors",
                       .role = "model",
                       .tensors = {},
                       .metadata = {}};
  CheckpointFile optimizer{
      .file_name = "optimizer.safetensors", .role = "optimizer", .tensors = {}, .metadata = {}};
  for (const auto& [name, tensor] : engine_state.tensors) {
    if (name.starts_with(kModelPrefix)) {
      const std::string file_name = file_name_of(name.substr(kModelPrefix.size()), adapter);
      model.tensors[file_name] = renamed(tensor, file_name);
    } else {
      optimizer.tensors[name] = tensor;
    }
  }
  CheckpointContent content{.state = std::move(state), .files = {}, .texts = {}};
  content.state.extra[kAdamStep] = std::to_string(engine_state.step);
  content.files = {std::move(model), std::move(optimizer)};
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
  TensorSet by_file_name;
  for (const CheckpointFile& file : checkpoint.files) {
    by_file_name.insert(file.tensors.begin(), file.tensors.end());
  }
  Engine::State state;
  for (const auto& [name, tensor] : own.tensors) {
    const std::string file_name = name.starts_with(kModelPrefix)
                                      ? file_name_of(name.substr(kModelPrefix.size()), adapter)
                                      : name;
    const auto found = by_file_name.find(file_name);
    if (found == by_file_name.end()) {
      return invalid_argument(checkpoint.path + ": no tensor " + file_name +
                              ": was it saved with another recipe?");
    }
    state.tensors[name] = renamed(found->second, name);
  }
  if (state.tensors.size() != by_file_name.size()) {
    return invalid_argument(checkpoint.path + ": has " + std::to_string(by_file_name.size()) +
                            " tensors, this recipe " + std::to_string(state.tensors.size()));
  }
  const auto step = checkpoint.state.extra.find(kAdamStep);
  if (step == checkpoint.state.extra.end())
    return invalid_argument(checkpoint.path + ": no optimizer step");
  state.step = std::stoll(step->second);
  return engine.load_state(id, state).with_context(checkpoint.path);
}

}  // namespace mainspring
