#include "mainspring/engine/validate.h"

#include <gtest/gtest.h>

#include <limits>

namespace mainspring {
namespace {

const LossInfo& loss() { return *find_loss("cross_entropy").value(); }

Datum good() {
  Datum datum;
  datum.tokens = {1, 2, 3};
  datum.targets = {2, 3, 4};
  datum.weights = {0, 1, 1};
  return datum;
}

std::string error_of(const Datum& datum) {
  return validate_datum(datum, 3, 10, 8, loss()).message();
}

TEST(Validate, AGoodDatumPasses) { EXPECT_EQ(error_of(good()), ""); }

TEST(Validate, NamesTheDatumAndTheField) {
  Datum datum = good();
  datum.targets[1] = 10;
  EXPECT_EQ(error_of(datum), "datum 3: targets[1]: expected 0 <= id < 10, got 10");
  datum = good();
  datum.tokens[2] = -1;
  EXPECT_EQ(error_of(datum), "datum 3: tokens[2]: expected 0 <= id < 10, got -1");
  datum = good();
  datum.weights.pop_back();
  EXPECT_EQ(error_of(datum), "datum 3: weights: expected 3 values, one per token, got 2");
  datum = good();
  datum.weights[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error_of(datum), "datum 3: weights[0]: expected a finite number");
  datum = good();
  datum.tokens.assign(9, 1);
  EXPECT_EQ(error_of(datum), "datum 3: tokens: expected at most 8, got 9");
  EXPECT_EQ(error_of(Datum{}), "datum 3: tokens: expected at least one");
}

TEST(Validate, AdamwSettingsAreBounded) {
  EXPECT_TRUE(validate_adamw({}).ok());
  EXPECT_FALSE(validate_adamw({.lr = -1.0f}).ok());
  EXPECT_FALSE(validate_adamw({.beta2 = 1.0f}).ok());
  EXPECT_FALSE(validate_adamw({.normaliser = 0.0}).ok());
  EXPECT_FALSE(validate_adamw({.lr = std::numeric_limits<float>::quiet_NaN()}).ok());
}

TEST(Validate, AnUnknownLossNamesTheNearest) {
  EXPECT_NE(find_loss("cross_entrop").status().message().find("\"cross_entropy\""),
            std::string::npos);
}

}  // namespace
}  // namespace mainspring
