// What a node computes and moves in one run: the op table's figures for the rows that are there.
#pragma once

#include "mainspring/ir/graph.h"
#include "mainspring/ir/row_table.h"

namespace mainspring {

struct RunCost {
  double flops = 0;
  double bytes = 0;
};

/// FLOPs (a multiply-add is two) and the bytes that must move once: every input and output, in the
/// dtype it is stored in. Unlike node_flops and node_bytes, which know only how many rows there
/// are: attention counts each segment's own pairs of query and key, and the earlier keys and values
/// it reads; a table that rows are looked up in (embeddings, positions, rotary angles, their
/// gradients) counts the rows that are touched; the matrices of linears and heads count in the
/// graph's compute dtype, in which kernels read them. Values read again from a cache are not
/// counted again. `kept_picks`: of a head and its gradient, picks whose logits the executor keeps
/// from one to the other: they are moved instead of computed again.
RunCost run_cost(const Graph& graph, const Node& node, const RowTable& table,
                 int64_t kept_picks = 0);

/// True if no input or output has rows or picks: the ops of the optimizer's graphs.
bool touches_no_row(const Graph& graph, const Node& node);

}  // namespace mainspring
