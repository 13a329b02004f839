#include "mainspring/exec/cpu/isa.h"

#include "mainspring/exec/cpu/cpu_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "mainspring/exec/cpu/kernels/table.h"
#include "mainspring/exec/cpu/self_test.h"

namespace mainspring::cpu {
namespace {

TEST(IsaTest, EveryNameReadsBack) {
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    const auto parsed = parse_isa(isa_name(isa));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, isa);
  }
}

TEST(IsaTest, AnUnknownNameIsRefusedWithTheFour) {
  const auto parsed = parse_isa("sse9");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(parsed.status().message().find("avx512bf16"), std::string::npos);
}

TEST(IsaTest, TheScalarPathIsAlwaysThereAndLast) {
  ASSERT_FALSE(supported_isas().empty());
  EXPECT_EQ(supported_isas().back(), Isa::kScalar);
}

TEST(IsaTest, EverySupportedPathPassesItsSelfTest) {
  for (const Isa isa : supported_isas()) {
    const auto failure = self_test(kernel_table(isa));
    EXPECT_FALSE(failure.has_value()) << isa_name(isa) << ": " << failure.value_or("");
  }
}

TEST(IsaTest, ASelfTestNamesAPathThatRoundsElsewhere) {
  LinearTable broken = *kernel_table(Isa::kScalar).linear;
  broken.bf16.round_values = [](const float* x, int64_t n, bool, void* y) {
    for (int64_t i = 0; i < n; ++i) {  // truncates
      const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(x[i]) >> 16);
      std::memcpy(static_cast<char*>(y) + 2 * i, &bits, 2);
    }
  };
  KernelTable table = kernel_table(Isa::kScalar);
  table.isa = Isa::kAvx2;
  table.linear = &broken;
  EXPECT_TRUE(self_test(table).has_value());
}

TEST(IsaTest, AForcedPathIsTaken) {
  for (const Isa isa : supported_isas()) {
    const auto choice = choose_isa(isa_name(isa));
    ASSERT_TRUE(choice.ok());
    EXPECT_EQ(choice->isa, isa);
  }
}

TEST(IsaTest, AForcedPathThatCannotRunIsRefused) {
  const auto supported = supported_isas();
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    if (std::find(supported.begin(), supported.end(), isa) != supported.end()) continue;
    EXPECT_EQ(choose_isa(isa_name(isa)).status().code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(choose_isa("nonsense").status().code(), StatusCode::kInvalidArgument);
}

TEST(IsaTest, NewerInstructionsAreUsedUnlessOlderOnesAreClearlyFaster) {
  EXPECT_EQ(fastest_path(std::vector<double>{90.0}), 0u);
  EXPECT_EQ(fastest_path(std::vector<double>{90.0, 100.0, 50.0}), 0u);  // noise
  EXPECT_EQ(fastest_path(std::vector<double>{87.0, 158.0, 80.0}), 1u);  // half-rate vdpbf16ps
  EXPECT_EQ(fastest_path(std::vector<double>{10.0, 20.0, 30.0}), 2u);
}

TEST(IsaTest, ASlowerNewerPathIsNamed) {
  const char* set = std::getenv("MS_ISA");  // a forced path passes over none
  const std::string forced = set == nullptr ? "" : set;
  unsetenv("MS_ISA");
  const auto choice = choose_isa("");
  if (!forced.empty()) setenv("MS_ISA", forced.c_str(), 1);
  ASSERT_TRUE(choice.ok());
  const auto supported = supported_isas();
  const auto passed_over =
      std::find(supported.begin(), supported.end(), choice->isa) - supported.begin();
  EXPECT_EQ(static_cast<std::ptrdiff_t>((choice->failures.size() + choice->slower.size())),
            passed_over);
}

TEST(IsaTest, AnAbsurdNumberOfThreadsIsRefused) {
  EXPECT_EQ(make_cpu_executor({.num_threads = 100000}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(make_cpu_executor({.num_threads = -1}).status().code(), StatusCode::kInvalidArgument);
}

TEST(IsaTest, TheEnvironmentForcesAPath) {
  setenv("MS_ISA", "scalar", 1);
  EXPECT_EQ(choose_isa("")->isa, Isa::kScalar);
  setenv("MS_ISA", "nonsense", 1);
  const auto refused = choose_isa("");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("MS_ISA"), std::string::npos);
  unsetenv("MS_ISA");
  const auto chosen = choose_isa("");
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen->isa == Isa::kScalar, supported_isas().front() == Isa::kScalar);
}

}  // namespace
}  // namespace mainspring::cpu
