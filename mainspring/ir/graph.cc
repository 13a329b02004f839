#include "mainspring/ir/graph.h"

#include <set>
#include <sstream>

#include "mainspring/base/check.h"
#include "mainspring/ir/op_table.h"

namespace mainspring {
namespace {

std::vector<ValueType> input_types(const Graph& graph, const Node& node) {
  std::vector<ValueType> types;
  types.reserve(node.inputs.size());
  for (ValueId input : node.inputs) types.push_back(graph.type(input));
  return types;
}

void print_lora(std::ostream& out, const LoraAttrs& lora) {
  out << "{out=" << lora.output << " slot=" << lora.slot << " rank=" << lora.rank
      << " scale=" << lora.scale << " dropout=" << lora.dropout << "}";
}

// One overload per attribute type; an empty text prints nothing.
struct AttrsPrinter {
  std::ostream& out;
  void operator()(const NoAttrs&) const {}
  void operator()(const SourceAttrs& a) const { out << " \"" << a.name << "\""; }
  void operator()(const LoraAttrs& a) const {
    out << " ";
    print_lora(out, a);
  }
  void operator()(const LinearAttrs& a) const {
    out << " {weights=" << a.num_weights << (a.has_bias ? " bias" : "")
        << (a.f32_output ? " f32" : "") << "}";
    for (const LoraAttrs& lora : a.adapters) {
      out << " ";
      print_lora(out, lora);
    }
  }
  void operator()(const WeightGradAttrs& a) const {
    out << " {slot=" << a.slot << " dropout=" << a.x_dropout << "}";
  }
  void operator()(const NormAttrs& a) const {
    out << " {width=" << a.width << " eps=" << a.eps << (a.plus_one ? " plus_one" : "") << "}";
  }
  void operator()(const RopeAttrs& a) const {
    out << " {heads=" << a.heads << " c=" << a.head_width << (a.inverse ? " inverse" : "");
    if (a.first_row != 0) out << " first_row=" << a.first_row;
    out << "}";
  }
  void operator()(const AttentionAttrs& a) const {
    out << " {h=" << a.query_heads << " kv=" << a.kv_heads << " c=" << a.head_width
        << " scale=" << a.scale << " window=" << a.window << " layer=" << a.layer;
    if (a.softcap > 0.0f) out << " softcap=" << a.softcap;
    out << "}";
  }
  void operator()(const HeadAttrs& a) const {
    if (a.softcap > 0.0f) out << " {softcap=" << a.softcap << "}";
    if (a.has_d_lse) out << " {d_lse}";
  }
  void operator()(const ScalarAttrs& a) const { out << " {" << a.value << "}"; }
  void operator()(const MuonAttrs& a) const {
    out << " {products=" << dtype_name(a.products) << " nesterov=" << a.nesterov
        << " rate_scale=" << a.rate_scale << "}";
  }
  void operator()(const RoundingAttrs& a) const { out << " {rounding=" << a.key << "}"; }
};

Status broken(const Graph& graph, size_t index, const std::string& what) {
  const Node& node = graph.nodes()[index];
  return internal_error("node " + std::to_string(index) + " [" +
                        std::string(op_info(node.op).name) + "] " + node.path + ": " + what);
}

// Which values exist, and which of them a state writer has replaced in place.
struct Progress {
  std::vector<bool> made;
  std::vector<bool> replaced;
};

Status verify_values(const Graph& graph, size_t index, Progress& progress) {
  const Node& node = graph.nodes()[index];
  for (ValueId input : node.inputs) {
    if (input < 0 || input >= graph.num_values()) return broken(graph, index, "no such input");
    if (!progress.made[static_cast<size_t>(input)]) {
      return broken(graph, index, "%" + std::to_string(input) + " is used before it is made");
    }
    if (progress.replaced[static_cast<size_t>(input)]) {
      return broken(graph, index,
                    "%" + std::to_string(input) + " is used after it was replaced in place");
    }
  }
  for (ValueId output : node.outputs) {
    if (output < 0 || output >= graph.num_values()) return broken(graph, index, "no such output");
    if (progress.made[static_cast<size_t>(output)]) {
      return broken(graph, index, "%" + std::to_string(output) + " is made twice");
    }
    progress.made[static_cast<size_t>(output)] = true;
  }
  return {};
}

Status verify_node(const Graph& graph, size_t index, Progress& progress) {
  const Node& node = graph.nodes()[index];
  MS_RETURN_IF_ERROR(verify_values(graph, index, progress));
  if (op_info(node.op).is_source) return {};
  auto inferred = op_info(node.op).infer(graph.compute(), node.attrs, input_types(graph, node));
  if (!inferred.ok()) return broken(graph, index, inferred.status().message());
  if (inferred->size() != node.outputs.size())
    return broken(graph, index, "wrong number of outputs");
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const bool filled = node.op == OpKind::kFill;  // its type is given, not inferred
    if (!filled && !((*inferred)[i] == graph.type(node.outputs[i]))) {
      return broken(graph, index,
                    "output " + std::to_string(i) + " expected " + (*inferred)[i].to_string() +
                        ", got " + graph.type(node.outputs[i]).to_string());
    }
    if (const int32_t aliased = aliased_input(node, i); aliased >= 0) {
      progress.replaced[static_cast<size_t>(node.inputs[static_cast<size_t>(aliased)])] = true;
    }
  }
  return {};
}

}  // namespace

ValueId Graph::add_value(ValueType type) {
  types_.push_back(std::move(type));
  return static_cast<ValueId>(types_.size() - 1);
}

ValueId Graph::add_source(OpKind op, std::string name, ValueType type) {
  MS_CHECK(op_info(op).is_source, "add_source wants a source op");
  Node node;
  node.op = op;
  node.outputs = {add_value(std::move(type))};
  node.attrs = SourceAttrs{std::move(name)};
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs[0];
}

Result<std::vector<ValueId>> Graph::add_node(OpKind op, std::vector<ValueId> inputs, Attrs attrs,
                                             std::string path, int32_t region, bool backward) {
  Node node{op, std::move(inputs), {}, std::move(attrs), std::move(path), region, backward};
  auto types = op_info(op).infer(compute_, node.attrs, input_types(*this, node));
  if (!types.ok()) {
    return invalid_argument("[" + std::string(op_info(op).name) + "] " + types.status().message() +
                            (node.path.empty() ? "" : " (" + node.path + ")"));
  }
  for (ValueType& type : *types) node.outputs.push_back(add_value(std::move(type)));
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

std::vector<int32_t> Graph::producers() const {
  std::vector<int32_t> producers(types_.size(), -1);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (ValueId output : nodes_[i].outputs) {
      producers[static_cast<size_t>(output)] = static_cast<int32_t>(i);
    }
  }
  return producers;
}

std::vector<std::string> source_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (op_info(node.op).is_source) names.push_back(std::get<SourceAttrs>(node.attrs).name);
  }
  return names;
}

Status verify(const Graph& graph) {
  const auto num_values = static_cast<size_t>(graph.num_values());
  Progress progress{std::vector<bool>(num_values, false), std::vector<bool>(num_values, false)};
  std::set<std::string> names;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    MS_RETURN_IF_ERROR(verify_node(graph, i, progress));
    const Node& node = graph.nodes()[i];
    if (op_info(node.op).is_source &&
        !names.insert(std::get<SourceAttrs>(node.attrs).name).second) {
      return broken(graph, i, "a second source named " + std::get<SourceAttrs>(node.attrs).name);
    }
  }
  std::set<std::string> output_names;
  for (const GraphOutput& output : graph.outputs()) {
    if (output.value < 0 || output.value >= graph.num_values() ||
        !progress.made[static_cast<size_t>(output.value)]) {
      return internal_error("graph output " + output.name + " is never made");
    }
    if (!output_names.insert(output.name).second) {
      return internal_error("two graph outputs named " + output.name);
    }
  }
  return {};
}

std::string print(const Graph& graph) {
  std::ostringstream out;
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      out << (i > 0 ? ", " : "") << "%" << node.outputs[i] << ": "
          << graph.type(node.outputs[i]).to_string();
    }
    out << " = " << op_info(node.op).name << "(";
    for (size_t i = 0; i < node.inputs.size(); ++i) out << (i > 0 ? ", %" : "%") << node.inputs[i];
    out << ")";
    std::visit(AttrsPrinter{out}, node.attrs);
    if (!node.path.empty()) out << " " << node.path;
    out << "\n";
  }
  for (const GraphOutput& output : graph.outputs()) {
    out << "return " << output.name << " = %" << output.value << "\n";
  }
  return out.str();
}

}  // namespace mainspring
