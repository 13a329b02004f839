#include "mainspring/sample/number_range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "mainspring/io/json.h"

namespace mainspring {
namespace {

Decimal decimal(const std::string& text) { return decimal_of(parse_json(text, "test").value()); }

NumberRange range(const std::string& least, const std::string& most, bool is_integer = true) {
  NumberRange out;
  out.is_integer = is_integer;
  if (!least.empty()) out.least = decimal(least);
  if (!most.empty()) out.most = decimal(most);
  return out;
}

/// Edges of a state may overlap, so all ways are followed.
bool accepts(const CharAutomaton& automaton, const std::string& text) {
  std::set<int32_t> at = {0};
  for (const char c : text) {
    std::set<int32_t> next;
    for (const int32_t state : at) {
      for (const auto& edge : automaton.states[static_cast<size_t>(state)].edges) {
        if (edge.set.has(c)) next.insert(edge.target);
      }
    }
    at = next;
  }
  return std::any_of(at.begin(), at.end(), [&](int32_t state) {
    return automaton.states[static_cast<size_t>(state)].is_end;
  });
}

TEST(Decimal, OrderIsThatOfTheNumbers) {
  const std::vector<std::string> ordered = {"-1e30", "-12.5", "-12", "-0.1",  "-1e-20", "0", "1e-7",
                                            "0.1",   "0.11",  "0.2", "0.999", "1",      "9", "10"};
  for (size_t i = 0; i < ordered.size(); ++i) {
    for (size_t j = 0; j < ordered.size(); ++j) {
      EXPECT_EQ(compare(decimal(ordered[i]), decimal(ordered[j])), i < j   ? -1
                                                                   : i > j ? 1
                                                                           : 0)
          << ordered[i] << " " << ordered[j];
    }
  }
  EXPECT_EQ(compare(decimal("1.50"), decimal("15e-1")), 0);
  EXPECT_EQ(compare(decimal("-0.0"), decimal("0")), 0);
  EXPECT_TRUE(decimal("1200").is_integer());
  EXPECT_TRUE(decimal("1.2e3").is_integer());
  EXPECT_FALSE(decimal("1.2").is_integer());
}

/// The texts of integer ranges, against a loop over the integers about them.
TEST(NumberRange, IntegersAreThoseOfALoop) {
  const std::vector<std::pair<std::string, std::string>> bounds = {
      {"0", "0"},     {"-3", "12"},  {"7", "7"},   {"95", "1203"},
      {"-120", "-7"}, {"-1", "100"}, {"10", "99"}, {"-2.5", "3.5"}};
  for (const auto& [least, most] : bounds) {
    for (const int64_t multiple : {1, 3, 7, 10, 50}) {
      for (const bool is_open : {false, true}) {
        NumberRange r = range(least, most);
        r.multiple = multiple;
        r.excludes_least = r.excludes_most = is_open;
        const auto texts = texts_of(r);
        ASSERT_TRUE(texts.has_value());
        const double low = std::stod(least);
        const double high = std::stod(most);
        int64_t count = 0;
        for (int64_t i = -1500; i <= 1500; ++i) {
          const auto x = static_cast<double>(i);
          const bool is_in =
              (is_open ? x > low && x < high : x >= low && x <= high) && i % multiple == 0;
          count += is_in ? 1 : 0;
          EXPECT_EQ(accepts(*texts, std::to_string(i)), is_in)
              << i << " in " << least << " to " << most << " of " << multiple;
          EXPECT_EQ(r.contains(decimal(std::to_string(i))), is_in);
        }
        EXPECT_EQ(texts->is_empty(), count == 0);
        EXPECT_EQ(r.is_provably_empty(), count == 0);
        for (const char* bad : {"", "-", "-0", "00", "+1", "01", "1.0", "1e1", "1.", "12x"})
          EXPECT_FALSE(accepts(*texts, bad)) << bad;
      }
    }
  }
}

TEST(NumberRange, OpenIntegersHaveUpTo15Digits) {
  const auto positive = texts_of(range("1", ""));
  EXPECT_TRUE(accepts(*positive, "999999999999999"));
  EXPECT_FALSE(accepts(*positive, "1000000000000000"));
  EXPECT_FALSE(accepts(*positive, "0"));
  EXPECT_FALSE(accepts(*positive, "-1"));
  NumberRange huge = range("", "");
  huge.multiple = 1'000'000'007;  // as many remainders as no automaton can hold
  EXPECT_FALSE(texts_of(huge).has_value());
  huge.multiple = 1'000'000'000;  // zeros at the end
  EXPECT_TRUE(accepts(*texts_of(huge), "-123000000000"));
  EXPECT_FALSE(accepts(*texts_of(huge), "-123000000001"));
}

TEST(NumberRange, FractionsAreComparedDigitByDigit) {
  const auto texts = texts_of(range("-0.25", "12.5", false));
  for (const char* good : {"0", "-0.25", "-0.2", "-0.249999", "12.5", "12.50", "12.4999999", "3",
                           "0.00000000000001", "9.99", "10", "0.0"})
    EXPECT_TRUE(accepts(*texts, good)) << good;
  for (const char* bad : {"-0.26", "-0.250001", "12.500001", "12.6", "13", "-1", "-0", "-0.0",
                          "0.000000000000001", "1e1", ".5", "3."})
    EXPECT_FALSE(accepts(*texts, bad)) << bad;
  NumberRange open = range("0", "1", false);
  open.excludes_least = open.excludes_most = true;
  const auto inside = texts_of(open);
  for (const char* good : {"0.1", "0.99999999999999", "0.00000000000001", "0.50"})
    EXPECT_TRUE(accepts(*inside, good)) << good;
  for (const char* bad : {"0", "1", "0.0", "1.0", "0.00000000000000", "1.00000000000001"})
    EXPECT_FALSE(accepts(*inside, bad)) << bad;
}

TEST(NumberRange, IntersectionsTakeTheTighterBoundAndTheCommonMultiple) {
  NumberRange a = range("1", "20", false);
  a.excludes_least = true;
  NumberRange b = range("1", "9");
  b.multiple = 4;
  a.multiple = 6;
  const NumberRange both = intersect(a, b).value();
  EXPECT_TRUE(both.is_integer);
  EXPECT_TRUE(both.excludes_least);
  EXPECT_EQ(both.multiple, 12);
  EXPECT_EQ(compare(*both.most, decimal("9")), 0);
  EXPECT_TRUE(both.is_provably_empty());
  a.multiple = 999999999999999;
  b.multiple = 999999999999998;
  EXPECT_FALSE(intersect(a, b).has_value());
}

TEST(NumberRange, MultiplesOfFractionsAmongIntegers) {
  EXPECT_EQ(integer_multiple_of(decimal("3")), 3);
  EXPECT_EQ(integer_multiple_of(decimal("2.5")), 5);
  EXPECT_EQ(integer_multiple_of(decimal("0.5")), 1);
  EXPECT_EQ(integer_multiple_of(decimal("0.75")), 3);
  EXPECT_EQ(integer_multiple_of(decimal("1e3")), 1000);
  EXPECT_EQ(integer_multiple_of(decimal("1e15")), std::nullopt);
}

// No f64 that such a text reads as is on the other side of a bound than the decimal.
TEST(NumberRange, TextsAreOnTheSameSideAsF64) {
  for (const char* bound : {"0.1", "0.30000000000000004", "1e-5", "123.456", "0.3"}) {
    NumberRange open = range("", bound, false);
    open.excludes_most = true;
    const auto texts = texts_of(open);
    const double limit = std::stod(bound);
    for (int64_t i = 0; i < 4000; ++i) {
      const auto digits = static_cast<int64_t>(limit * 1e14) - 2000 + i;
      if (digits < 0 || digits >= 100'000'000'000'000) continue;
      std::string text = std::to_string(digits);
      text = "0." + std::string(14 - text.size(), '0') + text;
      if (!accepts(*texts, text)) continue;
      EXPECT_LT(std::stod(text), limit) << text;
    }
  }
}

}  // namespace
}  // namespace mainspring
