#include "mainspring/ir/run_cost.h"

#include <algorithm>

#include "mainspring/ir/op_table.h"

namespace mainspring {
namespace {

bool has_rows(const ValueType& type) {
  return std::any_of(type.shape.dims.begin(), type.shape.dims.end(),
                     [](int64_t dim) { return dim < 0; });
}

double stored_bytes(DType dtype, double elements) {
  return elements * static_cast<double>(dtype_block_bytes(dtype)) /
         static_cast<double>(dtype_block_elements(dtype));
}

// Input `index` is a table of which one entry per row is read, or written back.
bool is_looked_up(const Node& node, size_t index) {
  switch (node.op) {
    case OpKind::kEmbedding:
    case OpKind::kRope:
    case OpKind::kPositionEmbeddingGrad:
      return index == 1;
    case OpKind::kPositionEmbedding:
      return index == 0;
    case OpKind::kEmbeddingGrad:
      return index == 2;
    default:
      return false;
  }
}

bool is_matrix_product(OpKind op) {
  return op == OpKind::kLinear || op == OpKind::kLinearInputGrad || op == OpKind::kLoraUpGrad ||
         op == OpKind::kHeadLogprob || op == OpKind::kHeadLogprobGrad;
}

double looked_up_bytes(const ValueType& table, double rows) {
  double width = 1;
  for (size_t i = 1; i < table.shape.dims.size(); ++i) {
    width *= static_cast<double>(table.shape.dims[i]);
  }
  return stored_bytes(table.dtype,
                      std::min(rows, static_cast<double>(table.shape.dims[0])) * width);
}

double operand_bytes(const Graph& graph, const Node& node, size_t index, RowCounts counts) {
  const ValueType& type = graph.type(node.inputs[index]);
  const double elements = static_cast<double>(type.shape.num_elements(counts));
  if (is_looked_up(node, index)) return looked_up_bytes(type, static_cast<double>(counts.rows));
  const int32_t state = op_info(node.op).aliased_input;
  const bool is_matrix = type.shape.rank() == 2 && !has_rows(type) &&
                         static_cast<int32_t>(index) != state && is_matrix_product(node.op);
  return stored_bytes(is_matrix ? graph.compute() : type.dtype, elements);
}

double result_bytes(const Graph& graph, const Node& node, size_t index, RowCounts counts) {
  const ValueType& type = graph.type(node.outputs[index]);
  const int32_t alias = aliased_input(node, index);
  if (alias >= 0 && is_looked_up(node, static_cast<size_t>(alias))) {
    return looked_up_bytes(type, static_cast<double>(counts.rows));
  }
  return stored_bytes(type.dtype, static_cast<double>(type.shape.num_elements(counts)));
}

// The op table counts one sequence that starts at position 0, so a segment is what the sequence
// takes up to its end less what it took before it.
void count_attention(const Graph& graph, const Node& node, const RowTable& table, RunCost& cost) {
  const auto& attrs = std::get<AttentionAttrs>(node.attrs);
  const double kv_width = 2.0 * static_cast<double>(attrs.kv_heads * attrs.head_width);
  cost.flops = 0;
  for (const Segment& segment : table.segments) {
    const int64_t before = segment.position;
    const auto flops_to = [&](int64_t rows) {
      return node_flops(graph, node, {.rows = rows, .picked = 0});
    };
    cost.flops += flops_to(before + segment.num_rows) - flops_to(before);
    const int64_t earlier = attrs.window > 0 ? std::min(before, attrs.window - 1) : before;
    cost.bytes += stored_bytes(graph.compute(), kv_width * static_cast<double>(earlier));
  }
}

// Logits that the head leaves for its gradient (f32, one per pick and token).
void count_kept(const Graph& graph, const Node& node, int64_t picks, RunCost& cost) {
  const auto& head = graph.type(node.inputs[1]).shape.dims;  // (v, d)
  const double logits = static_cast<double>(picks) * static_cast<double>(head[0]);
  cost.bytes += 4 * logits;
  if (node.op == OpKind::kHeadLogprobGrad) cost.flops -= 2 * logits * static_cast<double>(head[1]);
}

}  // namespace

RunCost run_cost(const Graph& graph, const Node& node, const RowTable& table, int64_t kept_picks) {
  const RowCounts counts{table.num_rows, static_cast<int64_t>(table.picked.size())};
  RunCost cost;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    cost.bytes += operand_bytes(graph, node, i, counts);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    cost.bytes += result_bytes(graph, node, i, counts);
  }
  if (std::holds_alternative<AttentionAttrs>(node.attrs)) {
    count_attention(graph, node, table, cost);
  } else {
    cost.flops = node_flops(graph, node, counts);
  }
  if (node.op == OpKind::kHeadLogprob || node.op == OpKind::kHeadLogprobGrad) {
    count_kept(graph, node, std::min(kept_picks, counts.picked), cost);
  }
  return cost;
}

bool touches_no_row(const Graph& graph, const Node& node) {
  for (const auto* side : {&node.inputs, &node.outputs}) {
    for (ValueId value : *side) {
      if (has_rows(graph.type(value))) return false;
    }
  }
  return true;
}

}  // namespace mainspring
