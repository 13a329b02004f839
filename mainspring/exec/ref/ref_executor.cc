#include "mainspring/exec/ref/ref_executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "mainspring/base/check.h"
#include "mainspring/exec/ref/interpreter.h"
#include "mainspring/exec/ref/op.h"
#include "mainspring/exec/ref/ref_buffer.h"
#include "mainspring/ir/op_table.h"

namespace mainspring::ref {
namespace {

class RefRowMath final : public RowMath {
 public:
  Stats stats(const float* logits, int64_t n) const override {
    const double max = *std::max_element(logits, logits + n);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(logits[i] - max);
    return {static_cast<float>(max), static_cast<float>(sum),
            static_cast<float>(max + std::log(sum))};
  }
  void exp_row(const float* logits, int64_t n, float max, float* out) const override {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(std::exp(double{logits[i]} - max));
  }
  float exp(float x) const override { return static_cast<float>(std::exp(double{x})); }
  float log(float x) const override { return static_cast<float>(std::log(double{x})); }
};

Status check_ops(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (!op_info(node.op).is_source && find_op(node.op) == nullptr) {
      return unimplemented("the reference has no op " + std::string(op_info(node.op).name));
    }
  }
  return {};
}

}  // namespace

RefExecutor::RefExecutor(RefOptions options)
    : options_(options),
      meter_(std::make_shared<MemoryMeter>()),
      row_math_(std::make_unique<RefRowMath>()) {}

std::unique_ptr<Buffer> RefExecutor::allocate(DType dtype, std::vector<int64_t> shape) {
  return std::make_unique<RefBuffer>(dtype, std::move(shape), meter_);
}

std::unique_ptr<Buffer> RefExecutor::borrow(BorrowedTensor tensor) {
  return std::make_unique<RefBuffer>(std::move(tensor), meter_);
}

Result<std::unique_ptr<RefExecutable>> RefExecutor::compile_ref(Graph graph,
                                                                const CompileOptions& options) {
  PlanReport report;
  MS_RETURN_IF_ERROR(verify(graph).with_context("traced graph"));
  MS_RETURN_IF_ERROR(run_passes(graph, options.passes, &report.pass_ms));
  MS_RETURN_IF_ERROR(check_ops(graph));
  for (const Node& node : graph.nodes()) {
    if (op_info(node.op).is_source) continue;
    report.steps.push_back({.text = std::string(op_info(node.op).name),
                            .kernel = "plain loops",
                            .why = "the only candidate",
                            .flops = node_flops(graph, node, options.capacity),
                            .bytes = node_bytes(graph, node, options.capacity)});
  }
  return make_interpreter(std::move(graph), options, options_.round_to_compute, std::move(report),
                          *this);
}

Result<std::unique_ptr<Executable>> RefExecutor::compile(Graph graph,
                                                         const CompileOptions& options) {
  MS_ASSIGN_OR_RETURN(auto executable, compile_ref(std::move(graph), options));
  return std::unique_ptr<Executable>(std::move(executable));
}

double RefExecutor::peak_flops() {
  constexpr size_t kSide = 64;
  const std::vector<double> a(kSide * kSide, 1.0), b(kSide * kSide, 0.5);
  std::vector<double> c(kSide * kSide);
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < kSide; ++i) {
    for (size_t j = 0; j < kSide; ++j) {
      for (size_t k = 0; k < kSide; ++k) c[i * kSide + j] += a[i * kSide + k] * b[j * kSide + k];
    }
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  MS_CHECK(c[0] == kSide * 0.5, "the timed product is wrong");  // and keeps it from being left out
  return 2.0 * kSide * kSide * kSide / std::max(elapsed.count(), 1e-9);
}

double RefExecutor::memory_bandwidth() {
  constexpr size_t kElements = size_t{1} << 23;
  std::vector<double> a(kElements), b(kElements, 1.0), c(kElements, 0.5);
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < kElements; ++i) a[i] = b[i] + 2.0 * c[i];
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  MS_CHECK(a[kElements - 1] == 2.0, "the timed sum is wrong");  // and keeps it from being left out
  return 3.0 * sizeof(double) * kElements / std::max(elapsed.count(), 1e-9);
}

const RowMath& RefExecutor::row_math() const { return *row_math_; }
int64_t RefExecutor::current_bytes() const { return meter_->current; }
int64_t RefExecutor::peak_bytes() const { return meter_->peak; }

}  // namespace mainspring::ref
