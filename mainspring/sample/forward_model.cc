#include "mainspring/sample/forward_model.h"

#include <cstring>
#include <variant>

#include "mainspring/models/decoder.h"
#include "mainspring/models/rope_table.h"

namespace mainspring {
namespace {

constexpr const char* kResult = "result";

std::vector<nn::AdapterSpec> serving_specs(const ForwardModel& model) {
  std::vector<nn::AdapterSpec> specs;
  for (size_t i = 0; i < model.adapters.size(); ++i) {
    specs.push_back(model.adapters[i].spec);
    specs.back().slot = static_cast<int32_t>(i);
    specs.back().dropout = 0.0f;
  }
  return specs;
}

Buffer* find_in_model(const ForwardModel& model, const std::string& name) {
  if (Buffer* found = find_parameter(name, {model.base})) return found;
  for (const ForwardAdapter& adapter : model.adapters) {
    if (adapter.parameters == nullptr) continue;
    if (Buffer* found = find_parameter(name, {adapter.parameters})) return found;
  }
  return nullptr;
}

/// Positions of a rope table.
int64_t positions_of(const ForwardModel& model, const Buffer& table) {
  return table.shape()[0] / num_rope_tables(model.config);
}

/// The base's own rope table if it is long enough.
Buffer* given_rope_table(const ForwardModel& model, int64_t positions) {
  Buffer* table = find_parameter(kRopeTableParam, {model.base});
  return table != nullptr && positions_of(model, *table) >= positions ? table : nullptr;
}

Graph trace(const ForwardModel& model, Forward::Ending ending, int64_t rope_positions) {
  Tracer tracer(model.compute);
  const auto dtype_of = [&](const std::string& name) {
    const Buffer* found = find_in_model(model, name);
    return found == nullptr ? DType::kF32
                            : found->dtype();  // a missing one is refused while binding
  };
  const nn::Params params(tracer, dtype_of, serving_specs(model));
  const Tensor hidden = decoder_hidden(params, model.config, rope_positions);
  Tracer::Scope scope(tracer, "head");
  if (ending == Forward::Ending::kLogits) {
    tracer.output(kResult, decoder_logits(params, model.config, hidden));
  } else {
    const Tensor targets = tracer.input(kTargetsInput, {DType::kI32, {{kPicked}}});
    tracer.output(kResult, decoder_logprob(params, model.config, hidden, targets));
  }
  return tracer.release();
}

std::vector<std::string> param_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (node.op == OpKind::kParam) names.push_back(std::get<SourceAttrs>(node.attrs).name);
  }
  return names;
}

}  // namespace

Result<std::unique_ptr<Forward>> Forward::create(Executor& executor, const ForwardModel& model,
                                                 const Options& options) {
  std::unique_ptr<Forward> forward(new Forward());
  forward->ending_ = options.ending;
  MS_RETURN_IF_ERROR(check_positions(model.config, options.rope_positions));
  Buffer* rope = given_rope_table(model, options.rope_positions);
  const int64_t positions = rope != nullptr ? positions_of(model, *rope) : options.rope_positions;
  if (rope == nullptr) {
    const std::vector<float> table = make_rope_table(model.config, positions);
    forward->rope_ = executor.allocate(DType::kF32, rope_table_shape(model.config, positions));
    std::memcpy(forward->rope_->data(), table.data(), table.size() * sizeof(float));
    forward->rope_->mark_changed();
    rope = forward->rope_.get();
  }
  Graph graph = trace(model, options.ending, positions);
  const std::vector<std::string> names = param_names(graph);
  CompileOptions compile_options;
  compile_options.capacity = options.capacity;
  MS_ASSIGN_OR_RETURN(forward->executable_, executor.compile(std::move(graph), compile_options));
  for (const std::string& name : names) {
    Buffer* buffer = name == kRopeTableParam ? rope : find_in_model(model, name);
    if (buffer == nullptr)
      return not_found("the model's weights have no parameter \"" + name + "\"");
    MS_RETURN_IF_ERROR(forward->executable_->bind(name, buffer));
  }
  forward->tokens_ = executor.allocate(DType::kI32, {options.capacity.rows});
  MS_RETURN_IF_ERROR(forward->executable_->bind(kTokensInput, forward->tokens_.get()));
  if (options.ending == Ending::kLogprob) {
    forward->targets_ = executor.allocate(DType::kI32, {options.capacity.picked});
    MS_RETURN_IF_ERROR(forward->executable_->bind(kTargetsInput, forward->targets_.get()));
  }
  return forward;
}

void Forward::run(const RowTable& table, const KvView* kv) {
  executable_->run({.table = &table, .pick_table = nullptr, .kv = kv});
}

const float* Forward::result() const {
  return static_cast<const float*>(executable_->output(kResult));
}

}  // namespace mainspring
