#include "mainspring/sample/stop_text.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

TEST(StopText, WithoutStopStringsShowsEverythingAtOnce) {
  StopText text({});
  EXPECT_EQ(text.push("Hello"), "Hello");
  EXPECT_EQ(text.push(", world"), ", world");
  EXPECT_EQ(text.finish(), "");
  EXPECT_EQ(text.text(), "Hello, world");
}

TEST(StopText, FindsAStopStringAcrossPiecesAndCutsBeforeIt) {
  StopText text({"\nUser:"});
  EXPECT_EQ(text.push("Hi.\nUs"), "Hi.");
  EXPECT_EQ(text.push("er: more"), "");
  EXPECT_TRUE(text.is_stopped());
  EXPECT_EQ(text.text(), "Hi.");
  EXPECT_EQ(text.push("later"), "");
  EXPECT_EQ(text.finish(), "");
  EXPECT_EQ(text.text(), "Hi.");
}

TEST(StopText, ShowsHeldBackTextWhenItTurnsOutOtherwise) {
  StopText text({"abcd"});
  EXPECT_EQ(text.push("xab"), "x");
  EXPECT_EQ(text.push("ab"), "ab");  // "xabab": "ab" may still begin a stop
  EXPECT_EQ(text.push("c"), "");
  EXPECT_EQ(text.push("!"), "abc!");
  EXPECT_FALSE(text.is_stopped());
}

TEST(StopText, GivesOutWhatWasHeldBackAtTheEnd) {
  StopText text({"stop"});
  EXPECT_EQ(text.push("sto"), "");
  EXPECT_EQ(text.finish(), "sto");
  EXPECT_EQ(text.text(), "sto");
}

TEST(StopText, TheStopThatBeginsFirstWins) {
  StopText text({"world", "lo w"});
  EXPECT_EQ(text.push("hello world"), "hel");
  EXPECT_EQ(text.text(), "hel");
}

TEST(StopText, AStopAtTheVeryBeginningLeavesNothing) {
  StopText text({"a"});
  EXPECT_EQ(text.push("abc"), "");
  EXPECT_TRUE(text.is_stopped());
  EXPECT_EQ(text.text(), "");
}

TEST(StopText, OneLetterAtATimeGivesTheSameTextAsOnePiece) {
  const std::string input = "aaabaaab|aab";
  StopText whole({"aab|"});
  whole.push(input);
  StopText letters({"aab|"});
  std::string shown;
  for (const char letter : input) shown += letters.push(std::string(1, letter));
  shown += letters.finish();
  EXPECT_EQ(letters.text(), whole.text());
  EXPECT_EQ(shown, "aaaba");
}

}  // namespace
}  // namespace mainspring
