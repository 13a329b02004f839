#include "mainspring/exec/ref/ref_executor.h"

#include <gtest/gtest.h>

#include "mainspring/base/bf16.h"

namespace mainspring::ref {
namespace {

// y = silu(x); acc += bias gradient of x. Capacity 4 rows.
Graph small_graph() {
  Graph graph(DType::kBF16);
  const ValueId x = graph.add_source(OpKind::kInput, "x", {DType::kBF16, {{kRows, 2}}});
  const ValueId acc = graph.add_source(OpKind::kState, "acc", {DType::kF32, {{2}}});
  graph.add_output("y", graph.add_node(OpKind::kSilu, {x}, NoAttrs{}, "", -1, false).value()[0]);
  EXPECT_TRUE(graph.add_node(OpKind::kBiasGrad, {x, acc}, NoAttrs{}, "", -1, true).ok());
  return graph;
}

struct Fixture {
  RefExecutor executor;
  std::unique_ptr<RefExecutable> executable =
      executor.compile_ref(small_graph(), {.capacity = {4, 0}}).value();
  std::unique_ptr<Buffer> x = executor.allocate(DType::kBF16, {4, 2});
  std::unique_ptr<Buffer> acc = executor.allocate(DType::kF32, {2});
};

TEST(RefExecutorTest, RunsOnTheBoundRowsOnlyAndUpdatesStatesInTheirBuffers) {
  Fixture f;
  for (int i = 0; i < 8; ++i) static_cast<bf16*>(f.x->data())[i] = to_bf16(static_cast<float>(i));
  static_cast<float*>(f.acc->data())[1] = 10;
  ASSERT_TRUE(f.executable->bind("x", f.x.get()).ok());
  ASSERT_TRUE(f.executable->bind("acc", f.acc.get()).ok());
  const Segment segment{.num_rows = 2};
  const RowTable table{2, {&segment, 1}, {}};
  f.executable->run({.table = &table});
  f.executable->run({.table = &table});
  EXPECT_EQ(f.executable->values("y").size(), 4u);
  const float* acc = static_cast<const float*>(f.acc->data());
  EXPECT_EQ(acc[0], 4);   // 2 * (0 + 2)
  EXPECT_EQ(acc[1], 18);  // 10 + 2 * (1 + 3)
  EXPECT_EQ(f.executable->values("acc")[1], 18);
  const auto* y = static_cast<const bf16*>(f.executable->output("y"));
  EXPECT_EQ(to_f32(y[0]), 0.0f);
  EXPECT_EQ(y[2], to_bf16(static_cast<float>(f.executable->values("y")[2])));
  EXPECT_EQ(f.executable->output("z"), nullptr);
}

TEST(RefExecutorTest, WrongNamesTypesAndShapesAreRefused) {
  Fixture f;
  EXPECT_EQ(f.executable->bind("z", f.x.get()).code(), StatusCode::kNotFound);
  EXPECT_EQ(f.executable->bind_values("z", {}).code(), StatusCode::kNotFound);
  const Status wrong_type = f.executable->bind("acc", f.x.get());
  EXPECT_EQ(wrong_type.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(wrong_type.message(), "binding acc: expected f32(2), got bf16(4, 2)");
  const auto short_x = f.executor.allocate(DType::kBF16, {3, 2});
  EXPECT_EQ(f.executable->bind("x", short_x.get()).code(), StatusCode::kInvalidArgument);
}

TEST(RefExecutorTest, UnknownPassNamesAreRefused) {
  CompileOptions options;
  options.passes.disabled = {"no_such_pass"};
  EXPECT_EQ(RefExecutor().compile(small_graph(), options).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(RefExecutorTest, BytesOfBuffersAreCounted) {
  RefExecutor executor;
  {
    const auto a = executor.allocate(DType::kF32, {8});
    EXPECT_EQ(executor.current_bytes(), 32);
  }
  EXPECT_EQ(executor.current_bytes(), 0);
  EXPECT_EQ(executor.peak_bytes(), 32);
}

TEST(RefExecutorTest, PeakFlopsIsMeasured) { EXPECT_GT(RefExecutor().peak_flops(), 1e6); }

TEST(RefExecutorTest, RowMathIsLogSumExp) {
  const RefExecutor executor;
  const float logits[] = {0, 0};
  const RowMath::Stats stats = executor.row_math().stats(logits, 2);
  EXPECT_EQ(stats.max, 0);
  EXPECT_EQ(stats.sum, 2);
  EXPECT_EQ(stats.lse, 0.693147182f);
  float probabilities[2];
  executor.row_math().exp_row(logits, 2, 0, probabilities);
  EXPECT_EQ(probabilities[1], 1);
}

}  // namespace
}  // namespace mainspring::ref
