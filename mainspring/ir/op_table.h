// The op table: one row of facts per op. Everything that asks "is this op ..." reads it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "mainspring/base/status.h"
#include "mainspring/ir/graph.h"

namespace mainspring {

using TypeRefs = std::vector<ValueType>;

/// Facts of one op. `infer` gives the output types or says what was expected; `flops` counts
/// multiply-adds as two, `bytes` what must move once, both for given row counts.
struct OpInfo {
  OpKind kind;
  std::string_view name;
  bool is_source = false;
  bool is_elementwise = false;  // output i depends on inputs' element i only
  bool is_fused = false;        // equals a composition of others, roundings included
  bool writes_state =
      false;  // updates a state in place when it has that input; see aliased_input()
  int32_t aliased_input = -1;  // the (first) in-place input, if the node has so many inputs
  bool is_cheap = false;       // recomputed under selective recomputation
  bool is_quadratic = false;   // costs grow with the square of a sequence's length
  bool is_differentiable =
      false;  // may stand between a parameter and a loss: needs an autodiff rule
  Result<TypeRefs> (*infer)(DType compute, const Attrs& attrs, const TypeRefs& inputs) = nullptr;
  double (*flops)(const Attrs& attrs, const TypeRefs& in, const TypeRefs& out,
                  RowCounts counts) = nullptr;
};

const OpInfo& op_info(OpKind kind);
std::span<const OpInfo> op_table();

/// The input that output `output` of `node` is updated in place of, or -1. Only state writers have
/// one: their last output (all outputs of adamw, each its own input).
int32_t aliased_input(const Node& node, size_t output);

/// True if removing the node would lose an effect.
bool has_effect(const Node& node);

/// Bytes read and written once by a node: every input and output.
double node_bytes(const Graph& graph, const Node& node, RowCounts counts);
double node_flops(const Graph& graph, const Node& node, RowCounts counts);

}  // namespace mainspring
