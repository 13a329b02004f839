// CaseBuilder: what an op case is written with: sources with random values, and what to compare.
//
// The one idea: a case is traced once per compute dtype and row layout, in one of two modes.
// Forward: its sources are the op's inputs. Gradient: activations are linear maps of inputs by
// trainable weights, so that value_and_grad reaches the op's inputs through its rule, and what is
// compared is summed into a loss. Values are exact in bf16, so rounding at use changes none of
// them.
#pragma once

#include <string>
#include <vector>

#include "mainspring/tensor/tensor.h"
#include "tests/conformance/case_rows.h"

namespace mainspring::conformance {

enum class Mode { kForward, kGradient };

/// A source's type and bytes for the rows of the case.
struct SourceData {
  std::string name;
  OpKind kind = OpKind::kInput;
  ValueType type;
  std::vector<std::byte> bytes;
  std::vector<float> aux;  // of NF4 and int8
};

/// A graph output or state to compare. `slot` other than kAnySlot: only rows of that adapter slot.
inline constexpr int32_t kAnySlot = -2;
struct Checked {
  std::string name;
  ValueType type;
  int32_t slot = kAnySlot;
};

/// A paged cache of one layer, filled with random keys and values; position after position, each
/// (kv_heads, head_width).
struct CacheData {
  int64_t kv_heads = 0;  // 0: the case has no cache
  int64_t head_width = 0;
  int64_t row_elements = 0;
  int32_t num_pages = 0;
  std::vector<int32_t> lengths;             // by sequence: positions written in the end
  std::vector<std::vector<int32_t>> pages;  // by sequence
  std::vector<std::byte> keys;
  std::vector<std::byte> values;
};

/// A traced case, ready to compile and bind.
struct BuiltCase {
  Graph graph{DType::kF32};
  Rows rows;
  std::vector<SourceData> sources;
  std::vector<Checked> checked;
  CacheData cache;
  std::vector<std::string> accumulators;  // gradient mode: states of value_and_grad
  std::vector<std::string> params;        // gradient mode: what they belong to
};

class CaseBuilder {
 public:
  CaseBuilder(DType compute, Rows rows, Mode mode);

  DType compute() const { return compute_; }
  Tracer& tracer() { return tracer_; }
  const Rows& row_layout() const { return built_.rows; }

  // ---- sources ----
  /// Activations (rows, width) or (picked, width); padding rows and zero picks are zero.
  Tensor rows(const std::string& name, int64_t width, double magnitude = 1);
  Tensor picks(const std::string& name, int64_t width, double magnitude = 1);
  /// f32(picked), 0 for zero picks.
  Tensor per_pick(const std::string& name);
  /// f32(dims), never differentiated: tables, saved statistics, scalars.
  Tensor constant(const std::string& name, std::vector<int64_t> dims, std::vector<double> values);
  Tensor random_constant(const std::string& name, std::vector<int64_t> dims, double low,
                         double high);
  /// Tokens i32(rows), targets i32(picked), each below `count`.
  Tensor tokens(const std::string& name, int64_t count);
  Tensor targets(const std::string& name, int64_t count);
  /// i32(picked, k), distinct in a row.
  Tensor distinct_targets(const std::string& name, int64_t count, int64_t k);
  /// f32(picked, width), 0 for zero picks.
  Tensor f32_picks(const std::string& name, int64_t width);
  /// A parameter; quantised dtypes get random blocks of sane scales.
  Tensor param(const std::string& name, std::vector<int64_t> dims, DType dtype = DType::kF32,
               double magnitude = 1);
  /// f32 state with values in [low, high).
  Tensor state(const std::string& name, std::vector<int64_t> dims, double low = -1,
               double high = 1);
  /// A state of another type with such values, rounded to it (codes: down).
  Tensor state(const std::string& name, ValueType type, double low, double high);
  /// An i32(1) input.
  Tensor integer(const std::string& name, int32_t value);
  /// A one-layer cache for the layout's cached sequences.
  void cache(int64_t kv_heads, int64_t head_width);

  // ---- results ----
  struct CheckOptions {
    int32_t slot = kAnySlot;
    bool differentiable = true;
  };
  void check(const std::string& name, const Tensor& value, CheckOptions options);
  void check(const std::string& name, const Tensor& value) { check(name, value, {}); }
  /// The state `name` after the run.
  void check_state(const std::string& name);

  /// Ends the case. Gradient mode: sums what was checked into the output "loss" and differentiates
  /// it if `with_gradients`.
  BuiltCase finish(bool with_gradients);

 private:
  SourceData& add_data(const std::string& name, OpKind kind, const ValueType& type,
                       std::vector<std::byte> bytes);
  Tensor add_source(const std::string& name, OpKind kind, ValueType type,
                    const std::vector<double>& values);
  std::vector<double> random(const std::string& name, size_t count, double low, double high) const;
  std::vector<double> random_rows(const std::string& name, int64_t width, double magnitude) const;
  std::vector<double> random_picks(const std::string& name, int64_t width, double magnitude) const;
  Tensor loss_term(size_t index);

  DType compute_;
  Tracer tracer_;
  Mode mode_;
  BuiltCase built_;
  std::vector<Tensor> to_differentiate_;
};

}  // namespace mainspring::conformance
