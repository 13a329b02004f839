#include "mainspring/lab/coordinates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "mainspring/io/json.h"

namespace mainspring {
namespace {

/// Changes of width^a after one step and twice that after two.
CoordinateTable table_of(const std::string& name, double a, double b) {
  CoordinateTable table{name, {}};
  for (const int64_t width : {64, 128, 256}) {
    const double w = static_cast<double>(width);
    table.runs.push_back({width,
                          {{"mlp", {1.0, 1.5, 2.0}, {0.0, std::pow(w, a), 2 * std::pow(w, a)}},
                           {"logits", {0.5, 0.5, 0.5}, {0.0, std::pow(w, b), 2 * std::pow(w, b)}}},
                          {4.0, 3.0}});
  }
  return table;
}

TEST(Coordinates, GrowthIsTheExponentOfWidth) {
  const CoordinateTable table = table_of("muP", -0.5, 1.0);
  EXPECT_NEAR(change_growth(table, 0, 1), -0.5, 1e-12);
  EXPECT_NEAR(change_growth(table, 1, 2), 1.0, 1e-12);
  EXPECT_EQ(change_growth(table, 1, 0), 0.0);  // nothing has changed yet
}

TEST(Coordinates, OnlyWhatGrowsIsNamed) {
  EXPECT_TRUE(growing_series(table_of("muP", -0.5, 0.2)).empty());
  EXPECT_EQ(growing_series(table_of("standard", 0.3, 0.2)), std::vector<std::string>{"mlp"});
  CoordinateTable broken = table_of("standard", 0, 0);
  broken.runs[2].series[1].change[2] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(growing_series(broken), std::vector<std::string>{"logits"});
}

TEST(Coordinates, TextHasALinePerKindAndStep) {
  const std::string text = coordinates_text(table_of("muP", 0.0, 1.0));
  EXPECT_NE(text.find("mlp              2         2         2         2   width^0.00"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("logits           1        64       128       256   width^1.00"),
            std::string::npos)
      << text;
}

TEST(Coordinates, JsonHasEveryFigure) {
  const Json json = coordinates_json({table_of("muP", 0.0, 1.0)});
  EXPECT_EQ(json[0]["growing"], Json::array({"logits"}));
  EXPECT_EQ(json[0]["runs"][1]["series"]["mlp"]["size"], (Json{1.0, 1.5, 2.0}));
  EXPECT_NEAR(json[0]["growth"]["logits"].get<double>(), 1.0, 1e-12);
}

TEST(Coordinates, ThePageDrawsALinePerStepAndLoadsNothing) {
  const std::string page = coordinates_page(
      {table_of("muP", 0.0, 0.1), table_of("standard", 0.0, 1.0)}, "<name>", "a command");
  size_t lines = 0;
  for (size_t at = page.find("<polyline"); at != std::string::npos;
       at = page.find("<polyline", at + 1))
    ++lines;
  EXPECT_EQ(lines, 2u * 2u * 2u);  // tables, kinds, steps
  EXPECT_NE(page.find("grow with width: logits"), std::string::npos);
  EXPECT_NE(page.find("no change grows with width"), std::string::npos);
  EXPECT_EQ(page.find("<name>"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
}

}  // namespace
}  // namespace mainspring
