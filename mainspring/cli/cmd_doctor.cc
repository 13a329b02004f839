#include "mainspring/cli/cmd_doctor.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "mainspring/cli/exit_code.h"
#include "mainspring/exec/cpu/cpu_executor.h"
#include "mainspring/exec/cpu/isa.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/train/flops.h"

namespace mainspring::cli {
namespace {

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Bytes per second of reading memory much larger than the caches, one thread.
double read_bandwidth() {
  std::vector<uint64_t> data(size_t{32} << 20, 1);  // 256 MiB
  uint64_t sum = 0;
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t value : data) sum += value;
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(data.size() * 8) / time.count());
  }
  return sum == 0 ? 0 : best;
}

void print_machine(Executor& executor) {
  std::printf("instruction sets  ");
  for (cpu::Isa isa : cpu::supported_isas())
    std::printf("%s ", std::string(cpu::isa_name(isa)).c_str());
  std::printf("(newest first; in use: %s)\n", std::string(executor.name()).c_str());
  std::printf("threads           %d of %d cores of the container\n", executor.num_threads(),
              cpu::available_cores());
  std::printf("memory            %.1f GiB available\n",
              static_cast<double>(executor.available_bytes()) / (1 << 30));
  const std::string huge = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  std::printf("huge pages        %s\n", huge.empty() ? "not known here" : huge.c_str());
  std::printf("peak              %.0f GFLOP/s, bf16 product in cache (measured)\n",
              executor.peak_flops() / 1e9);
  std::printf("memory read       %.1f GB/s on one thread (measured)\n", read_bandwidth() / 1e9);
}

Status print_model(const std::string& path, Executor& executor) {
  MS_ASSIGN_OR_RETURN(const auto model, load_model(path));
  MS_ASSIGN_OR_RETURN(const FlopsModel full,
                      FlopsModel::of(model->config, {.full = true}, executor));
  MS_ASSIGN_OR_RETURN(const FlopsModel lora, FlopsModel::of(model->config, {}, executor));
  const double n = static_cast<double>(model->num_parameters);
  const double gib = static_cast<double>(int64_t{1} << 30);
  std::printf("model             %s, %.0fM parameters, %.2f GiB stored\n",
              model->config.family.c_str(), n / 1e6, static_cast<double>(model->size_bytes) / gib);
  std::printf(
      "full fine-tuning  16 bytes a parameter = %.2f GiB before activations; at most %.0f "
      "tokens/s\n",
      16 * n / gib, full.peak / full.per_token());
  std::printf(
      "LoRA              4 bytes a parameter = %.2f GiB before activations; at most %.0f "
      "tokens/s\n",
      4 * n / gib, lora.peak / lora.per_token());
  return {};
}

Status doctor(const DoctorFlags& flags) {
  MS_ASSIGN_OR_RETURN(const cpu::IsaChoice choice, cpu::choose_isa(""));
  MS_ASSIGN_OR_RETURN(auto executor, cpu::make_cpu_executor({}));
  print_machine(*executor);
  if (!flags.model.empty()) MS_RETURN_IF_ERROR(print_model(flags.model, *executor));
  for (const std::string& failure : choice.failures) {
    std::printf("self-test         %s\n", failure.c_str());
  }
  for (const std::string& slower : choice.slower) {
    std::printf("slower path       %s\n", slower.c_str());
  }
  if (!choice.failures.empty())
    return internal_error("a path failed its self-test and is not used");
  std::printf("self-test         every path above gives the scalar path's bits\n");
  return {};
}

}  // namespace

int run_doctor(const DoctorFlags& flags) { return exit_code("doctor", doctor(flags)); }

void add_doctor(CommandRegistry& registry) {
  auto flags = std::make_shared<DoctorFlags>();
  Flags& f = registry.add("doctor", "tell what this machine can do",
                          [flags] { return run_doctor(*flags); });
  f.text("model", &flags->model, "also say what that means for this model");
}

}  // namespace mainspring::cli
