#include "mainspring/sample/json_schema.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "mainspring/base/philox.h"
#include "mainspring/io/json.h"
#include "mainspring/sample/sampler_test_util.h"

namespace mainspring {
namespace {

std::unique_ptr<ByteAutomaton> compiled(const std::string& schema) {
  auto automaton = compile_json_schema(schema);
  EXPECT_TRUE(automaton.ok()) << automaton.status().to_string();
  return std::move(automaton).value();
}

bool accepts(ByteAutomaton& automaton, std::string_view text) {
  const auto state = automaton.next(automaton.start(), text);
  return state != ByteAutomaton::kDead && automaton.is_end(state);
}

void expect_texts(const std::string& schema, const std::vector<std::string>& good,
                  const std::vector<std::string>& bad) {
  const auto automaton = compiled(schema);
  for (const std::string& text : good) EXPECT_TRUE(accepts(*automaton, text)) << schema << text;
  for (const std::string& text : bad) EXPECT_FALSE(accepts(*automaton, text)) << schema << text;
}

std::string refusal(const std::string& schema) {
  const auto automaton = compile_json_schema(schema);
  EXPECT_EQ(automaton.status().code(), StatusCode::kInvalidArgument) << schema;
  return automaton.status().message();
}

TEST(JsonSchema, Numbers) {
  expect_texts(R"({"type":"integer"})", {"0", "-7", "123456789012345"},
               {"", "1234567890123456", "01", "1.0", "-", "+1", "1 "});
  expect_texts(R"({"type":"number"})", {"0", "-0.5", "1e9", "12.25E-3"},
               {".5", "1.", "1e", "0x1", "1e100"});
}

TEST(JsonSchema, StringsAreUtf8WithEscapes) {
  expect_texts(
      R"({"type":"string"})",
      {"\"\"", "\"a b\"", "\"\\n\\\"\\u00e9\"", "\"\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80\""},
      {"\"", "a", "\"\n\"", "\"\\x\"", "\"\xc3\"", "\"\xff\"", "\"\\ud800\"", "\"\xed\xa0\x80\""});
  expect_texts(R"({"type":"string","minLength":2,"maxLength":3})", {"\"ab\"", "\"\xc3\xa9\\n1\""},
               {"\"a\"", "\"abcd\""});
}

TEST(JsonSchema, ArraysCountTheirItems) {
  expect_texts(R"({"type":"array","items":{"type":"integer"}})", {"[]", "[1]", "[1,2, 3]"},
               {"[1,]", "[,1]", "[ 1]", "[1,  2]", "[\"a\"]"});
  expect_texts(R"({"type":"array","items":{"type":"null"},"minItems":2,"maxItems":3})",
               {"[null,null]", "[null,null,null]"}, {"[]", "[null]", "[null,null,null,null]"});
  expect_texts(R"({"items":true,"maxItems":1})", {"[]", "[{\"a\":[1]}]"}, {"[1,2]"});
}

TEST(JsonSchema, ObjectsHaveTheirPropertiesInOrder) {
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"},)"
      R"("c":{"type":"null"}},"required":["b"],"additionalProperties":false})";
  expect_texts(schema,
               {R"({"b":true})", R"({"a":1,"b":false})", R"({"b": true, "c": null})",
                R"({"a":1,"b":false,"c":null})"},
               {"{}", R"({"a":1})", R"({"b":true,"a":1})", R"({"b":true,})", R"({"b":true,"d":1})",
                R"({"b":1})", R"({,"b":true})"});
  expect_texts(R"({"properties":{"x":true,"y":true}})",
               {"{}", R"({"x":1})", R"({"y":[1]})", R"({"x":"","y":{}})"}, {R"({"y":1,"x":1})"});
}

TEST(JsonSchema, ChoicesOfValuesTypesAndSchemas) {
  expect_texts(R"({"enum":["red",1,null,{"a":[1]}]})", {"\"red\"", "1", "null", R"({"a":[1]})"},
               {"\"re\"", "\"red", "2", "\"redd\""});
  expect_texts(R"({"const":"x"})", {"\"x\""}, {"\"y\"", "x"});
  expect_texts(R"({"type":["string","null"]})", {"\"a\"", "null"}, {"1"});
  expect_texts(R"({"anyOf":[{"type":"integer"},{"type":"array","items":{"type":"integer"}}]})",
               {"1", "[1]"}, {"\"1\"", "[[1]]"});
}

TEST(JsonSchema, ReferencesMayBeRecursive) {
  const std::string schema =
      R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{)"
      R"("value":{"type":"integer"},"next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/tree"}]}},)"
      R"("required":["value","next"]}}})";
  expect_texts(schema,
               {R"({"value":1,"next":null})", R"({"value":1,"next":{"value":2,"next":null}})"},
               {R"({"value":1})", R"({"value":1,"next":1})"});
}

/// Goes on with every byte there is, deepest first, until nothing may follow.
std::string nested_as_deep_as_it_goes(ByteAutomaton& automaton, std::string_view unit) {
  auto state = automaton.start();
  std::string text;
  const auto take = [&](std::string_view bytes) {
    const auto next = automaton.next(state, bytes);
    if (next == ByteAutomaton::kDead) return false;
    state = next;
    text += bytes;
    return true;
  };
  while (take(unit)) continue;
  while (automaton.can_go_on(state)) {
    if (!take("null") && !take("]") && !take("}")) break;
  }
  EXPECT_TRUE(automaton.is_end(state)) << text;
  return text;
}

TEST(JsonSchema, AtTheNestingLimitOnlyWhatCanEndIsLetThrough) {
  const auto list = compiled(
      R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"next":{"anyOf":[)"
      R"({"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["next"],"additionalProperties":false}}})");
  const std::string deep = nested_as_deep_as_it_goes(*list, R"({"next":)");
  EXPECT_TRUE(parse_json(deep, "text").ok()) << deep;
  EXPECT_GT(std::count(deep.begin(), deep.end(), '{'), 20);
  const auto anything = compiled("true");
  for (const char* unit : {"[", R"({"":)", R"([{"a": )"}) {
    const std::string text = nested_as_deep_as_it_goes(*anything, unit);
    EXPECT_TRUE(parse_json(text, "text").ok()) << text;
    EXPECT_GT(text.size(), 40u);
  }
}

TEST(JsonSchema, SchemasOfNoFiniteValueAreRefused) {
  for (const char* schema :
       {R"({"$ref":"#"})", R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})",
        R"({"type":"array","items":{"$ref":"#"},"minItems":1})",
        R"({"anyOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{"$ref":"#"}}})"}) {
    EXPECT_NE(refusal(schema).find("no finite value"), std::string::npos) << schema;
  }
  // What may be left out does not matter.
  expect_texts(R"({"properties":{"a":{"$ref":"#/$defs/x"},"b":{"type":"null"}},)"
               R"("$defs":{"x":{"$ref":"#/$defs/x"}}})",
               {"{}", R"({"b":null})"}, {R"({"a":null})"});
  std::string deep = "true";
  for (int i = 0; i < 60; ++i) deep = R"({"type":"array","minItems":1,"items":)" + deep + "}";
  EXPECT_NE(refusal(deep).find("at most 48"), std::string::npos);
}

TEST(JsonSchema, ListedValuesAreThoseOfTheType) {
  expect_texts(R"({"type":"string","enum":[1,"a",null,"b"]})", {"\"a\"", "\"b\""}, {"1", "null"});
  expect_texts(R"({"type":["integer","null"],"enum":[1,1.5,2.0,null,"a"]})", {"1", "2.0", "null"},
               {"1.5", "\"a\""});
  expect_texts(R"({"const":null,"title":"t"})", {"null"}, {"1", "true"});
  EXPECT_NE(refusal(R"({"type":"string","enum":[1]})").find("#.enum: has no value of"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"type":"string","const":1})").find("#.const: is not of"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"type":"strin","const":1})").find("nearest is \"string\""),
            std::string::npos);
}

TEST(JsonSchema, KeywordsBesideEachOtherAllHold) {
  expect_texts(R"({"enum":["a","bb",["cc"]],"minLength":2})", {"\"bb\"", R"(["cc"])"}, {"\"a\""});
  expect_texts(R"({"enum":[{},{"a":1}],"additionalProperties":false})", {"{}"}, {R"({"a":1})"});
  expect_texts(R"({"anyOf":[{"type":"string"},{"type":"null"}],"type":["string","integer"]})",
               {"\"\"", "\"x\""}, {"null", "1"});
  expect_texts(R"({"$ref":"#/$defs/n","maximum":3,"$defs":{"n":{"type":"integer","minimum":2}}})",
               {"2", "3"}, {"1", "4", "2.5"});
  expect_texts(R"({"type":"array","items":{"anyOf":[true],"required":["a"]}})",
               {"[]", R"([{"a":1}])"}, {"[{}]", "[1]"});
  expect_texts(R"({"$ref":"#/$defs/n","title":"t","description":"d","default":null,"examples":[1],)"
               R"("$schema":"s","$id":"i","$comment":"c","$defs":{"n":{"type":"null"}}})",
               {"null"}, {"1"});
  for (const char* schema :
       {R"({"const":1,"enum":[2]})", R"({"allOf":[{"type":"string"},{"type":"null"}]})",
        R"({"allOf":[{"minimum":3},{"maximum":2}],"type":"number"})"}) {
    EXPECT_NE(refusal(schema).find("no finite value"), std::string::npos) << schema;
  }
  for (const char* schema : {R"({"type":[]})", R"({"anyOf":null})", R"({"type":null})",
                             R"({"allOf":[]})", R"({"required":"a"})", R"({"items":[true]})"}) {
    EXPECT_FALSE(refusal(schema).empty()) << schema;
  }
}

TEST(JsonSchema, AllOfIsMerged) {
  expect_texts(
      R"({"allOf":[{"properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]},)"
      R"({"properties":{"a":{"minimum":5},"c":true},"additionalProperties":false}]})",
      {R"({"a":5})", R"({"a":17,"c":[]})"},
      {"{}", R"({"a":4})", R"({"a":5,"b":""})", R"({"a":"x"})", R"({"a":5,"d":1})"});
  expect_texts(R"({"allOf":[{"type":"string","minLength":2},{"pattern":"^a"},{"maxLength":3}]})",
               {"\"ab\"", "\"abc\""}, {"\"a\"", "\"abcd\"", "\"ba\"", "1"});
  expect_texts(R"({"allOf":[{"multipleOf":4},{"multipleOf":6},{"type":"integer"}]})",
               {"0", "12", "-24"}, {"4", "6", "18"});
  expect_texts(R"({"allOf":[{"items":{"type":"integer"}},{"items":{"minimum":1},"maxItems":2}]})",
               {"[]", "[1,2]"}, {"[0]", "[1,1,1]", "[1.5]"});
}

TEST(JsonSchema, OneOfIsAnyOfWhereBranchesAreApart) {
  expect_texts(R"({"oneOf":[{"type":"integer","maximum":3},{"type":"integer","minimum":10},)"
               R"({"type":"string","pattern":"^a"},{"type":"string","pattern":"^b"},)"
               R"({"const":null}]})",
               {"3", "-8", "10", "\"a\"", "\"bc\"", "null"}, {"4", "9", "\"c\"", "true"});
  // Objects that a required constant tells apart, one of them recursive.
  expect_texts(
      R"({"$ref":"#/$defs/e","$defs":{"e":{"type":"object","oneOf":[)"
      R"({"properties":{"op":{"const":"neg"},"of":{"$ref":"#/$defs/e"}},"required":["op","of"]},)"
      R"({"properties":{"op":{"const":"num"},"value":{"type":"integer"}},)"
      R"("required":["op","value"]}]}}})",
      {R"({"op":"num","value":3})", R"({"op":"neg","of":{"op":"num","value":3}})"},
      {R"({"op":"neg","value":3})", R"({"op":"sum"})"});
  for (const char* schema :
       {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})",
        R"({"oneOf":[{"type":"string","maxLength":3},{"type":"string","pattern":"a"}]})",
        R"({"oneOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":true,"b":true}})",
        R"({"oneOf":[{"minLength":2},{"type":"null"}]})"}) {
    EXPECT_NE(refusal(schema).find("json_schema: #.oneOf: a value might fulfil both [0] and [1]"),
              std::string::npos)
        << refusal(schema);
  }
  EXPECT_NE(refusal(R"({"properties":{"a":{"oneOf":[{"minimum":1},{"type":"integer"}]}}})")
                .find("#.properties.a.oneOf"),
            std::string::npos);
  // What two branches say nothing about fulfils both.
  expect_texts(R"({"oneOf":[{"properties":{"k":{"const":1}},"required":["k"]},)"
               R"({"properties":{"k":{"const":2}},"required":["k"]},{"enum":[null,"a"]},)"
               R"({"type":"array"}]})",
               {R"({"k":1})", R"({"k":2})"}, {"null", "\"a\"", "1", "{}", "[1]"});
  EXPECT_NE(refusal(R"({"oneOf":[true,true]})").find("no finite value"), std::string::npos);
}

TEST(JsonSchema, PatternsAreSearchedForInWhatAStringMeans) {
  expect_texts(R"({"type":"string","pattern":"^[\"\\\\\\n\u00e9/]{1,2}$"})",
               {R"("\"\\")", R"("\n/")", "\"\xc3\xa9\""},
               {"\"\"", "\"a\"", R"("\u00e9")", R"("\t")", "\"\\n\\n\\n\""});
  expect_texts(R"({"pattern":"b","minLength":2,"maxLength":3})", {"\"ab\"", "\"b\\n\"", "\"aab\""},
               {"\"b\"", "\"aa\"", "\"aaab\""});
  expect_texts(R"({"pattern":"^\u0001$"})", {R"("\u0001")"}, {"\"\x01\""});
  EXPECT_NE(refusal(R"x({"properties":{"a":{"pattern":"a(?=b)"}}})x")
                .find("json_schema: #.properties.a.pattern: at position 1: look-ahead"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"pattern":"[^\\s\\S]"})").find("#.pattern: no text has it"),
            std::string::npos);
}

TEST(JsonSchema, NumbersOfMoreDigitsThanAreKeptAreRefusedByName) {
  EXPECT_NE(refusal(R"({"const":12345678901234567890123})").find("#.const: has a number beyond"),
            std::string::npos);
  EXPECT_NE(
      refusal(R"({"enum":[1,{"a":[-12345678901234567890123]}]})").find("#.enum: has a number"),
      std::string::npos);
  EXPECT_TRUE(compile_json_schema(R"({"const":18446744073709551615})").ok());
  EXPECT_NE(
      refusal(R"({"type":"integer","minimum":1700000000000000000})").find("#.minimum: numbers"),
      std::string::npos);
  EXPECT_NE(refusal(R"({"type":"number","exclusiveMaximum":-1e300})").find("#.exclusiveMaximum: n"),
            std::string::npos);
  EXPECT_TRUE(compile_json_schema(R"({"type":"integer","minimum":1,"maximum":1e300})").ok());
}

TEST(JsonSchema, FormatsAreKeptOrRefused) {
  expect_texts(R"({"format":"date"})", {"\"2024-02-29\"", "\"1999-12-31\"", "\"2000-02-29\""},
               {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-13-01\"", "\"2024-04-31\"", "\"\""});
  expect_texts(R"({"format":"date-time"})",
               {"\"2024-02-29T23:59:59Z\"", "\"2024-01-01T00:00:00.5+05:30\""},
               {"\"2024-02-30T00:00:00Z\"", "\"2024-01-01T24:00:00Z\"", "\"2024-01-01T00:00:00\""});
  expect_texts(R"({"format":"uuid"})", {"\"123e4567-e89b-12d3-a456-426614174000\""},
               {"\"123e4567e89b12d3a456426614174000\""});
  expect_texts(R"({"format":"ipv4"})", {"\"0.0.0.0\"", "\"255.10.99.100\""},
               {"\"256.0.0.0\"", "\"1.2.3\"", "\"01.2.3.4\""});
  expect_texts(R"({"format":"email"})", {"\"a.b+c@x-y.org\""}, {"\"a\"", "\"a@b\"", "\"a@-b.c\""});
  EXPECT_NE(refusal(R"({"format":"dat-time"})").find("nearest is \"date-time\""),
            std::string::npos);
}

TEST(JsonSchema, FurtherPropertiesHaveOtherNames) {
  expect_texts(R"({"type":"object","additionalProperties":{"type":"integer"}})",
               {"{}", R"({"a":1})", R"({"x y": 1, "z":2})"}, {R"({"a":""})", R"({"a":1,})"});
  expect_texts(R"({"properties":{"a":{"type":"string"}},"additionalProperties":{"type":"integer"},)"
               R"("required":["a","b"]})",
               {R"({"a":"","b":1})", R"({"a":"","b":1,"c":2,"aa":3})"},
               {R"({"a":""})", R"({"a":"","b":""})", R"({"a":"","b":1,"a":1})",
                R"({"a":"","b":1,"b":2})", R"({"a":"","b":1,"\u0061":1})"});
  expect_texts(R"({"type":"object"})", {"{}", R"({"x":[1]})"}, {"[]", "{"});
  expect_texts(R"({"required":["a"]})", {R"({"a":1})", R"({"a":1,"b":2})"}, {"{}", R"({"b":1})"});
  expect_texts(R"({"additionalProperties":false})", {"{}"}, {R"({"a":1})"});
  // A property that can be nothing is left out; one that must be there makes the rest impossible.
  expect_texts(R"({"properties":{"a":false,"b":true}})", {"{}", R"({"b":1})"}, {R"({"a":1})"});
  EXPECT_NE(refusal(R"({"properties":{"a":false},"required":["a"]})").find("no finite value"),
            std::string::npos);
}

TEST(JsonSchema, ItemsByPlaceAndUniqueItems) {
  expect_texts(R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"null"}})",
               {"[]", "[1]", "[1,\"\"]", "[1,\"\",null,null]"}, {"[\"\"]", "[1,2]", "[1,\"\",1]"});
  expect_texts(R"({"prefixItems":[{"type":"integer"},true],"items":false,"minItems":1})",
               {"[1]", "[1,[]]"}, {"[]", "[1,1,1]"});
  expect_texts(R"({"items":{"enum":["a","b",1,1.0]},"uniqueItems":true,"minItems":2})",
               {R"(["a","b"])", R"([1,"a"])", R"(["b",1,"a"])"},
               {R"(["a"])", R"(["a","a"])", R"(["a","b","a"])", R"([1,1.0])"});
  expect_texts(R"({"items":{"type":["boolean","null"]},"uniqueItems":true,"maxItems":2})",
               {"[]", "[true,null]"}, {"[true,true]", "[true,false,null]"});
  expect_texts(R"({"uniqueItems":true,"maxItems":1})", {"[]", "[7]"}, {"[7,8]"});
  EXPECT_NE(refusal(R"({"items":{"type":"integer"},"uniqueItems":true})")
                .find("#.uniqueItems: is supported where items are of at most 10"),
            std::string::npos);
}

TEST(JsonSchema, NumbersWithinBounds) {
  expect_texts(R"({"type":"integer","minimum":3,"exclusiveMaximum":12,"multipleOf":2})",
               {"4", "6", "10"}, {"2", "3", "12", "4.0", "04"});
  expect_texts(R"({"type":"number","exclusiveMinimum":0,"maximum":1})",
               {"1", "0.5", "1.0", "0.000001"}, {"0", "0.0", "1.01", "-1", "1e-3"});
  expect_texts(R"({"type":"number","multipleOf":2})", {"4", "-10"}, {"3", "4.5"});
  expect_texts(R"({"type":"integer","multipleOf":2.5})", {"0", "5", "-10"}, {"1", "2"});
  EXPECT_NE(refusal(R"({"type":"number","multipleOf":0.01})").find("#.multipleOf: a fraction has"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"type":"integer","multipleOf":0})").find("#.multipleOf: expected a num"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"minimum":3,"maximum":2})").find("#.maximum: no number is between"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"type":"integer","multipleOf":1000003})").find("narrow minimum and max"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"minimum":1,"exclusiveMinimum":true})").find("#.exclusiveMinimum: expect"),
            std::string::npos);
}

TEST(JsonSchema, WhatWouldNotBeKeptIsRefusedByName) {
  for (const char* key :
       {"not", "if", "contains", "patternProperties", "propertyNames", "minProperties",
        "dependentRequired", "unevaluatedProperties", "$anchor"}) {
    const std::string schema =
        R"({"type":"object","properties":{},")" + std::string(key) + "\":{}}";
    EXPECT_NE(refusal(schema).find("json_schema: #." + std::string(key) + ": is not supported"),
              std::string::npos)
        << refusal(schema);
  }
  EXPECT_NE(refusal(R"({"minimun":3})").find("nearest is \"minimum\""), std::string::npos);
  EXPECT_NE(refusal(R"({"oneof":[true]})").find("nearest is \"oneOf\""), std::string::npos);
  EXPECT_NE(refusal(R"({"type":"strin"})").find("nearest is \"string\""), std::string::npos);
  EXPECT_NE(refusal(R"({"properties":{"a":{}},"required":["b"]})").find("\"b\" is not among"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"$ref":"#/$defs/x"})").find("is not there"), std::string::npos);
  EXPECT_NE(refusal(R"({"enum":[]})").find("at least one value"), std::string::npos);
  EXPECT_NE(refusal(R"({"minItems":3,"maxItems":2})").find("maxItems"), std::string::npos);
  EXPECT_NE(refusal("{").find("json_schema"), std::string::npos);
  std::string product = R"({"allOf":[)";
  for (int i = 0; i < 3; ++i) {
    product += std::string(i == 0 ? "" : ",") + R"({"anyOf":[)";
    for (int j = 0; j < 8; ++j) {
      product += (j == 0 ? "" : ",") + std::string(R"({"minLength":)") + std::to_string(j) + "}";
    }
    product += "]}";
  }
  EXPECT_NE(refusal(product + "]}").find("more than 256 alternatives"), std::string::npos);
}

// Random walks through the automaton: whatever it lets through to the end is JSON.
TEST(JsonSchema, EveryTextItGivesIsJson) {
  const auto automaton = compiled(
      R"({"properties":{"s":{"type":"string","maxLength":4},"n":{"type":"number"},)"
      R"("l":{"type":"array","items":{"enum":[1,"a"]},"maxItems":3},"any":true},"required":["n"]})");
  int finished = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    auto state = automaton->start();
    std::string text;
    for (uint32_t step = 0; step < 2000 && automaton->can_go_on(state); ++step) {
      std::vector<uint8_t> bytes;
      for (int b = 0; b < 256; ++b) {
        if (automaton->next(state, static_cast<uint8_t>(b)) != ByteAutomaton::kDead)
          bytes.push_back(static_cast<uint8_t>(b));
      }
      ASSERT_FALSE(bytes.empty());
      const uint8_t byte = bytes[philox4x32({step, seed, 0, 0}, {1, 2})[0] % bytes.size()];
      text += static_cast<char>(byte);
      state = automaton->next(state, byte);
    }
    if (automaton->can_go_on(state)) continue;
    ++finished;
    const auto json = parse_json(text, "text");
    ASSERT_TRUE(json.ok()) << text << json.status().to_string();
    EXPECT_TRUE(json->contains("n"));
  }
  EXPECT_GT(finished, 100);
}

// Against one look at each token, in every state on the way through a text.
TEST(TokenConstraint, AllowedTokensAreThoseWhoseBytesGoOn) {
  std::vector<std::string> bytes = {
      "",     "{",    "{\"",      "{\"a",       "\"", "\"a\"", "\"a\":", "a",  "ab",  "abc",
      "abd",  "1",    "12",       "123",        "1}", "}",     "}}",     ",",  ", ",  ",\"",
      "\xc3", "\xa9", "\xc3\xa9", "\xc3\xa9\"", "ab", "",      " ",      "  ", "\":", "\":1"};
  for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"integer","minimum":3,"maximum":123}},)"
      R"("additionalProperties":{"type":"string","pattern":"^[ab\u00e9]*$"}})";
  const auto automaton = compiled(schema);
  TokenConstraint constraint(compiled(schema), std::make_shared<TokenBytes>(bytes));
  auto state = automaton->start();
  auto tokens_state = constraint.start();
  for (const char c : std::string("{\"a\": 12, \"ab\":\"b\xc3\xa9\"}")) {
    const auto allowed = constraint.allowed(tokens_state);
    for (size_t token = 0; token < bytes.size(); ++token) {
      const bool goes_on =
          !bytes[token].empty() &&
          automaton->next(state, std::string_view(bytes[token])) != ByteAutomaton::kDead;
      ASSERT_EQ(allowed->has(static_cast<int32_t>(token)), goes_on) << bytes[token];
    }
    const auto token = static_cast<int32_t>(bytes.size()) - 256 + static_cast<uint8_t>(c);
    state = automaton->next(state, static_cast<uint8_t>(c));
    tokens_state = constraint.after(tokens_state, token);
  }
  EXPECT_TRUE(constraint.may_end(tokens_state));
  EXPECT_TRUE(constraint.must_end(tokens_state));
}

class ConstrainedSamplerTest : public SamplerTest {
 protected:
  /// Tokens of one and of several bytes; 49 is a control token.
  static std::shared_ptr<const TokenBytes> tokens() {
    std::vector<std::string> bytes;
    for (const char c : std::string("{}[]\":, -.0123456789abcdenrtufls\\"))
      bytes.emplace_back(1, c);
    for (const char* text : {"{\"", "\":", "true", "false", "null", "\"a\":", ",\"", "12"})
      bytes.emplace_back(text);
    bytes.resize(kVocabulary);
    return std::make_shared<TokenBytes>(std::move(bytes));
  }
  /// Requests of every law; the text of a result is that of its tokens.
  static std::vector<SampleRequest> requests() {
    std::vector<SampleRequest> requests;
    for (int32_t i = 0; i < 12; ++i) {
      SamplingParams params = params_of(200, static_cast<uint64_t>(i));
      params.temperature = i % 3 == 0 ? 0.0f : 1.0f;
      if (i % 4 == 1) params.top_k = 3;
      if (i % 4 == 2) params.repetition_penalty = 1.2f;
      params.stop_tokens = {49};
      params.json_schema =
          i % 2 == 0
              ? R"({"properties":{"a":{"type":"boolean"},"b":{"enum":[12,"c"]}},"required":["a"]})"
              : R"({"type":"array","items":{"type":["null","boolean"]},"minItems":2,"maxItems":4})";
      requests.push_back(request_of(prompt_of(5 + i, 3), params));
    }
    return requests;
  }
  static std::string text_of(const SampleResult& result) {
    std::string text;
    for (const int32_t token : result.tokens) text += tokens()->of(token);
    return text;
  }
};

TEST_F(ConstrainedSamplerTest, RepliesFulfilTheirSchemaAndEndWhenTheyAreWhole) {
  SamplerOptions options;
  options.token_bytes = tokens();
  const auto results = make_sampler(options)->run(requests()).value();
  for (size_t i = 0; i < results.size(); ++i) {
    const SampleResult& result = results[i][0];
    SCOPED_TRACE(text_of(result));
    EXPECT_TRUE(accepts(*compiled(requests()[i].params.json_schema), text_of(result)));
    EXPECT_EQ(result.stop_reason, StopReason::kSchema);
    EXPECT_TRUE(parse_json(text_of(result), "reply").ok());
    EXPECT_EQ(result.logprobs.size(), result.tokens.size());
  }
}

// Whatever the depth at which a reply meets the limit, "schema" says that it is whole.
TEST_F(ConstrainedSamplerTest, ARecursiveSchemaEndsWithWholeJson) {
  const std::string down = R"({"a":)";
  std::vector<std::string> bytes(kVocabulary, down);  // of 50 tokens one is null
  bytes[48] = "null";
  bytes[49] = "}";
  SamplerOptions options;
  options.token_bytes = std::make_shared<TokenBytes>(bytes);
  std::vector<SampleRequest> all;
  for (int32_t seed = 0; seed < 16; ++seed) {
    SamplingParams params = params_of(600, static_cast<uint64_t>(seed));
    params.json_schema =
        R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"a":{"anyOf":[)"
        R"({"$ref":"#/$defs/n"},{"type":"null"}]}},"required":["a"],"additionalProperties":false}}})";
    all.push_back(request_of(prompt_of(5, seed), params));
  }
  int64_t deepest = 0;
  const auto results = make_sampler(options)->run(all).value();
  for (const auto& result : results) {
    std::string text;
    for (const int32_t token : result[0].tokens) text += bytes[static_cast<size_t>(token)];
    EXPECT_EQ(result[0].stop_reason, StopReason::kSchema);
    EXPECT_TRUE(parse_json(text, "reply").ok()) << text;
    deepest = std::max<int64_t>(deepest, std::count(text.begin(), text.end(), '{'));
  }
  EXPECT_EQ(deepest, 47);  // a call a level, of 48, and one for the null within
}

TEST_F(ConstrainedSamplerTest, AVocabularyThatCannotFinishIsSaidSo) {
  std::vector<std::string> bytes = {"t", "r", "[", "]"};
  bytes.resize(kVocabulary);
  SamplerOptions options;
  options.token_bytes = std::make_shared<TokenBytes>(std::move(bytes));
  SamplingParams params = params_of(20);
  params.json_schema = R"({"const":true})";
  const auto sampler = make_sampler(options);
  const SampleResult result = sampler->run({request_of({1, 2, 3}, params)}).value()[0][0];
  EXPECT_EQ(stop_reason_name(result.stop_reason), "dead_end");
  EXPECT_EQ(result.tokens, (std::vector<int32_t>{0, 1}));
  params.json_schema = R"({"const":1})";
  EXPECT_NE(sampler->check(request_of({1}, params)).message().find("no token of this vocabulary"),
            std::string::npos);
}

TEST_F(ConstrainedSamplerTest, SpeculationChangesNothing) {
  SamplerOptions options;
  options.token_bytes = tokens();
  const auto expected = make_sampler(options)->run(requests()).value();
  options.speculation.max_draft = 3;
  const auto got = make_sampler(options)->run(requests()).value();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(got[i][0].tokens, expected[i][0].tokens);
    EXPECT_EQ(got[i][0].logprobs, expected[i][0].logprobs);
    EXPECT_EQ(got[i][0].stop_reason, expected[i][0].stop_reason);
  }
}

// After a number more digits may come, so the law decides between them and the stop token.
TEST_F(ConstrainedSamplerTest, AStopTokenIsAllowedOnlyWhereTheTextIsWhole) {
  SamplerOptions options;
  options.token_bytes = tokens();
  std::vector<SampleRequest> all;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SamplingParams params = params_of(50, seed);
    params.json_schema = R"({"type":"integer"})";
    params.stop_tokens = {49};
    all.push_back(request_of({1, 2, 3}, params));
  }
  int stopped = 0;
  const auto results = make_sampler(options)->run(all).value();
  for (const auto& result : results) {
    EXPECT_TRUE(accepts(*compiled(R"({"type":"integer"})"), text_of(result[0])) ||
                result[0].stop_reason == StopReason::kMaxTokens)
        << text_of(result[0]);
    stopped += result[0].stop_reason == StopReason::kStopToken ? 1 : 0;
  }
  EXPECT_GT(stopped, 0);
}

TEST_F(ConstrainedSamplerTest, TheLawIsThatOfTheAllowedTokens) {
  SamplerOptions options;
  options.token_bytes = tokens();
  SamplingParams params = params_of(5);
  params.json_schema = R"({"type":"boolean"})";
  const SampleRequest request = request_of({1, 2, 3}, params);
  const SampleResult result = make_sampler(options)->run({request}).value()[0][0];
  // First "t" or "true" or "f" or "false": the four share the law.
  const auto logits = fake::logits_of(-1, {1, 2, 3}, kVocabulary);
  const auto texts = tokens();
  double sum = 0;
  for (int32_t token = 0; token < kVocabulary; ++token) {
    const std::string& text = texts->of(token);
    if (text == "t" || text == "true" || text == "f" || text == "false")
      sum += std::exp(static_cast<double>(logits[static_cast<size_t>(token)]));
  }
  const auto chosen = static_cast<double>(logits[static_cast<size_t>(result.tokens[0])]);
  EXPECT_NEAR(static_cast<double>(result.logprobs[0]), chosen - std::log(sum), 1e-5);
  EXPECT_LT(result.raw_logprobs[0], result.logprobs[0]);
}

TEST_F(ConstrainedSamplerTest, BadSchemasAndMissingTokenizersAreRefused) {
  SamplerOptions options;
  EXPECT_NE(make_sampler(options)->check(requests()[0]).message().find("byte-level tokenizer"),
            std::string::npos);
  options.token_bytes = tokens();
  SampleRequest bad = requests()[0];
  bad.params.json_schema = R"({"type":"thing"})";
  EXPECT_EQ(make_sampler(options)->check(bad).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace mainspring
