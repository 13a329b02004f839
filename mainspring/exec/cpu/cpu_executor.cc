#include "mainspring/exec/cpu/cpu_executor.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <system_error>

#include "mainspring/exec/cpu/cpu_buffer.h"
#include "mainspring/exec/cpu/cpu_executable.h"
#include "mainspring/exec/cpu/peaks.h"

namespace mainspring::cpu {
namespace {

class CpuRowMath final : public RowMath {
 public:
  explicit CpuRowMath(const Context& context) : context_(context) {}
  Stats stats(const float* logits, int64_t n) const override {
    const RowStats s = row_stats(context_, logits, n);
    return {s.max, s.sum, s.lse};
  }
  void exp_row(const float* logits, int64_t n, float max, float* out) const override {
    row_exp(context_, logits, n, max, out);
  }
  float exp(float x) const override { return exp_f32(context_, x); }
  float log(float x) const override { return log_f32(context_, x); }
  void each_row(int64_t rows, const std::function<void(int64_t, int)>& use) const override {
    context_.pool->run(rows, use);
  }
  int num_threads() const override { return context_.pool->size(); }

 private:
  Context context_;
};

constexpr int kMostThreads = 1024;

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(Isa isa, int num_threads)
      : name_("cpu/" + std::string(isa_name(isa))),
        pool_(num_threads),
        context_(make_context(isa, pool_, DType::kF32)),
        memory_(std::make_shared<MemoryPool>(std::make_shared<MemoryMeter>())),
        arena_(std::make_shared<SharedArena>(memory_)),
        row_math_(context_) {}

  std::string_view name() const override { return name_; }
  int num_threads() const override { return pool_.size(); }

  std::unique_ptr<Buffer> allocate(DType dtype, std::vector<int64_t> shape) override {
    return std::make_unique<CpuBuffer>(dtype, std::move(shape), memory_);
  }
  std::unique_ptr<Buffer> borrow(BorrowedTensor tensor) override {
    return std::make_unique<CpuBuffer>(std::move(tensor), memory_);
  }
  Result<std::unique_ptr<Executable>> compile(Graph graph, const CompileOptions& options) override {
    return CpuExecutable::compile(std::move(graph), options, context_, arena_, *this);
  }
  const RowMath& row_math() const override { return row_math_; }
  int64_t available_bytes() const override { return available_memory_bytes(); }
  double peak_flops() override {
    if (peak_flops_ == 0.0) peak_flops_ = measure_peak_flops(context_);
    return peak_flops_;
  }
  double memory_bandwidth() override {
    if (bandwidth_ == 0.0) bandwidth_ = measure_memory_bandwidth(context_);
    return bandwidth_;
  }
  int64_t current_bytes() const override { return memory_->meter().current(); }
  int64_t peak_bytes() const override { return memory_->meter().peak(); }

 private:
  std::string name_;
  ThreadPool pool_;
  Context context_;
  std::shared_ptr<MemoryPool> memory_;
  std::shared_ptr<SharedArena> arena_;
  CpuRowMath row_math_;
  double peak_flops_ = 0.0;
  double bandwidth_ = 0.0;
};

// The container's quota in cores, rounded up; a large number where there is none.
int quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 1 << 20;
  return std::max(1, static_cast<int>((std::stod(quota) + period - 1) / period));
}

}  // namespace

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, std::min(cores, quota_cores()));
}

Result<std::unique_ptr<Executor>> make_cpu_executor(const CpuExecutorOptions& options,
                                                    std::vector<std::string>* failures) {
  MS_ASSIGN_OR_RETURN(IsaChoice choice, choose_isa(options.isa));
  if (failures != nullptr) *failures = choice.failures;
  if (options.num_threads < 0 || options.num_threads > kMostThreads) {
    return invalid_argument("threads: expected 0 to " + std::to_string(kMostThreads) + ", got " +
                            std::to_string(options.num_threads));
  }
  const int threads = options.num_threads > 0 ? options.num_threads : available_cores();
  try {
    return std::unique_ptr<Executor>(std::make_unique<CpuExecutor>(choice.isa, threads));
  } catch (const std::system_error& error) {
    return resource_exhausted("cannot start " + std::to_string(threads) +
                              " threads: " + error.what());
  }
}

}  // namespace mainspring::cpu
