// A step allocates nothing: operator new is counted while a compiled forward-backward graph runs.
#include <gtest/gtest.h>

#include <atomic>

#include "mainspring/autodiff/grad.h"
#include "mainspring/losses/losses.h"
#include "mainspring/models/decoder.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/models/rope_table.h"
#include "mainspring/weights/parameter_set.h"
#include "tests/support/golden_files.h"

namespace mainspring::test {
extern std::atomic<int64_t> num_allocations;  // counting_new.cc
}  // namespace mainspring::test

namespace mainspring {
namespace {

TEST(NoAllocation, ARunOfACompiledTrainingGraphAllocatesNothing) {
  const auto model = load_model(test::source_path("tests/golden/tiny/llama_gqa")).value();
  const auto executor = test::make_executor(2);
  ParameterSet buffers = copy_parameters_f32(*executor, model->weights);
  Tracer tracer(DType::kBF16);
  const nn::Params params(tracer, [](const std::string&) { return DType::kF32; }, {});
  const Tensor hidden = decoder_hidden(params, model->config, 32);
  const Tensor targets = tracer.input(kTargetsInput, {DType::kI32, {{kPicked}}});
  const Tensor logprob = head_logprob(hidden, decoder_head(params, model->config), targets);
  tracer.output("logprob", logprob);
  const auto accumulators =
      value_and_grad(reduce_sum(scale(logprob, -1.0f)),
                     [](const std::string& name) { return name != kRopeTableParam; });
  Graph graph = tracer.release();
  const auto sources = source_names(graph);
  auto executable = executor->compile(std::move(graph), {.capacity = {32, 32}}).value();
  buffers[kRopeTableParam] = executor->allocate(DType::kF32, rope_table_shape(model->config, 32));
  buffers[kTokensInput] = executor->allocate(DType::kI32, {32});
  buffers[kTargetsInput] = executor->allocate(DType::kI32, {32});
  for (const GradAccumulator& a : accumulators)
    buffers[a.state_name] = executor->allocate(DType::kF32, a.shape.dims);
  for (const std::string& source : sources)
    ASSERT_TRUE(executable->bind(source, buffers.at(source).get()).ok()) << source;
  const Segment segment{.row_begin = 0, .num_rows = 17};
  std::vector<int32_t> picked(16);
  for (int32_t i = 0; i < 16; ++i) picked[static_cast<size_t>(i)] = i;
  const Segment picks{.row_begin = 0, .num_rows = 16};
  const RowTable table{18, {&segment, 1}, picked};
  const RowTable pick_table{16, {&picks, 1}, {}};
  executable->run({.table = &table, .pick_table = &pick_table, .kv = nullptr});
  const int64_t before = test::num_allocations.load();
  executable->run({.table = &table, .pick_table = &pick_table, .kv = nullptr});
  EXPECT_EQ(test::num_allocations.load() - before, 0);
  EXPECT_GT(before, 0) << "the counter must see allocations at all";
}

}  // namespace
}  // namespace mainspring
