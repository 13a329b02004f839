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

// y = silu(x); acc += bias gradient of y * late, where late = 10 y is known once y is.
TEST(RefExecutorTest, LateInputsAreFilledFromOutputs) {
  Graph graph(DType::kF32);
  const ValueType type{DType::kF32, {{kRows, 1}}};
  const ValueId x = graph.add_source(OpKind::kInput, "x", type);
  const ValueId late = graph.add_source(OpKind::kInput, "late", type);
  const ValueId acc = graph.add_source(OpKind::kState, "acc", {DType::kF32, {{1}}});
  const ValueId y = graph.add_node(OpKind::kSilu, {x}, NoAttrs{}, "", -1, false).value()[0];
  const ValueId z = graph.add_node(OpKind::kMul, {y, late}, NoAttrs{}, "", -1, true).value()[0];
  ASSERT_TRUE(graph.add_node(OpKind::kBiasGrad, {z, acc}, NoAttrs{}, "", -1, true).ok());
  graph.add_output("y", y);
  RefExecutor executor;
  const auto executable =
      executor.compile(graph, {.capacity = {1, 0}, .late_inputs = {"late"}}).value();
  const auto x_buffer = executor.allocate(DType::kF32, {1, 1});
  const auto late_buffer = executor.allocate(DType::kF32, {1, 1});
  const auto acc_buffer = executor.allocate(DType::kF32, {1});
  *static_cast<float*>(x_buffer->data()) = 2.0f;
  ASSERT_TRUE(executable->bind("x", x_buffer.get()).ok());
  ASSERT_TRUE(executable->bind("late", late_buffer.get()).ok());
  ASSERT_TRUE(executable->bind("acc", acc_buffer.get()).ok());
  const Segment segment{.num_rows = 1};
  const RowTable table{1, {&segment, 1}, {}};
  float seen = 0.0f;
  const std::function<void()> fill = [&] {
    seen = *static_cast<const float*>(executable->output("y"));
    *static_cast<float*>(late_buffer->data()) = 10.0f * seen;
  };
  executable->run({.table = &table, .fill_late_inputs = &fill});
  EXPECT_NEAR(seen, 1.7616, 1e-4);  // 2 / (1 + e^-2)
  EXPECT_NEAR(*static_cast<const float*>(acc_buffer->data()), 10 * seen * seen, 1e-3);
  graph.add_output("z", z);
  EXPECT_EQ(executor.compile(graph, {.late_inputs = {"late"}}).status().code(),
            StatusCode::kInvalidArgument);
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

TEST(RefExecutorTest, ABorrowedBufferThatOwnsItsBytesKeepsItsValues) {
  RefExecutor executor;
  std::vector<float> lent{1.0f, 2.0f};
  const auto buffer = executor.borrow({.dtype = DType::kF32, .shape = {2}, .data = lent.data()});
  EXPECT_EQ(executor.current_bytes(), 0);
  ASSERT_TRUE(buffer->own().ok());
  ASSERT_TRUE(buffer->own().ok()) << "once is enough";
  lent = {7.0f, 7.0f};
  EXPECT_EQ(static_cast<const float*>(std::as_const(*buffer).data())[1], 2.0f);
  EXPECT_EQ(buffer->data(), nullptr) << "still read only";
  EXPECT_EQ(executor.current_bytes(), 8);
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
