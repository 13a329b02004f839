#include "mainspring/exec/cpu/self_test.h"

namespace mainspring::cpu {

std::optional<std::string> self_test(const KernelTable& kernels) {
  if (kernels.isa == Isa::kScalar) return std::nullopt;
  if (auto failure = self_test_linear(kernels)) return failure;
  return self_test_rows(kernels);
}

}  // namespace mainspring::cpu
