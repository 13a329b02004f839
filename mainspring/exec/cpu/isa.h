// The instruction-set paths of the CPU executor and how one is chosen.
//
// The one idea: every path gives the same bits, so the choice is one of speed alone: of the paths
// that this processor has and that pass the self-test, the one whose product is measured to be the
// fastest at start, unless --isa or MS_ISA forces one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring::cpu {

enum class Isa { kScalar, kAvx2, kAvx512, kAvx512Bf16 };

/// "scalar", "avx2", "avx512", "avx512bf16".
std::string_view isa_name(Isa isa);

/// Errors: invalid argument with the four names if `name` is none of them.
Result<Isa> parse_isa(std::string_view name);

/// The paths this processor can run, the newest instructions first.
std::vector<Isa> supported_isas();

/// What was chosen and why.
struct IsaChoice {
  Isa isa = Isa::kScalar;
  std::vector<std::string> failures;  // paths that failed their self-test, and how
  std::vector<std::string> slower;    // newer paths that were measured to be slower than this one
};

/// `forced` (empty: MS_ISA, else automatic). Runs the self-test once per process.
/// Errors: invalid argument for an unknown name; failed precondition if the forced path is not
/// supported here or fails its self-test.
Result<IsaChoice> choose_isa(std::string_view forced);

/// The index of the path to use: `flops` are measured rates, newest instructions first. A later one
/// must be faster by a fifth, so that noise decides nothing.
size_t fastest_path(std::span<const double> flops);

}  // namespace mainspring::cpu
