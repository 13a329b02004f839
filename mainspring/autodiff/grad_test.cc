// A parameter that no accumulator serves is refused by name, never left without a gradient.
#include "mainspring/autodiff/grad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mainspring {
namespace {

struct Traced {
  Tracer tracer{DType::kF32};
  Tensor x = tracer.param("x", {DType::kF32, {{kPicked}}});
};

std::string refusal(const Tensor& last) {
  try {
    value_and_grad(reduce_sum(last), [](const std::string&) { return true; });
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Grad, ATrainableParameterReadByAnOpWithoutAnAccumulatorIsRefused) {
  Traced scaled;
  EXPECT_THAT(refusal(scale(scaled.x, 2.0f)),
              testing::HasSubstr("[scale] cannot train parameter x (input 0)"));
  Traced multiplied;
  EXPECT_THAT(refusal(mul(fill_picked(multiplied.tracer, 1.0f), multiplied.x)),
              testing::HasSubstr("[mul] cannot train parameter x"));
  Traced added;
  EXPECT_THAT(refusal(add({added.x, added.x})),
              testing::HasSubstr("[add] cannot train parameter x"));
}

TEST(Grad, PullingBackAGradientIsTheGradientOfTheProduct) {
  const auto trace = [](bool pulled) {
    Tracer tracer(DType::kF32);
    const Tensor tokens = tracer.input("tokens", {DType::kI32, {{kRows}}});
    const Tensor x = gather_rows(embedding(tokens, tracer.param("e", {DType::kF32, {{4, 2}}})));
    const Tensor targets = tracer.input("targets", {DType::kI32, {{kPicked}}});
    const Tensor logprob = head_logprob(x, tracer.param("h", {DType::kF32, {{4, 2}}}), targets);
    const Tensor w = tracer.input("w", {DType::kF32, {{kPicked}}});
    const auto all = [](const std::string&) { return true; };
    const auto accumulators =
        pulled ? pull_back({{logprob, w}}, all) : value_and_grad(reduce_sum(mul(logprob, w)), all);
    EXPECT_EQ(accumulators.size(), 2u);
    std::vector<OpKind> ops;
    for (const Node& node : tracer.graph().nodes()) {
      if (node.backward && node.op != OpKind::kState) ops.push_back(node.op);
    }
    return ops;
  };
  const std::vector<OpKind> pulled = trace(true);
  EXPECT_THAT(pulled, testing::ElementsAre(OpKind::kHeadLogprobGrad, OpKind::kScatterRows,
                                           OpKind::kEmbeddingGrad));
  // value_and_grad first makes w itself: ones, times w.
  std::vector<OpKind> expected{OpKind::kFill, OpKind::kMul};
  expected.insert(expected.end(), pulled.begin(), pulled.end());
  EXPECT_EQ(trace(false), expected);
}

TEST(Grad, AGradientOfAnotherTypeIsRefused) {
  Traced t;
  const Tensor y = scale(t.x, 2.0f);
  const Tensor wrong = t.tracer.input("dy", {DType::kF32, {{kRows}}});
  EXPECT_THROW(pull_back({{y, wrong}}, [](const std::string&) { return true; }), ShapeError);
}

}  // namespace
}  // namespace mainspring
