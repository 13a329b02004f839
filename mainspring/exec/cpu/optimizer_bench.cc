// The optimizer step against the memory's bandwidth: it reads and writes every state once and
// computes little, so bytes moved a second are what can be compared.
//
// Usage: exec_cpu_optimizer_bench [threads] [rounds] [parameters]. Bandwidth is that of a sum of
// two streams into a third (peaks.h), measured in the same rounds; a step's bytes are what it must
// move: weight, moments and gradient read, weight and moments written.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "mainspring/exec/cpu/isa.h"
#include "mainspring/exec/cpu/memory.h"
#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/cpu/peaks.h"

namespace mainspring::cpu {
namespace {

double timed(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  char text[96];
  std::snprintf(text, sizeof(text), "%.2f [%.2f, %.2f]", values[values.size() / 2], values.front(),
                values.back());
  return text;
}

int bench(int threads, int rounds, int64_t n) {
  const auto choice = choose_isa("");
  if (!choice.ok()) {
    std::printf("%s\n", choice.status().to_string().c_str());
    return 1;
  }
  ThreadPool pool(threads);
  const Context context = make_context(choice->isa, pool, DType::kBF16);
  std::vector<float> param(static_cast<size_t>(n), 1.0f), m(param.size()), v(param.size());
  const std::vector<float> grad(param.size(), 1e-3f);
  std::vector<char> scratch(sum_of_squares_scratch_bytes(n / 1024) + 64);
  const AdamwStep step{.lr = 1e-4f,
                       .beta1 = 0.9f,
                       .beta2 = 0.999f,
                       .eps = 1e-8f,
                       .weight_decay = 0.01f,
                       .bias_correction1 = 0.1f,
                       .bias_correction2_sqrt = 0.03f,
                       .grad_scale = 1.0f};
  const auto update = [&] {
    adamw(context, n, step, grad.data(), param.data(), m.data(), v.data());
  };
  const auto norm = [&] { sum_of_squares(context, n / 1024, 1024, grad.data(), scratch.data()); };
  update();
  std::vector<double> bandwidth, adamw_rate, adamw_share, norm_rate, norm_share;
  for (int round = 0; round < rounds; ++round) {
    bandwidth.push_back(measure_memory_bandwidth(context) * 1e-9);
    adamw_rate.push_back(28.0 * static_cast<double>(n) / timed(update) * 1e-9);
    norm_rate.push_back(4.0 * static_cast<double>(n) / timed(norm) * 1e-9);
    adamw_share.push_back(adamw_rate.back() / bandwidth.back());
    norm_share.push_back(norm_rate.back() / bandwidth.back());
  }
  std::printf("%s, %d threads, %lld parameters, GB/s\n", std::string(isa_name(choice->isa)).c_str(),
              threads, static_cast<long long>(n));
  std::printf("  memory           %s\n", spread(bandwidth).c_str());
  std::printf("  adamw            %s   of memory %s\n", spread(adamw_rate).c_str(),
              spread(adamw_share).c_str());
  std::printf("  sum of squares   %s   of memory %s\n", spread(norm_rate).c_str(),
              spread(norm_share).c_str());
  return 0;
}

}  // namespace
}  // namespace mainspring::cpu

int main(int argc, char** argv) {
  return mainspring::cpu::bench(argc > 1 ? std::atoi(argv[1]) : 2,
                                argc > 2 ? std::atoi(argv[2]) : 11,
                                argc > 3 ? std::atoll(argv[3]) : int64_t{1} << 27);
}
