#include "mainspring/io/json.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "mainspring/io/fuzz_util.h"

namespace mainspring {
namespace {

std::string error_of(std::string_view text) {
  const auto json = parse_json(text, "f.json");
  return json.ok() ? "" : json.status().message();
}

TEST(ParseJson, KeepsTheOrderOfKeys) {
  EXPECT_EQ(json_text(parse_json(R"({"b": 1, "a": [true, null, "x", -2.5]})", "f").value()),
            R"({"b":1,"a":[true,null,"x",-2.5]})");
}

TEST(ParseJson, ErrorsHaveLineAndColumn) {
  EXPECT_EQ(error_of("{\n  \"a\": tru\n}").substr(0, 12), "f.json:2:11:");
  EXPECT_EQ(error_of("").substr(0, 7), "f.json:");
  EXPECT_EQ(error_of("{} x").substr(0, 11), "f.json:1:4:");
}

TEST(ParseJson, RefusesAKeyGivenTwice) {
  EXPECT_EQ(error_of(R"({"a": {"b": 1, "c": 2, "b": 3}})"), "f.json: key 'b' is given twice");
}

TEST(ParseJson, RefusesWhatIsNotStrict) {
  for (const char* text : {"{'a': 1}", "[1,]", "[NaN]", "// x\n1", "\"\xff\"", "[1e999]"}) {
    EXPECT_NE(error_of(text), "") << text;
  }
}

TEST(ParseJson, BoundsTheDepthOfNesting) {
  EXPECT_EQ(error_of(std::string(200, '[') + std::string(200, ']')), "");
  EXPECT_NE(error_of(std::string(300, '[') + std::string(300, ']')).find("deeper"),
            std::string::npos);
  EXPECT_NE(error_of(std::string(10'000'000, '[')), "");
}

TEST(ParseJson, AnObjectOfManyKeysTakesLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":0";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text + "}", "f").value().size(), 200'000u);
  // Quadratic would be minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(ParseJson, DamagedTextNeverCrashes) {
  const std::string text =
      R"({"a": [1, 2.5e3, {"b": "x\u00e9\n"}], "c": {"d": false, "e": null}, "f": -7})";
  int64_t parsed = 0;
  const auto parse = [&parsed](const std::string& bytes) {
    parsed += parse_json(bytes, "f").ok() ? 1 : 0;
  };
  for_each_truncation(text, parse);
  EXPECT_EQ(parsed, 0);
  for_each_damage(text, 20'000, parse);
}

TEST(JsonText, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(json_text(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

TEST(JsonFloat, PrintsShortAndReadsBackTheSame) {
  EXPECT_EQ(json_text(json_float(0.1f)), "0.1");
  EXPECT_EQ(json_text(json_float(1e-5f)), "1e-05");
  EXPECT_EQ(json_text(json_float(std::numeric_limits<float>::infinity())), "null");
  uint32_t bits = 1;
  for (int i = 0; i < 100'000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(
        static_cast<float>(parse_json(json_text(json_float(value)), "f").value().get<double>()),
        value);
  }
}

class Fields : public testing::Test {
 protected:
  Json json_ =
      parse_json(R"({"b": true, "i": 3, "f": 1.5, "s": "x", "n": null, "big": 18446744073709551615,
                              "o": {"k": "v"}, "l": [1, 2], "m": [1, "x"]})",
                 "c.json")
          .value();
  JsonObject object_ = JsonObject::from(json_, "c.json").value();
};

TEST_F(Fields, AreReadByType) {
  EXPECT_TRUE(object_.get_bool("b").value());
  EXPECT_EQ(object_.get_int("i").value(), 3);
  EXPECT_EQ(object_.get_number("i").value(), 3.0);
  EXPECT_EQ(object_.get_number("f").value(), 1.5);
  EXPECT_EQ(object_.get_string("s").value(), "x");
  EXPECT_EQ(object_.get_ints("l").value(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(object_.get_object("o").value().get_string("k").value(), "v");
}

TEST_F(Fields, OfTheWrongTypeAreRefusedWithTheirPath) {
  EXPECT_EQ(object_.get_int("f").status().message(), "c.json: f: expected an integer, got 1.5");
  EXPECT_EQ(object_.get_int("big").status().message(),
            "c.json: big: expected an integer, got 18446744073709551615");
  EXPECT_EQ(object_.get_bool("i").status().message(), "c.json: i: expected a boolean, got 3");
  EXPECT_EQ(object_.get_ints("m").status().message(),
            "c.json: m[1]: expected an integer, got a string");
  EXPECT_EQ(object_.get_object("o").value().get_int("k").status().message(),
            "c.json: o.k: expected an integer, got a string");
  EXPECT_EQ(object_.get_int("zz").status().message(),
            "c.json: zz: is missing, expected an integer");
}

TEST_F(Fields, ThatAreNullCountAsAbsent) {
  EXPECT_FALSE(object_.has("n"));
  EXPECT_EQ(object_.get_int_or("n", 7).value(), 7);
  EXPECT_FALSE(object_.get_int_or("s", 7).ok());
}

}  // namespace
}  // namespace mainspring
