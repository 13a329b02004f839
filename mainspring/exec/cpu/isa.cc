#include "mainspring/exec/cpu/isa.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <optional>

#include "mainspring/base/thread_pool.h"
#include "mainspring/exec/cpu/kernels/rows_table.h"
#include "mainspring/exec/cpu/kernels/table.h"
#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/cpu/peaks.h"
#include "mainspring/exec/cpu/self_test.h"

namespace mainspring::cpu {
namespace {

constexpr Isa kNewestFirst[] = {Isa::kAvx512Bf16, Isa::kAvx512, Isa::kAvx2, Isa::kScalar};

bool is_supported(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kAvx512:
      return is_supported(Isa::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq");
    case Isa::kAvx512Bf16:
      return is_supported(Isa::kAvx512) && __builtin_cpu_supports("avx512bf16");
  }
  return false;
}

/// The self-test's verdict on a path, worked out once per process.
const std::optional<std::string>& verdict(Isa isa) {
  static std::once_flag once[4];
  static std::optional<std::string> verdicts[4];
  const auto index = static_cast<size_t>(isa);
  std::call_once(once[index], [&] { verdicts[index] = self_test(kernel_table(isa)); });
  return verdicts[index];
}

Result<IsaChoice> choose_forced(std::string_view name) {
  MS_ASSIGN_OR_RETURN(const Isa isa, parse_isa(name));
  if (!is_supported(isa)) {
    return failed_precondition("this processor cannot run the path '" + std::string(name) + "'");
  }
  if (const auto& failure = verdict(isa)) {
    return failed_precondition("the path '" + std::string(name) +
                               "' fails its self-test: " + *failure);
  }
  return IsaChoice{isa, {}, {}};
}

/// Rates of the paths' tiles, in alternated rounds so that a neighbour's burst hits all; some 1 ms.
std::vector<double> measure_paths(const std::vector<Isa>& isas) {
  constexpr int kRounds = 8;
  constexpr int kTiles = 6;
  std::vector<double> flops(isas.size(), 0.0);
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < isas.size(); ++i) {
      flops[i] = std::max(flops[i], time_tiles(kernel_table(isas[i]), kTiles));
    }
  }
  return flops;
}

std::string gflops(double flops) { return std::to_string(std::llround(flops * 1e-9)); }

/// Worked out once per process. Processors differ in what their newest instructions are worth:
/// Intel's of 2023 run vdpbf16ps at half the rate of two FMAs, AMD's Zen 4 and 5 at twice and more.
IsaChoice choose_fastest() {
  IsaChoice choice;
  std::vector<Isa> passing;
  for (const Isa isa : supported_isas()) {
    const auto& failure = verdict(isa);
    if (failure && isa != Isa::kScalar) {
      choice.failures.push_back(std::string(isa_name(isa)) + " fails its self-test: " + *failure);
    } else if (isa != Isa::kScalar || passing.empty()) {
      passing.push_back(isa);
    }
  }
  if (passing.size() == 1) {
    choice.isa = passing[0];
    return choice;
  }
  const std::vector<double> flops = measure_paths(passing);
  const size_t best = fastest_path(flops);
  choice.isa = passing[best];
  for (size_t i = 0; i < best; ++i) {
    choice.slower.push_back(std::string(isa_name(passing[i])) + " reaches " + gflops(flops[i]) +
                            " GFLOP/s a thread, " + std::string(isa_name(choice.isa)) + " " +
                            gflops(flops[best]));
  }
  return choice;
}

}  // namespace

size_t fastest_path(std::span<const double> flops) {
  size_t best = 0;
  for (size_t i = 1; i < flops.size(); ++i) {
    if (flops[i] > 1.2 * flops[best]) best = i;
  }
  return best;
}

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512bf16";
  }
  return "?";
}

Result<Isa> parse_isa(std::string_view name) {
  for (const Isa isa : kNewestFirst) {
    if (isa_name(isa) == name) return isa;
  }
  return invalid_argument("unknown instruction-set path '" + std::string(name) +
                          "'; expected scalar, avx2, avx512 or avx512bf16");
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> out;
  for (const Isa isa : kNewestFirst) {
    if (is_supported(isa)) out.push_back(isa);
  }
  return out;
}

Result<IsaChoice> choose_isa(std::string_view forced) {
  if (!forced.empty()) return choose_forced(forced);
  const char* environment = std::getenv("MS_ISA");
  if (environment != nullptr && *environment != '\0') {
    auto choice = choose_forced(environment);
    return choice.ok() ? choice : Result<IsaChoice>(choice.status().with_context("MS_ISA"));
  }
  static const IsaChoice choice = choose_fastest();
  return choice;
}

const KernelTable& kernel_table(Isa isa) {
  static const KernelTable tables[] = {
      {Isa::kScalar, &scalar::linear_table(), &scalar::rows_table()},
      {Isa::kAvx2, &avx2::linear_table(), &avx2::rows_table()},
      {Isa::kAvx512, &avx512::linear_table(), &avx512::rows_table()},
      {Isa::kAvx512Bf16, &avx512bf16::linear_table(), &avx512bf16::rows_table()},
  };
  return tables[static_cast<size_t>(isa)];
}

Context make_context(Isa isa, ThreadPool& pool, DType compute) {
  MS_CHECK(compute == DType::kBF16 || compute == DType::kF32, "the compute dtype is bf16 or f32");
  return {&kernel_table(isa), &pool, compute};
}

}  // namespace mainspring::cpu
