// Runs a built case on an executor and compares results with the oracle's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/exec/executor.h"
#include "tests/conformance/case_builder.h"

namespace mainspring::conformance {

/// Every executor in the tree: the rounding reference, and the CPU executor on each path that this
/// processor has, with one and with two threads.
std::vector<std::unique_ptr<Executor>> make_executors();

/// What was checked, by name: the bytes, and the same as numbers. The cache's pages appear as
/// "cache.keys" and "cache.values".
struct CaseResults {
  std::map<std::string, std::vector<std::byte>> bytes;
  std::map<std::string, std::vector<double>> values;
};

/// Compiles for a little more capacity than the case has rows; what lies beyond its rows in every
/// buffer is NaN, so that reading it shows.
/// `options` gives all but the capacity.
Result<CaseResults> run_case(Executor& executor, const BuiltCase& built,
                             CompileOptions options = {});

/// The f64 oracle's values: nothing is rounded but a cache's pages.
CaseResults run_oracle(const BuiltCase& built);

/// How far a result may be from the oracle:
///   u(dtype of the result) * |value| + (sums * u(f32) + inner * u(compute dtype)) * magnitude,
/// where u is a rounding's relative error (2^-24, bf16: 2^-8) and magnitude the largest |value| of
/// the tensor, or `magnitude` if that is larger.
struct Tolerance {
  double sums = 32;      // f32 additions whose order is free to differ
  double inner = 0;      // roundings to the compute dtype inside the op
  double magnitude = 0;  // of the terms inside, for ops whose terms may cancel to nothing
  bool is_zero = false;  // the oracle's own bits: what is stored is a step function of the values
};
inline constexpr Tolerance kSameBits{.is_zero = true};

/// Expects every checked value within tolerance, and exact zeros on rows of no segment.
void expect_near_oracle(const BuiltCase& built, const CaseResults& got, const CaseResults& oracle,
                        const Tolerance& tolerance);

}  // namespace mainspring::conformance
