// FakeExecutor: stands in for a device in this folder's tests: a "model" whose logits are a hash.
//
// The one idea: a row's keys are its token, written to the cache pages it is given; a picked row's
// logits are a hash of the adapter and of every token at or before its position, read back from
// those pages. So a wrong page, position, prefix or slot changes results, and nothing else does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/base/check.h"
#include "mainspring/exec/executor.h"
#include "mainspring/models/config.h"
#include "mainspring/sample/forward_model.h"
#include "mainspring/sample/logits.h"

namespace mainspring::fake {

class HostBuffer final : public Buffer {
 public:
  HostBuffer(DType dtype, std::vector<int64_t> shape) : dtype_(dtype), shape_(std::move(shape)) {
    int64_t n = 1;
    for (const int64_t dim : shape_) n *= dim;
    bytes_.resize(static_cast<size_t>(dtype_bytes(dtype, n)));
  }
  DType dtype() const override { return dtype_; }
  const std::vector<int64_t>& shape() const override { return shape_; }
  int64_t size_bytes() const override { return static_cast<int64_t>(bytes_.size()); }
  void* data() override { return bytes_.data(); }
  const void* data() const override { return bytes_.data(); }
  Status own() override { return {}; }
  void mark_changed() override {}

 private:
  DType dtype_;
  std::vector<int64_t> shape_;
  std::vector<char> bytes_;
};

class FakeRowMath final : public RowMath {
 public:
  Stats stats(const float* logits, int64_t n) const override {
    const float max = *std::max_element(logits, logits + n);
    std::vector<float> e(static_cast<size_t>(n));
    exp_row(logits, n, max, e.data());
    const float sum = segmented_sum(e);
    return {max, sum, max + std::log(sum)};
  }
  void exp_row(const float* logits, int64_t n, float max, float* out) const override {
    for (int64_t i = 0; i < n; ++i) out[i] = std::exp(logits[i] - max);
  }
  float exp(float x) const override { return std::exp(x); }
  float log(float x) const override { return std::log(x); }
};

inline uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

/// Logits of a history: numbers in [0, 8).
inline std::vector<float> logits_of(int32_t adapter, const std::vector<int32_t>& history,
                                    int64_t vocabulary) {
  uint64_t hash = mix(1, static_cast<uint64_t>(adapter + 1));
  for (const int32_t token : history) hash = mix(hash, static_cast<uint64_t>(token) + 7);
  std::vector<float> logits(static_cast<size_t>(vocabulary));
  for (size_t v = 0; v < logits.size(); ++v) {
    logits[v] = static_cast<float>(mix(hash, v) >> 40) * 0x1p-21f;
  }
  return logits;
}

/// What the fake has seen; tests look at it.
struct Log {
  std::vector<int32_t> rows_per_run;
  int64_t max_segments = 0;
  int32_t poison_token = -1;  // a history that ends in it gives NaN logits
};

class FakeExecutable final : public Executable {
 public:
  FakeExecutable(Graph graph, RowCounts capacity, const RowMath& math, Log& log)
      : graph_(std::move(graph)), capacity_(capacity), math_(math), log_(log) {
    const Shape& shape = graph_.type(graph_.outputs()[0].value).shape;
    has_logits_ = shape.rank() == 2;
    for (const Node& node : graph_.nodes()) {
      if (node.op == OpKind::kEmbedding) vocabulary_ = graph_.type(node.inputs[1]).shape.dims[0];
    }
  }

  Status bind(std::string_view source, Buffer* buffer) override {
    sources_[std::string(source)] = buffer;
    return {};
  }

  void run(const RunArgs& args) override {
    const RowTable& table = *args.table;
    MS_CHECK(table.num_rows <= capacity_.rows, "rows within the capacity");
    MS_CHECK(static_cast<int64_t>(table.picked.size()) <= capacity_.picked,
             "picks within the capacity");
    log_.rows_per_run.push_back(table.num_rows);
    log_.max_segments = std::max(log_.max_segments, static_cast<int64_t>(table.segments.size()));
    const auto* tokens = static_cast<const int32_t*>(sources_.at("tokens")->data());
    int32_t end = 0;
    for (const Segment& segment : table.segments) {
      MS_CHECK(segment.row_begin >= end, "segments are ordered and apart");
      end = segment.row_begin + segment.num_rows;
      MS_CHECK(end <= table.num_rows, "segments lie within the rows");
      if (segment.cache_sequence < 0) continue;
      for (int32_t row = 0; row < segment.num_rows; ++row) {
        std::memcpy(cell(*args.kv, segment, segment.position + row),
                    &tokens[segment.row_begin + row], 4);
      }
    }
    result_.clear();
    for (size_t pick = 0; pick < table.picked.size(); ++pick) run_pick(args, tokens, pick);
  }

  const void* output(std::string_view) const override { return result_.data(); }
  const PlanReport& report() const override { return report_; }

 private:
  char* cell(const KvView& kv, const Segment& segment, int32_t position) const {
    const KvSequence& sequence = kv.sequences[static_cast<size_t>(segment.cache_sequence)];
    const int32_t page = sequence.pages[static_cast<size_t>(position / kPageTokens)];
    const int64_t row = int64_t{page} * kPageTokens + position % kPageTokens;
    return static_cast<char*>(kv.keys.back()) + row * kv.row_elements * 4;
  }

  void run_pick(const RunArgs& args, const int32_t* tokens, size_t pick) {
    const int32_t row = args.table->picked[pick];
    const Segment* owner = nullptr;
    for (const Segment& segment : args.table->segments) {
      if (row >= segment.row_begin && row < segment.row_begin + segment.num_rows) owner = &segment;
    }
    std::vector<float> logits(static_cast<size_t>(vocabulary_));
    if (owner != nullptr) {
      std::vector<int32_t> history;
      const int32_t last = owner->position + row - owner->row_begin;
      for (int32_t position = 0; position <= last; ++position) {
        int32_t token = 0;
        if (owner->cache_sequence >= 0) {
          std::memcpy(&token, cell(*args.kv, *owner, position), 4);
        } else {
          token = tokens[owner->row_begin + position - owner->position];
        }
        history.push_back(token);
      }
      logits = logits_of(owner->adapter_slot, history, vocabulary_);
      if (history.back() == log_.poison_token) logits[0] = std::nanf("");
    }
    if (has_logits_) {
      result_.insert(result_.end(), logits.begin(), logits.end());
      return;
    }
    const auto* targets = static_cast<const int32_t*>(sources_.at("targets")->data());
    result_.push_back(row < 0 ? 0.0f
                              : logits[static_cast<size_t>(targets[pick])] -
                                    math_.stats(logits.data(), vocabulary_).lse);
  }

  Graph graph_;
  RowCounts capacity_;
  const RowMath& math_;
  Log& log_;
  bool has_logits_ = false;
  int64_t vocabulary_ = 0;
  std::map<std::string, Buffer*> sources_;
  std::vector<float> result_;
  PlanReport report_;
};

class FakeExecutor final : public Executor {
 public:
  std::string_view name() const override { return "fake"; }
  int num_threads() const override { return 1; }
  std::unique_ptr<Buffer> allocate(DType dtype, std::vector<int64_t> shape) override {
    return std::make_unique<HostBuffer>(dtype, std::move(shape));
  }
  std::unique_ptr<Buffer> borrow(BorrowedTensor tensor) override {
    return std::make_unique<HostBuffer>(tensor.dtype, std::move(tensor.shape));
  }
  Result<std::unique_ptr<Executable>> compile(Graph graph, const CompileOptions& options) override {
    return std::unique_ptr<Executable>(
        std::make_unique<FakeExecutable>(std::move(graph), options.capacity, math_, log_));
  }
  const RowMath& row_math() const override { return math_; }
  int64_t available_bytes() const override { return int64_t{1} << 34; }
  double peak_flops() override { return 1.0; }
  double memory_bandwidth() override { return 1.0; }
  int64_t current_bytes() const override { return 0; }
  int64_t peak_bytes() const override { return 0; }

  Log& log() { return log_; }

 private:
  FakeRowMath math_;
  Log log_;
};

/// The smallest decoder; f32.
inline ModelConfig tiny_config(int64_t vocabulary = 50, int64_t context = 1024) {
  ModelConfig config;
  config.family = "llama";
  config.d = 8;
  config.layers = 1;
  config.query_heads = 1;
  config.kv_heads = 1;
  config.head_width = 8;
  config.ffn = 8;
  config.vocabulary = vocabulary;
  config.context_length = context;
  config.tied_embeddings = true;
  return config;
}

inline ParameterSet make_parameters(Executor& executor, const ModelConfig& config) {
  ParameterSet parameters;
  for (const ParameterSpec& spec : model_parameters(config)) {
    parameters.emplace(spec.name, executor.allocate(DType::kF32, spec.shape));
  }
  return parameters;
}

}  // namespace mainspring::fake
