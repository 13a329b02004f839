#include "mainspring/sample/char_pattern.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

void expect_found(const std::string& pattern, const std::vector<std::string>& in,
                  const std::vector<std::string>& not_in) {
  const auto automaton = compile_pattern(pattern);
  ASSERT_TRUE(automaton.ok()) << pattern << ": " << automaton.status().to_string();
  for (const std::string& text : in)
    EXPECT_TRUE(automaton->accepts(text)) << pattern << " " << text;
  for (const std::string& text : not_in)
    EXPECT_FALSE(automaton->accepts(text)) << pattern << " " << text;
}

std::string refusal(const std::string& pattern) {
  const auto automaton = compile_pattern(pattern);
  EXPECT_EQ(automaton.status().code(), StatusCode::kInvalidArgument) << pattern;
  return automaton.status().message();
}

TEST(CharPattern, IsSearchedForUnlessAnchored) {
  expect_found("ab", {"ab", "xabx", "aab"}, {"", "a", "ba", "a b"});
  expect_found("^ab$", {"ab"}, {"xab", "abx", "abab", "ab\n"});
  expect_found("^a|b$", {"a", "ax", "b", "xb"}, {"xa", "bx", ""});
  expect_found("", {"", "x"}, {});
  expect_found("^$", {""}, {"x"});
  expect_found("a^b", {}, {"ab", "a", "b", "a^b"});
  expect_found("(^|-)x($|-)", {"x", "a-x", "x-b", "a-x-b"}, {"ax", "xa", "a-xb"});
}

TEST(CharPattern, Repetitions) {
  expect_found("^a?b*c+$", {"c", "abbbcc", "bc"}, {"", "ab", "aac"});
  expect_found("^(?:ab){2,3}$", {"abab", "ababab"}, {"ab", "abababab", "aba"});
  expect_found("^a{2}$", {"aa"}, {"a", "aaa"});
  expect_found("^a{2,}?$", {"aa", "aaaaa"}, {"a"});
  expect_found("^(a*)*b{0}$", {"", "aaa"}, {"b"});
  expect_found("^(?<year>\\d{4})$", {"2024"}, {"24", "20245"});
}

TEST(CharPattern, ClassesAndEscapes) {
  expect_found("^[a-cx-]$", {"a", "b", "c", "x", "-"}, {"d", "y"});
  expect_found("^[^a-c]$", {"d", "-", "é", "\xf0\x9f\x98\x80"}, {"a", "b", ""});
  expect_found(R"(^[\d\-_]$)", {"0", "9", "-", "_"}, {"a"});
  expect_found(R"(^\w\W\d\D\s\S$)", {"a-1x z", "_ 0é\tq"}, {"a-1x z ", "--1x z", "aa1x z"});
  expect_found(R"(^\s$)", {"\t", "\xc2\xa0", "\xe2\x80\xa8"}, {"x"});
  expect_found("^.$", {"x", "\t", "\xe6\xbc\xa2"}, {"\n", "\r", "\xe2\x80\xa8", ""});
  expect_found(R"(^\t\n\x41\u00e9\u{1F600}\.\/\\\cA\0$)",
               {std::string("\t\nA\xc3\xa9\xf0\x9f\x98\x80./\\\x01") + '\0'}, {"x"});
  expect_found(R"(^[\b]$)", {"\b"}, {"b"});
  expect_found("^[]$", {}, {"", "]"});
  expect_found("^[^]$", {"x", "\n"}, {""});
  expect_found("^a]}$", {"a]}"}, {"a"});
}

TEST(CharPattern, WhatIsNotRegularOrNoPatternIsRefusedWithItsPosition) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"((a)\1)", "at position 3: back-references"},
      {R"(a\k<n>)", "at position 1: back-references"},
      {"ab(?=c)", "at position 2: look-ahead"},
      {"(?!c)", "at position 0: look-ahead"},
      {"x(?<=c)", "at position 1: look-behind"},
      {"x(?<!c)", "at position 1: look-behind"},
      {R"(\bx)", "at position 0: word borders"},
      {R"(é\p{L})", "at position 1: Unicode properties"},
      {"(?i)x", "at position 0: flags"},
      {"(ab", "at position 0: a group is not closed"},
      {"ab)", "at position 2: ')' closes no group"},
      {"[ab", "at position 0: a class is not closed"},
      {"[b-a]", "at position 1: a range that ends before"},
      {R"([\d-z])", "at position 1: a range goes from"},
      {"a{2,1}", "at position 1: {m,n} with n below m"},
      {"a{x}", "at position 1: expected {m}"},
      {"a{2000}", "at position 1: repetitions beyond 1024"},
      {"*a", "at position 0: there is nothing to repeat"},
      {"a**", "at position 1: one repetition behind another"},
      {"^*", "at position 0: ^ and $ cannot be repeated"},
      {"a\\", "at position 1: a backslash at the end"},
      {R"(\e)", "at position 0: no such escape"},
      {R"(\u12)", "at position 0: expected hexadecimal"},
      {R"(\ud800)", "at position 0: half of a surrogate pair"},
      {"((a{1000}){1000}){1000}", "repetitions are too many"},
      {"(a|b)*a(a|b){20}", "needs more than"}};
  for (const auto& [pattern, expected] : cases)
    EXPECT_NE(refusal(pattern).find(expected), std::string::npos) << refusal(pattern);
}

TEST(CharAutomaton, ProductsAndLengths) {
  const CharAutomaton word = compile_pattern("^[a-z]+$").value();
  const auto both = intersect(word, texts_of_length(2, 3));
  ASSERT_TRUE(both.has_value());
  EXPECT_TRUE(both->accepts("ab"));
  EXPECT_TRUE(both->accepts("abc"));
  EXPECT_FALSE(both->accepts("a"));
  EXPECT_FALSE(both->accepts("abcd"));
  EXPECT_FALSE(both->accepts("aé"));
  EXPECT_TRUE(intersect(word, compile_pattern("^[0-9]*$").value())->is_empty());
  EXPECT_TRUE(texts_of_length(1, 1).accepts("\xf0\x9f\x98\x80"));  // one character of four bytes
}

TEST(CharAutomaton, TextsOtherThanSomeNames) {
  const CharAutomaton others = texts_other_than({"a", "abc", "é"});
  for (const char* text : {"", "ab", "abcd", "b", "aé", "éa"}) EXPECT_TRUE(others.accepts(text));
  for (const char* text : {"a", "abc", "é"}) EXPECT_FALSE(others.accepts(text));
}

TEST(CharSet, HoldsNoHalvesOfSurrogatePairsAndJoinsRanges) {
  CharSet set(0xD000, 0xE000);
  EXPECT_FALSE(set.has(0xD800));
  EXPECT_FALSE(set.has(0xDFFF));
  EXPECT_TRUE(set.has(0xD7FF));
  EXPECT_TRUE(set.has(0xE000));
  CharSet joined('a', 'b');
  joined.add('d', 'e');
  joined.add('c', 'c');
  EXPECT_EQ(joined, CharSet('a', 'e'));
  EXPECT_EQ(~~joined, joined);
  EXPECT_EQ(joined & ~joined, CharSet());
  EXPECT_EQ(joined | ~joined, CharSet::all());
}

}  // namespace
}  // namespace mainspring
