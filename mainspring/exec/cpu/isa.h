// The instruction-set paths of the CPU executor and how one is chosen.
//
// The one idea: every path gives the same bits; the fastest one that this processor has and that
// passes the self-test is used, unless --isa or MS_ISA forces one.
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

/// The paths this processor can run, fastest first.
std::vector<Isa> supported_isas();

/// What was chosen and why; `notes` names every path that failed its self-test.
struct IsaChoice {
  Isa isa = Isa::kScalar;
  std::vector<std::string> notes;
};

/// `forced` (empty: MS_ISA, else automatic). Runs the self-test once per process.
/// Errors: invalid argument for an unknown name; failed precondition if the forced path is not
/// supported here or fails its self-test.
Result<IsaChoice> choose_isa(std::string_view forced);

}  // namespace mainspring::cpu
