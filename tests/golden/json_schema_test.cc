// Constrained decoding against the Python package jsonschema: for schemas of finitely many texts
// the decoder's texts are those the validator accepts and no others, a wrong text dies at its
// earliest byte, and what random walks give was judged by the validator (make_json_schema.py).
#include "mainspring/sample/json_schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "mainspring/base/philox.h"
#include "mainspring/io/json.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

constexpr const char* kCases = "tests/golden/json_schema/cases.json";
constexpr const char* kWalks = "tests/golden/json_schema/walks.json";
constexpr size_t kMaxTexts = 2000;
constexpr uint32_t kWalksEach = 12;
constexpr size_t kMaxWalkBytes = 300;

std::unique_ptr<ByteAutomaton> compiled(const Json& one_case) {
  auto automaton = compile_json_schema(json_text(one_case["schema"]));
  EXPECT_TRUE(automaton.ok()) << one_case["name"] << automaton.status().to_string();
  return std::move(automaton).value();
}

/// Every text without the blanks that may stand behind ',' and ':' (no case has them in a string).
void add_texts(ByteAutomaton& automaton, ByteAutomaton::State state, std::string& text,
               std::vector<std::string>& out) {
  if (out.size() > kMaxTexts) return;
  if (automaton.is_end(state)) out.push_back(text);
  for (int byte = 0; byte < 256; ++byte) {
    if (byte == ' ' && !text.empty() && (text.back() == ',' || text.back() == ':')) continue;
    const auto next = automaton.next(state, static_cast<uint8_t>(byte));
    if (next == ByteAutomaton::kDead) continue;
    text.push_back(static_cast<char>(byte));
    add_texts(automaton, next, text, out);
    text.pop_back();
  }
}

/// The number of bytes after which no text begins so; 0: the text is the beginning of one.
size_t dies_at(ByteAutomaton& automaton, const std::string& text) {
  auto state = automaton.start();
  for (size_t i = 0; i < text.size(); ++i) {
    state = automaton.next(state, static_cast<uint8_t>(text[i]));
    if (state == ByteAutomaton::kDead) return i + 1;
  }
  return 0;
}

bool accepts(ByteAutomaton& automaton, const std::string& text) {
  const auto state = automaton.next(automaton.start(), text);
  return state != ByteAutomaton::kDead && automaton.is_end(state);
}

TEST(JsonSchemaGolden, TextsOfFiniteSchemasAreThoseTheValidatorAccepts) {
  size_t finite = 0;
  const Json file = test::read_json(kCases);
  for (const Json& one : file["cases"]) {
    if (!one.contains("language")) continue;
    SCOPED_TRACE(one["name"].get<std::string>());
    ++finite;
    const auto automaton = compiled(one);
    std::vector<std::string> texts;
    std::string text;
    add_texts(*automaton, automaton->start(), text, texts);
    std::sort(texts.begin(), texts.end());
    auto expected = one["language"].get<std::vector<std::string>>();
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(texts, expected);
  }
  EXPECT_GE(finite, 35u);
}

TEST(JsonSchemaGolden, AWrongTextDiesAtItsEarliestByte) {
  size_t rejected = 0;
  const Json file = test::read_json(kCases);
  for (const Json& one : file["cases"]) {
    const auto automaton = compiled(one);
    if (one.contains("language")) {
      for (const Json& row : one["rejected"]) {
        const auto text = row[0].get<std::string>();
        EXPECT_EQ(dies_at(*automaton, text), row[1].get<size_t>()) << one["name"] << " " << text;
        EXPECT_FALSE(accepts(*automaton, text)) << one["name"] << " " << text;
        ++rejected;
      }
      continue;
    }
    for (const Json& text : one["good"])
      EXPECT_TRUE(accepts(*automaton, text.get<std::string>())) << one["name"] << " " << text;
    for (const Json& text : one["bad"])
      EXPECT_FALSE(accepts(*automaton, text.get<std::string>())) << one["name"] << " " << text;
  }
  EXPECT_GT(rejected, 500u);
}

/// A text by random bytes among those that may follow, closing ones more often.
std::string walk(ByteAutomaton& automaton, uint32_t seed) {
  auto state = automaton.start();
  std::string text;
  for (uint32_t step = 0; text.size() < kMaxWalkBytes; ++step) {
    const auto random = philox4x32({step, seed, 0, 0}, {7, 11});
    if (automaton.is_end(state) && (!automaton.can_go_on(state) || random[1] % 4 == 0)) return text;
    std::string bytes;
    std::string closing;
    for (int b = 0; b < 256; ++b) {
      if (automaton.next(state, static_cast<uint8_t>(b)) == ByteAutomaton::kDead) continue;
      bytes.push_back(static_cast<char>(b));
      if (b == '"' || b == ']' || b == '}') closing.push_back(static_cast<char>(b));
    }
    if (bytes.empty()) return "dead end: " + text;
    if (!closing.empty() && random[2] % 4 == 0) bytes = closing;
    text.push_back(bytes[random[0] % bytes.size()]);
    state = automaton.next(state, static_cast<uint8_t>(text.back()));
  }
  return "";  // too long to keep
}

Json walks() {
  Json rows = Json::array();
  const Json file = test::read_json(kCases);
  for (const Json& one : file["cases"]) {
    const auto automaton = compiled(one);
    Json texts = Json::array();
    for (uint32_t seed = 0; seed < kWalksEach; ++seed) {
      std::string text = walk(*automaton, seed);
      if (!text.empty()) texts.push_back(std::move(text));
    }
    rows.push_back({{"name", one["name"]}, {"texts", std::move(texts)}});
  }
  return rows;
}

TEST(JsonSchemaGolden, WhatWalksGiveIsWhatTheValidatorJudged) {
  const Json got = walks();
  if (const char* path = std::getenv("MS_WRITE_WALKS")) std::ofstream(path) << got.dump();
  EXPECT_EQ(got, test::read_json(kWalks)["cases"]);
  size_t count = 0;
  for (const Json& row : got) {
    EXPECT_GE(row["texts"].size(), 5u) << row["name"];
    count += row["texts"].size();
  }
  EXPECT_GT(count, 400u);
}

}  // namespace
}  // namespace mainspring
