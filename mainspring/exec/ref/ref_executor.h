// RefExecutor: the oracle: a graph interpreted node by node in f64 with plain loops.
//
// The one idea: it is so simple that it can be believed, and every other executor is compared with
// it (tests/conformance). Never optimised. By default nothing is rounded; with `round_to_compute`
// values are rounded where exec/cpu/ops.h says, so that only the order of sums is left to differ.
// Not for running models of any size.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "mainspring/exec/executor.h"

namespace mainspring::ref {

struct MemoryMeter;  // exec/ref/ref_buffer.h

struct RefOptions {
  bool round_to_compute = false;
};

/// What the reference can do beyond an Executable: values in and out without a narrower dtype.
class RefExecutable : public Executable {
 public:
  /// Binds f64 values of one element per element of the source (rows and picked as the next run has
  /// them). A state bound so is updated in place of a buffer. Errors: not found.
  virtual Status bind_values(std::string_view source, std::span<const double> values) = 0;

  /// A graph output, or a source as the last run left it. Empty if there is none of that name.
  virtual std::span<const double> values(std::string_view name) const = 0;
};

class RefExecutor final : public Executor {
 public:
  explicit RefExecutor(RefOptions options = {});

  std::string_view name() const override { return "ref"; }
  int num_threads() const override { return 1; }
  std::unique_ptr<Buffer> allocate(DType dtype, std::vector<int64_t> shape) override;
  std::unique_ptr<Buffer> borrow(BorrowedTensor tensor) override;
  /// Always a RefExecutable.
  Result<std::unique_ptr<Executable>> compile(Graph graph, const CompileOptions& options) override;
  Result<std::unique_ptr<RefExecutable>> compile_ref(Graph graph, const CompileOptions& options);
  const RowMath& row_math() const override;
  /// Of a plain triple loop in f64.
  int64_t available_bytes() const override {
    return int64_t{1} << 34;
  }  // an oracle for small graphs
  double peak_flops() override;
  double memory_bandwidth() override;
  int64_t current_bytes() const override;
  int64_t peak_bytes() const override;

 private:
  RefOptions options_;
  std::shared_ptr<MemoryMeter> meter_;
  std::unique_ptr<RowMath> row_math_;
};

}  // namespace mainspring::ref
