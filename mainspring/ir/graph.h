// Graph: a model's computation as data: nodes in execution order over typed values.
//
// The one idea: tracing, differentiation, passes and planning all read and write this one
// structure. A value is made by exactly one node; a node's attributes are plain data. Nothing here
// computes. Not for memory or devices: see exec/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/ir/shape.h"

namespace mainspring {

/// The op set; ir/op_table.h has one row of facts per entry, in this order.
enum class OpKind : uint8_t {
  // Sources: named buffers bound at run time.
  kInput,  // changes every run: tokens, targets
  kParam,  // a weight or table, read only
  kState,  // updated in place: gradient accumulators, masters, moments
  // Forward.
  kEmbedding,
  kPositionEmbedding,
  kLinear,
  kRmsNorm,
  kLayerNorm,
  kRope,
  kAttention,
  kSilu,
  kGelu,
  kMul,
  kSiluMul,
  kGeluMul,
  kAdd,
  kGatherRows,
  kSoftCap,
  kHeadLogprob,
  // Per-token loss arithmetic, f32.
  kScale,
  kReduceSum,
  // Gradients.
  kFill,
  kEmbeddingGrad,
  kPositionEmbeddingGrad,
  kLinearInputGrad,
  kLinearWeightGrad,
  kLoraUpGrad,
  kBiasGrad,
  kRmsNormGrad,
  kLayerNormGrad,
  kSiluGrad,
  kGeluGrad,
  kSiluMulGrad,
  kGeluMulGrad,
  kAttentionGrad,
  kScatterRows,
  kHeadLogprobGrad,
  // Optimizer.
  kAccumulate,
  kSumOfSquares,
  kAdamw,
  kLion,
  kAdafactor,
  kMuon,
  kAdamw8bit,
  kEma,
  kNumOps
};

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

struct NoAttrs {
  friend bool operator==(const NoAttrs&, const NoAttrs&) = default;
};

struct SourceAttrs {
  std::string name;
  friend bool operator==(const SourceAttrs&, const SourceAttrs&) = default;
};

/// One adapter's part in one output of a linear.
struct LoraAttrs {
  int32_t output = 0;  // which of the linear's outputs
  int32_t slot = 0;    // Segment::adapter_slot
  int64_t rank = 0;
  float scale = 1.0f;  // alpha / rank
  float dropout = 0.0f;
  uint64_t dropout_key = 0;
  friend bool operator==(const LoraAttrs&, const LoraAttrs&) = default;
};

/// kLinear: inputs x (rows|picked, in), weights (out_i, in) x num_weights, biases (out_i) x
/// num_weights if has_bias, then A (rank, in), B (out, rank) per adapter. Outputs y_i, then u
/// (rows, rank) per adapter. kLinearInputGrad: inputs dy_i x num_weights, weights x num_weights,
/// then du, A per adapter; output dx.
struct LinearAttrs {
  int32_t num_weights = 1;
  bool has_bias = false;
  bool f32_output = false;
  std::vector<LoraAttrs> adapters;
  friend bool operator==(const LinearAttrs&, const LinearAttrs&) = default;
};

/// kLinearWeightGrad: inputs dy, x, acc (state); output acc. slot -2 folds every segment.
struct WeightGradAttrs {
  int32_t slot = -2;
  float x_dropout = 0.0f;
  uint64_t dropout_key = 0;
  friend bool operator==(const WeightGradAttrs&, const WeightGradAttrs&) = default;
};

/// kRmsNorm, kRmsNormGrad: over groups of `width` along the last axis. kLayerNorm, kLayerNormGrad:
/// `width` is the whole axis.
struct NormAttrs {
  int64_t width = 0;
  float eps = 0.0f;
  bool plus_one = false;  // rms_norm: the weight is 1 + w
  friend bool operator==(const NormAttrs&, const NormAttrs&) = default;
};

/// kRope: inputs x (rows, heads*c), table (max_position, n, 2) f32; the first 2n <= c elements of a
/// head turn.
struct RopeAttrs {
  int64_t heads = 0;
  int64_t head_width = 0;
  bool inverse = false;
  int64_t first_row = 0;  // the table's row of position 0
  friend bool operator==(const RopeAttrs&, const RopeAttrs&) = default;
};

/// kAttention: inputs q, k, v; outputs o, lse (rows, h) f32.
/// kAttentionGrad: inputs q, k, v, o, lse, d_o; outputs dq, dk, dv.
struct AttentionAttrs {
  int64_t query_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_width = 0;
  float scale = 1.0f;
  int64_t window = 0;
  int64_t layer = 0;
  float softcap = 0.0f;  // scores become softcap * tanh(score / softcap); 0: they stay
  friend bool operator==(const AttentionAttrs&, const AttentionAttrs&) = default;
};

/// kHeadLogprob, kHeadLogprobGrad: logits become softcap * tanh(logit / softcap); 0: they stay.
/// kHeadLogprobGrad: inputs x, head, targets, lse, d_logprob, d_lse if has_d_lse, acc if the head
/// learns.
struct HeadAttrs {
  float softcap = 0.0f;
  bool has_d_lse = false;
  friend bool operator==(const HeadAttrs&, const HeadAttrs&) = default;
};

/// kScale: y = factor * x.  kSoftCap: y = cap * tanh(x / cap).  kFill: a constant of the given
/// type.
struct ScalarAttrs {
  float value = 0.0f;
  friend bool operator==(const ScalarAttrs&, const ScalarAttrs&) = default;
};

/// Iterations and coefficients of kMuon: x' = a x + (b g + c g g) x with g = x x^T.
/// Source: Jordan et al. 2024, github.com/KellerJordan/Muon; torch.optim.Muon's defaults.
inline constexpr int kNewtonSchulzSteps = 5;
inline constexpr float kNewtonSchulz[3] = {3.4445f, -4.7750f, 2.0315f};
inline constexpr float kMuonEps = 1e-7f;  // least norm that the momentum is divided by

/// kMuon: how the momentum is orthogonalised. `products` (kBF16 or kF32) is what every product of
/// the Newton-Schulz iteration is rounded to; the rate is multiplied by `rate_scale`.
struct MuonAttrs {
  DType products = DType::kBF16;
  bool nesterov = true;
  float rate_scale = 1.0f;
  friend bool operator==(const MuonAttrs&, const MuonAttrs&) = default;
};

/// kAdamw, kAdamw8bit, kLion whose parameter is bf16: what they store of it, and of bf16 moments,
/// is rounded up or down by chance, keyed by this and the step.
struct RoundingAttrs {
  uint64_t key = 0;
  friend bool operator==(const RoundingAttrs&, const RoundingAttrs&) = default;
};

/// kAdamw8bit: consecutive elements of a moment that share one absolute maximum.
inline constexpr int64_t kMomentBlock = 256;

using Attrs =
    std::variant<NoAttrs, SourceAttrs, LinearAttrs, LoraAttrs, WeightGradAttrs, NormAttrs,
                 RopeAttrs, AttentionAttrs, HeadAttrs, ScalarAttrs, MuonAttrs, RoundingAttrs>;

struct Node {
  OpKind op = OpKind::kInput;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attrs attrs;
  std::string path;         // where in the model: "layers.3.mlp"
  int32_t region = -1;      // recomputation region (a layer); -1: none
  bool backward = false;    // made by autodiff
  bool recomputed = false;  // computes again what a forward node has computed
};

struct GraphOutput {
  std::string name;
  ValueId value = kNoValue;
};

class Graph {
 public:
  explicit Graph(DType compute) : compute_(compute) {}

  /// The dtype of activations and of parameters at use: kBF16 or kF32.
  DType compute() const { return compute_; }

  const std::vector<Node>& nodes() const { return nodes_; }
  /// For passes: may reorder, replace or drop nodes; verify() afterwards.
  std::vector<Node>& mutable_nodes() { return nodes_; }
  const ValueType& type(ValueId value) const { return types_[static_cast<size_t>(value)]; }
  int32_t num_values() const { return static_cast<int32_t>(types_.size()); }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  std::vector<GraphOutput>& mutable_outputs() { return outputs_; }

  /// Adds a value of a type and returns its id; a node must produce it.
  ValueId add_value(ValueType type);

  /// Appends a source node. Precondition: op is kInput, kParam or kState.
  ValueId add_source(OpKind op, std::string name, ValueType type);

  /// Appends a node; output types come from the op table's shape rule.
  /// Errors: invalid argument "[op] expected ..., got ... (path)".
  Result<std::vector<ValueId>> add_node(OpKind op, std::vector<ValueId> inputs, Attrs attrs,
                                        std::string path, int32_t region, bool backward);

  void add_output(std::string name, ValueId value) { outputs_.push_back({std::move(name), value}); }

  /// The index in nodes() of each value's producer.
  std::vector<int32_t> producers() const;

 private:
  DType compute_;
  std::vector<Node> nodes_;
  std::vector<ValueType> types_;
  std::vector<GraphOutput> outputs_;
};

/// Names of all sources, in the order of the graph.
std::vector<std::string> source_names(const Graph& graph);

/// Every value is produced once and before its uses, none is used after a node replaced it in
/// place, every node's types follow its shape rule, names of sources and outputs are unique.
/// Errors: internal, naming the first broken node.
Status verify(const Graph& graph);

/// One line per node: "%12: bf16(rows, 576) = rms_norm(%3, %11) {eps=1e-05} layers.0".
std::string print(const Graph& graph);

}  // namespace mainspring
