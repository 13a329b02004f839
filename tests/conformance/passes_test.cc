// Passes change no bit: a decoder with its gradients, each pass switched off and each way to
// recompute.
#include <gtest/gtest.h>

#include "tests/conformance/decoder.h"
#include "tests/conformance/run_case.h"

namespace mainspring::conformance {
namespace {

const Rows& rows() {
  static const Rows rows =
      make_rows("decoder", {{.length = 7, .slot = 0}, {.length = 4}, {.length = 5, .slot = 1}});
  return rows;
}

// The executors whose bits are compared with themselves under other passes.
void expect_same_bits(const PassOptions& options) {
  for (DType compute : {DType::kF32, DType::kBF16}) {
    const BuiltCase built = build_decoder(compute, rows());
    for (const auto& executor : make_executors()) {
      SCOPED_TRACE(std::string(executor->name()) + " in " + std::string(dtype_name(compute)));
      const auto plain = run_case(*executor, built);
      const auto other = run_case(*executor, built, {.passes = options});
      ASSERT_TRUE(plain.ok()) << plain.status().to_string();
      ASSERT_TRUE(other.ok()) << other.status().to_string();
      for (const auto& [name, bytes] : plain->bytes)
        EXPECT_EQ(bytes, other->bytes.at(name)) << name;
    }
  }
}

class SwitchedOffTest : public testing::TestWithParam<std::string> {};

TEST_P(SwitchedOffTest, ChangesNoBit) { expect_same_bits({.disabled = {GetParam()}}); }

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const auto& pass : make_passes(RecomputePolicy::kNone)) names.emplace_back(pass->name());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Passes, SwitchedOffTest, testing::ValuesIn(pass_names()),
                         [](const auto& info) { return info.param; });

TEST(PassesTest, AllSwitchedOffChangeNoBit) { expect_same_bits({.disabled = pass_names()}); }

TEST(PassesTest, SelectiveRecomputationChangesNoBit) {
  expect_same_bits({.recompute = RecomputePolicy::kSelective});
}

TEST(PassesTest, RecomputationOfAllButAttentionChangesNoBit) {
  expect_same_bits({.recompute = RecomputePolicy::kKeepAttention});
}

TEST(PassesTest, FullRecomputationChangesNoBit) {
  expect_same_bits({.recompute = RecomputePolicy::kFull});
}

TEST(PassesTest, TheDecoderHasWhatThePassesActOn) {
  Graph graph = build_decoder(DType::kBF16, rows()).graph;
  const size_t traced = graph.nodes().size();
  const auto count = [&](OpKind op) {
    size_t n = 0;
    for (const Node& node : graph.nodes()) n += node.op == op ? 1 : 0;
    return n;
  };
  ASSERT_EQ(count(OpKind::kSiluMul), 0u);
  ASSERT_TRUE(run_passes(graph, {.recompute = RecomputePolicy::kFull}, nullptr).ok());
  EXPECT_EQ(count(OpKind::kSiluMul), 4u);  // one per layer, forward and again
  EXPECT_EQ(count(OpKind::kSiluMulGrad), 2u);
  EXPECT_EQ(count(OpKind::kSilu), 0u);
  EXPECT_GT(graph.nodes().size(), traced);
}

TEST(PassesTest, AttentionIsNotComputedAgainUnlessAllIs) {
  const auto count_after = [](RecomputePolicy policy, OpKind op) {
    Graph graph = build_decoder(DType::kBF16, rows()).graph;
    EXPECT_TRUE(run_passes(graph, {.recompute = policy}, nullptr).ok());
    return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                         [op](const Node& node) { return node.op == op; });
  };
  EXPECT_EQ(count_after(RecomputePolicy::kKeepAttention, OpKind::kAttention), 2);  // one per layer
  EXPECT_EQ(count_after(RecomputePolicy::kFull, OpKind::kAttention), 4);
  EXPECT_EQ(count_after(RecomputePolicy::kKeepAttention, OpKind::kLinear),
            count_after(RecomputePolicy::kFull, OpKind::kLinear));
}

TEST(PassesTest, DecoderGradientsAreTheOracles) {
  const BuiltCase built = build_decoder(DType::kF32, rows());
  const CaseResults oracle = run_oracle(built);
  for (const auto& executor : make_executors()) {
    SCOPED_TRACE(executor->name());
    const auto got = run_case(*executor, built);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    expect_near_oracle(built, *got, oracle, {.sums = 4096});  // through two layers and back
  }
}

}  // namespace
}  // namespace mainspring::conformance
