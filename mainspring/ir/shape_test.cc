#include "mainspring/ir/shape.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

TEST(ShapeTest, RowsAndPickedAreBoundAtRunTime) {
  const Shape by_rows{{kRows, 3}};
  const Shape by_picks{{kPicked}};
  EXPECT_EQ(by_rows.num_elements({.rows = 5, .picked = 2}), 15);
  EXPECT_EQ(by_picks.num_elements({.rows = 5, .picked = 2}), 2);
  EXPECT_EQ(by_rows.num_elements({.rows = 0, .picked = 2}), 0);
}

TEST(ShapeTest, NoDimensionsHoldOneElement) {
  EXPECT_EQ(Shape{}.num_elements({}), 1);
  EXPECT_EQ(Shape{}.to_string(), "()");
}

TEST(ShapeTest, PrintsDynamicDimensionsByName) {
  EXPECT_EQ((Shape{{kRows, 576}}).to_string(), "(rows, 576)");
  EXPECT_EQ((Shape{{kPicked}}).to_string(), "(picked)");
  EXPECT_EQ((ValueType{DType::kBF16, {{kRows, 576}}}).to_string(), "bf16(rows, 576)");
}

TEST(ShapeTest, TypesDifferByDtypeAndByEveryDimension) {
  const ValueType type{DType::kF32, {{2, 3}}};
  EXPECT_EQ(type, (ValueType{DType::kF32, {{2, 3}}}));
  EXPECT_FALSE(type == (ValueType{DType::kBF16, {{2, 3}}}));
  EXPECT_FALSE(type == (ValueType{DType::kF32, {{3, 2}}}));
}

}  // namespace
}  // namespace mainspring
