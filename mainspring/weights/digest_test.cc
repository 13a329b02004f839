#include "mainspring/weights/digest.h"

#include <gtest/gtest.h>

#include "mainspring/weights/dequantise.h"

namespace mainspring {
namespace {

TensorSet one(const std::string& name, std::vector<int64_t> shape, DType dtype,
              const std::vector<float>& values) {
  TensorSet set;
  set[name] = make_tensor(name, std::move(shape), dtype, values);
  return set;
}

TEST(Digest, IsTheSameForEqualBytesWhereverTheyLie) {
  EXPECT_EQ(digest_of(one("a", {2}, DType::kF32, {1, 2})),
            digest_of(one("a", {2}, DType::kF32, {1, 2})));
}

TEST(Digest, ChangesWithNameShapeDtypeAndEveryBit) {
  const Digest128 base = digest_of(one("a", {2, 1}, DType::kF32, {1, 2}));
  EXPECT_NE(base, digest_of(one("b", {2, 1}, DType::kF32, {1, 2})));
  EXPECT_NE(base, digest_of(one("a", {1, 2}, DType::kF32, {1, 2})));
  EXPECT_NE(base, digest_of(one("a", {2, 1}, DType::kBF16, {1, 2})));
  EXPECT_NE(base, digest_of(one("a", {2, 1}, DType::kF32, {1, 2.0000002f})));
  EXPECT_NE(digest_of(one("a", {1}, DType::kF32, {0.0f})),
            digest_of(one("a", {1}, DType::kF32, {-0.0f})));
}

TEST(Digest, ChangesWithNf4Aux) {
  TensorSet set = one("a", {2}, DType::kF32, {1, 2});
  const Digest128 base = digest_of(set);
  set["a"].aux = {0.5f};
  EXPECT_NE(base, digest_of(set));
}

TEST(Digest, OfNothingIsNotOfAnEmptyTensor) {
  EXPECT_NE(digest_of({}), digest_of(one("", {0}, DType::kF32, {})));
}

TEST(Digest, IsTheNumberItWasYesterday) {
  // Committed: a change here invalidates every digest that users wrote down.
  EXPECT_EQ(digest_of(one("a", {2}, DType::kF32, {1, 2})).hex(),
            "d2ab7487dd849783125b10f5477b912f");
}

}  // namespace
}  // namespace mainspring
