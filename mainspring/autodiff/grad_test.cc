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

}  // namespace
}  // namespace mainspring
