#include "mainspring/cli/cmd_verify.h"

#include <cstdio>
#include <memory>

#include "mainspring/cli/exit_code.h"
#include "mainspring/exec/cpu/cpu_executor.h"
#include "mainspring/exec/cpu/isa.h"
#include "mainspring/train/exactness_checks.h"

namespace mainspring::cli {
namespace {

void print_check(const ExactnessCheck& check) {
  std::printf("%-52s %-9s %6.1f s%s%s\n", check.name.c_str(), check.equal ? "equal" : "DIFFERENT",
              check.seconds, check.detail.empty() ? "" : "  ", check.detail.c_str());
  std::fflush(stdout);
}

Status verify_model(const VerifyFlags& flags) {
  MS_ASSIGN_OR_RETURN(const auto model, load_model(flags.model));
  ExactnessOptions options;
  options.make_executor = [](const std::string& isa, int threads) {
    return cpu::make_cpu_executor({.num_threads = threads, .isa = isa});
  };
  options.compute = flags.dtype == "f32" ? DType::kF32 : DType::kBF16;
  options.full_weights = flags.full;
  // The scalar path is the tests' oracle; on a real model it takes minutes.
  for (cpu::Isa isa : cpu::supported_isas()) {
    if (isa != cpu::Isa::kScalar || model->num_parameters < 5'000'000)
      options.isas.emplace_back(cpu::isa_name(isa));
  }
  std::printf("%s, %s: every line compares bits\n", flags.model.c_str(), flags.dtype.c_str());
  const auto checks = run_exactness_checks(model, options, print_check);
  size_t different = 0;
  for (const ExactnessCheck& check : checks) different += check.equal ? 0 : 1;
  std::printf("%zu of %zu checks hold\n", checks.size() - different, checks.size());
  if (different > 0) return internal_error(std::to_string(different) + " checks do not hold");
  return {};
}

}  // namespace

int run_verify(const VerifyFlags& flags) { return exit_code("verify", verify_model(flags)); }

void add_verify(CommandRegistry& registry) {
  auto flags = std::make_shared<VerifyFlags>();
  Flags& f = registry.add("verify", "check on this machine that results are exact",
                          [flags] { return run_verify(*flags); });
  f.required_text("model", &flags->model, "Hugging Face folder or .gguf file");
  f.choice("dtype", &flags->dtype, {"bf16", "f32"}, "compute dtype");
  f.toggle("full", &flags->full, "also compare the gradients of all weights");
}

}  // namespace mainspring::cli
