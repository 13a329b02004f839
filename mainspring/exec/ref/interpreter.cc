#include "mainspring/exec/ref/interpreter.h"

#include <map>

#include "mainspring/base/check.h"
#include "mainspring/exec/late_inputs.h"
#include "mainspring/exec/ref/op.h"
#include "mainspring/exec/ref/ref_buffer.h"
#include "mainspring/exec/ref/storage.h"
#include "mainspring/exec/step_timer.h"
#include "mainspring/ir/op_table.h"

namespace mainspring::ref {
namespace {

// Rows and picked may be larger than the plan's capacity; everything else is exact.
Status check_type(const std::string& name, const ValueType& want, const Buffer& buffer,
                  RowCounts capacity) {
  const auto& got = buffer.shape();
  bool fits = want.dtype == buffer.dtype() && want.shape.dims.size() == got.size();
  for (size_t i = 0; fits && i < got.size(); ++i) {
    const int64_t dim = want.shape.dims[i];
    if (dim == kRows) {
      fits = got[i] >= capacity.rows;
    } else if (dim == kPicked) {
      fits = got[i] >= capacity.picked;
    } else {
      fits = got[i] == dim;
    }
  }
  if (fits) return {};
  return invalid_argument("binding " + name + ": expected " + want.to_string() + ", got " +
                          ValueType{buffer.dtype(), {got}}.to_string());
}

class Interpreter final : public RefExecutable {
 public:
  Interpreter(Graph graph, const CompileOptions& options, size_t late_step, bool round,
              PlanReport report, const Executor& executor)
      : graph_(std::move(graph)),
        capacity_(options.capacity),
        late_inputs_(options.late_inputs),
        late_step_(late_step),
        round_(round),
        report_(std::move(report)),
        executor_(executor),
        timer_(graph_),
        values_(static_cast<size_t>(graph_.num_values())) {
    for (const Node& node : graph_.nodes()) {
      if (!op_info(node.op).is_source) continue;
      sources_[std::get<SourceAttrs>(node.attrs).name] = {
          node.outputs[0], nullptr, {}, false, kNoValue};
    }
  }

  Status bind(std::string_view source, Buffer* buffer) override {
    const auto found = sources_.find(source);
    if (found == sources_.end()) return not_found("no source named " + std::string(source));
    auto* own = dynamic_cast<RefBuffer*>(buffer);
    if (own == nullptr)
      return invalid_argument("binding " + found->first + ": not a reference buffer");
    MS_RETURN_IF_ERROR(check_type(found->first, graph_.type(found->second.value), *own, capacity_));
    found->second.buffer = own;
    found->second.is_f64 = false;
    return {};
  }

  Status bind_values(std::string_view source, std::span<const double> values) override {
    const auto found = sources_.find(source);
    if (found == sources_.end()) return not_found("no source named " + std::string(source));
    found->second.f64.assign(values.begin(), values.end());
    found->second.is_f64 = true;
    return {};
  }

  void run(const RunArgs& args) override {
    static constexpr RowTable kNoRows{};
    table_ = args.table != nullptr ? args.table : &kNoRows;
    pick_table_ = args.pick_table != nullptr ? args.pick_table : &kNoRows;
    kv_ = args.kv;
    counts_ = {table_->num_rows, static_cast<int64_t>(table_->picked.size())};
    MS_CHECK(counts_.rows <= capacity_.rows && counts_.picked <= capacity_.picked,
             "more rows than the plan's capacity");
    Timeline* timeline = executor_.timeline();
    if (timeline != nullptr) timer_.begin_run(*timeline, *table_);
    for (auto& [name, source] : sources_) load(name, source);
    size_t step = 0;
    for (const Node& node : graph_.nodes()) {
      if (op_info(node.op).is_source) continue;
      if (step == late_step_) fill_late_inputs(args);
      if (timeline != nullptr) timer_.begin_step(step);
      run_node(node);
      ++step;
    }
    if (step == late_step_) fill_late_inputs(args);
    if (timeline != nullptr) timer_.end_run();
    for (auto& [name, source] : sources_) store(source);
    encode_outputs();
  }

  const void* output(std::string_view name) const override {
    const auto found = output_bytes_.find(name);
    return found == output_bytes_.end() ? nullptr : found->second.data();
  }

  std::span<const double> values(std::string_view name) const override {
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.name == name) return value(output.value).data;
    }
    const auto found = sources_.find(name);
    if (found == sources_.end()) return {};
    return value(found->second.latest).data;
  }

  const PlanReport& report() const override { return report_; }

 private:
  struct Source {
    ValueId value = kNoValue;
    RefBuffer* buffer = nullptr;
    std::vector<double> f64;  // instead of the buffer
    bool is_f64 = false;
    ValueId latest = kNoValue;  // the state after its last update
  };

  Value& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }

  // Zeros in the shape that this run gives the value.
  Value shaped(ValueId id) const {
    const std::vector<int64_t>& dims = graph_.type(id).shape.dims;
    std::vector<int64_t> bound;
    for (int64_t dim : dims) {
      bound.push_back(dim == kRows ? counts_.rows : dim == kPicked ? counts_.picked : dim);
    }
    Value result(std::move(bound));
    result.by_picks = !dims.empty() && dims[0] == kPicked;
    return result;
  }

  void load(const std::string& name, Source& source) {
    MS_CHECK(source.is_f64 || source.buffer != nullptr, "source " + name + " is not bound");
    Value& loaded = value(source.value);
    loaded = shaped(source.value);
    const size_t elements = loaded.data.size();
    if (source.is_f64) {
      MS_CHECK(source.f64.size() == elements, "source " + name + " has another number of values");
      loaded.data = source.f64;
    } else {
      const RefBuffer& buffer = *source.buffer;
      loaded.data =
          decode(buffer.dtype(), buffer.data(), buffer.aux(), static_cast<int64_t>(elements),
                 buffer.shape().empty() ? 1 : std::max<int64_t>(buffer.shape().back(), 1));
    }
    source.latest = source.value;
  }

  void fill_late_inputs(const RunArgs& args) {
    if (args.fill_late_inputs == nullptr) return;
    if (executor_.timeline() != nullptr) timer_.begin_late_inputs();
    encode_outputs();
    (*args.fill_late_inputs)();
    for (const std::string& name : late_inputs_) load(name, sources_.at(name));
  }

  // Writes a state back where it came from.
  void store(Source& source) {
    if (source.latest == source.value) return;
    if (source.is_f64) {
      source.f64 = value(source.latest).data;
    } else {
      encode(source.buffer->dtype(), value(source.latest).data, source.buffer->data());
      source.buffer->mark_changed();
    }
  }

  void run_node(const Node& node) {
    std::vector<const Value*> inputs;
    for (ValueId input : node.inputs) inputs.push_back(&value(input));
    std::vector<Value> outputs;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const int32_t aliased = aliased_input(node, i);
      outputs.push_back(aliased >= 0 ? *inputs[static_cast<size_t>(aliased)]
                                     : shaped(node.outputs[i]));
    }
    const OpCall call{.node = node,
                      .inputs = inputs,
                      .outputs = outputs,
                      .table = *table_,
                      .pick_table = *pick_table_,
                      .kv = kv_,
                      .compute = graph_.compute(),
                      .round = round_};
    find_op(node.op)(call);
    for (size_t i = 0; i < node.outputs.size(); ++i) finish_output(node, i, std::move(outputs[i]));
  }

  void finish_output(const Node& node, size_t index, Value result) {
    const ValueId id = node.outputs[index];
    if (const int32_t aliased = aliased_input(node, index); aliased >= 0) {
      const ValueId before = node.inputs[static_cast<size_t>(aliased)];
      for (auto& [name, source] : sources_) {
        if (source.latest == before) source.latest = id;
      }
    }
    if (round_) {
      for (double& x : result.data) x = round_to(graph_.type(id).dtype, x);
    }
    value(id) = std::move(result);
  }

  void encode_outputs() {
    for (const GraphOutput& output : graph_.outputs()) {
      const Value& result = value(output.value);
      const DType dtype = graph_.type(output.value).dtype;
      auto& bytes = output_bytes_[output.name];
      bytes.resize(
          static_cast<size_t>(dtype_bytes(dtype, static_cast<int64_t>(result.data.size()))));
      encode(dtype, result.data, bytes.data());
    }
  }

  const Graph graph_;
  const RowCounts capacity_;
  const std::vector<std::string> late_inputs_;
  const size_t late_step_;  // late inputs are filled before it
  const bool round_;
  const PlanReport report_;
  const Executor& executor_;
  StepTimer timer_;
  std::vector<Value> values_;  // by ValueId, all kept: the reference saves no memory
  std::map<std::string, Source, std::less<>> sources_;
  std::map<std::string, std::vector<std::byte>, std::less<>> output_bytes_;
  const RowTable* table_ = nullptr;
  const RowTable* pick_table_ = nullptr;
  const KvView* kv_ = nullptr;
  RowCounts counts_;
};

}  // namespace

Result<std::unique_ptr<RefExecutable>> make_interpreter(Graph graph, const CompileOptions& options,
                                                        bool round, PlanReport report,
                                                        const Executor& executor) {
  MS_ASSIGN_OR_RETURN(const size_t late_step, steps_before_late_inputs(graph, options.late_inputs));
  return std::unique_ptr<RefExecutable>(std::make_unique<Interpreter>(
      std::move(graph), options, late_step, round, std::move(report), executor));
}

}  // namespace mainspring::ref
