#include "mainspring/env/rewards/schema_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mainspring {
namespace {

using testing::HasSubstr;

SchemaValidator must_compile(const std::string& text) {
  auto schema = SchemaValidator::compile(parse_json(text, "schema").value());
  MS_CHECK(schema.ok(), schema.status().message());
  return std::move(schema).value();
}

std::string refusal(const std::string& text) {
  return SchemaValidator::compile(parse_json(text, "schema").value()).status().message();
}

struct Case {
  const char* schema;
  std::vector<const char*> good;
  std::vector<const char*> bad;
};

TEST(SchemaValidator, KeywordsHoldAsTheStandardSays) {
  const Case cases[] = {
      {"{}", {"1", "null", "{}"}, {"", "x", "{\"a\":1,\"a\":2}"}},
      {"false", {}, {"1"}},
      {R"({"type":"integer"})", {"1", "-2", "1.0"}, {"1.5", "\"1\"", "true"}},
      {R"({"type":["null","string"]})", {"null", "\"a\""}, {"1"}},
      {R"({"enum":[1,"a",[2]]})", {"1", "1.0", "\"a\"", "[2]"}, {"2", "[1]"}},
      {R"({"const":{"a":1,"b":2}})", {R"({"a":1,"b":2})"}, {R"({"a":1})"}},
      {R"({"minimum":1,"exclusiveMaximum":3})", {"1", "2.9", "\"x\""}, {"0.9", "3"}},
      {R"({"maximum":3,"exclusiveMinimum":1})", {"3"}, {"1", "3.1"}},
      {R"({"multipleOf":0.1})", {"0.3", "7"}, {"0.35"}},
      {R"({"minLength":2,"maxLength":3})", {"\"ab\"", "\"äöü\"", "5"}, {"\"a\"", "\"abcd\""}},
      {R"({"pattern":"^a+$"})", {"\"aa\"", "1"}, {"\"ab\""}},
      {R"({"items":{"type":"number"},"minItems":1,"maxItems":2})",
       {"[1]", "[1,2.5]", "{}"},
       {"[]", "[1,2,3]", "[\"a\"]"}},
      {R"({"prefixItems":[{"const":1}],"items":{"const":2}})",
       {"[]", "[1]", "[1,2,2]"},
       {"[2]", "[1,1]"}},
      {R"({"uniqueItems":true})", {"[1,2]", "[]"}, {"[1,2,1]", "[1,1.0]"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],
           "additionalProperties":false})",
       {R"({"a":1})", "{ \"a\" : 1 }"},
       {"{}", R"({"a":"1"})", R"({"a":1,"b":2})"}},
      {R"({"additionalProperties":{"type":"string"},"minProperties":1,"maxProperties":2})",
       {R"({"x":"y"})"},
       {"{}", R"({"x":1})", R"({"a":"","b":"","c":""})"}},
      {R"({"anyOf":[{"type":"string"},{"minimum":5}]})", {"\"a\"", "5"}, {"4"}},
      {R"({"oneOf":[{"multipleOf":2},{"multipleOf":3}]})", {"2", "3"}, {"6", "7"}},
      {R"({"allOf":[{"minimum":1},{"maximum":2}]})", {"1.5"}, {"0", "3"}},
      {R"({"not":{"type":"null"}})", {"1"}, {"null"}},
      {R"({"$defs":{"n":{"anyOf":[{"type":"null"},{"items":{"$ref":"#/$defs/n"},"type":"array"}]}},
           "$ref":"#/$defs/n"})",
       {"null", "[[],[null]]"},
       {"[1]"}},
  };
  for (const Case& each : cases) {
    const SchemaValidator schema = must_compile(each.schema);
    for (const char* text : each.good)
      EXPECT_TRUE(schema.fulfils_text(text)) << each.schema << text;
    for (const char* text : each.bad)
      EXPECT_FALSE(schema.fulfils_text(text)) << each.schema << text;
  }
}

TEST(SchemaValidator, RefusesWhatItDoesNotKeep) {
  EXPECT_THAT(refusal(R"({"properties":{"a":{"typ":"string"}}})"),
              HasSubstr("#/properties/a/typ: unknown keyword; the nearest is \"type\""));
  EXPECT_THAT(refusal(R"({"type":"int"})"), HasSubstr("unknown type \"int\""));
  EXPECT_THAT(refusal(R"({"minItems":-1})"), HasSubstr("expected a count"));
  EXPECT_THAT(refusal(R"({"multipleOf":0})"), HasSubstr("a number above 0"));
  EXPECT_THAT(refusal(R"({"pattern":"("})"), HasSubstr("#/pattern"));
  EXPECT_THAT(refusal(R"({"$ref":"#/$defs/a"})"), HasSubstr("names no part of the schema"));
  EXPECT_THAT(refusal(R"({"$ref":"http://example.org"})"), HasSubstr("names no part"));
  EXPECT_THAT(refusal(R"({"anyOf":[]})"), HasSubstr("expected a list of schemas"));
  EXPECT_THAT(refusal(R"([1])"), HasSubstr("expected a schema, got an array"));
}

TEST(SchemaValidator, ASchemaThatTurnsInCirclesEnds) {
  EXPECT_FALSE(must_compile(R"({"$ref":"#"})").fulfils_text("1"));
  EXPECT_FALSE(
      must_compile(R"({"anyOf":[{"$ref":"#"},{"$ref":"#"},{"$ref":"#"}]})").fulfils_text("1"));
}

TEST(TextPattern, IsLinearAndSaysWhatIsWrong) {
  const TextPattern pattern = TextPattern::compile("(a*)*b").value();
  EXPECT_TRUE(pattern.matches("aaab"));
  EXPECT_FALSE(pattern.matches("aab "));
  EXPECT_TRUE(pattern.occurs_in("xxaab "));
  EXPECT_FALSE(pattern.occurs_in(std::string(1000000, 'a')));  // exponential by backtracking
  EXPECT_THAT(TextPattern::compile("(?=a)").status().message(), HasSubstr("invalid perl operator"));
}

}  // namespace
}  // namespace mainspring
