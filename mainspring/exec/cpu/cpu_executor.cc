#include "mainspring/exec/cpu/cpu_executor.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "mainspring/exec/cpu/cpu_buffer.h"
#include "mainspring/exec/cpu/cpu_executable.h"

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

 private:
  Context context_;
};

// The best of a few rounds of a product whose operands stay in a core's second-level cache.
double measure_peak_flops(Context context) {
  constexpr int64_t kRows = 384;
  constexpr int64_t kIn = 256;
  constexpr int64_t kOut = 512;
  context.compute = DType::kBF16;
  std::vector<bf16> x(kRows * kIn, to_bf16(0.5f));
  std::vector<float> w(kOut * kIn, 0.25f);
  std::vector<bf16> y(kRows * kOut);
  std::vector<std::byte> packed(packed_forward_bytes(context, kOut, kIn));
  std::vector<std::byte> scratch(linear_forward_scratch_bytes(context, kRows, kIn));
  pack_forward(context, {.dtype = DType::kF32, .data = w.data(), .out = kOut, .in = kIn},
               packed.data());
  const LinearOutput output{.weight = {kOut, kIn, packed.data(), nullptr}, .y = y.data()};
  double best = 0.0;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    linear_forward(context, kRows, kIn, x.data(), {&output, 1}, nullptr, scratch.data());
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kRows * kIn * kOut / time.count());
  }
  return best;
}

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(Isa isa, int num_threads)
      : name_("cpu/" + std::string(isa_name(isa))),
        pool_(num_threads),
        context_(make_context(isa, pool_, DType::kF32)),
        meter_(std::make_shared<MemoryMeter>()),
        arena_(std::make_shared<SharedArena>(meter_)),
        row_math_(context_) {}

  std::string_view name() const override { return name_; }
  int num_threads() const override { return pool_.size(); }

  std::unique_ptr<Buffer> allocate(DType dtype, std::vector<int64_t> shape) override {
    return std::make_unique<CpuBuffer>(dtype, std::move(shape), meter_);
  }
  std::unique_ptr<Buffer> borrow(BorrowedTensor tensor) override {
    return std::make_unique<CpuBuffer>(std::move(tensor), meter_);
  }
  Result<std::unique_ptr<Executable>> compile(Graph graph, const CompileOptions& options) override {
    return CpuExecutable::compile(std::move(graph), options, context_, arena_);
  }
  const RowMath& row_math() const override { return row_math_; }
  int64_t available_bytes() const override { return available_memory_bytes(); }
  double peak_flops() override {
    if (peak_flops_ == 0.0) peak_flops_ = measure_peak_flops(context_);
    return peak_flops_;
  }
  int64_t current_bytes() const override { return meter_->current(); }
  int64_t peak_bytes() const override { return meter_->peak(); }

 private:
  std::string name_;
  ThreadPool pool_;
  Context context_;
  std::shared_ptr<MemoryMeter> meter_;
  std::shared_ptr<SharedArena> arena_;
  CpuRowMath row_math_;
  double peak_flops_ = 0.0;
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
                                                    std::vector<std::string>* notes) {
  MS_ASSIGN_OR_RETURN(IsaChoice choice, choose_isa(options.isa));
  if (notes != nullptr) *notes = choice.notes;
  if (options.num_threads < 0) return invalid_argument("threads: expected 0 or more");
  const int threads = options.num_threads > 0 ? options.num_threads : available_cores();
  return std::unique_ptr<Executor>(std::make_unique<CpuExecutor>(choice.isa, threads));
}

}  // namespace mainspring::cpu
