#include "mainspring/io/toml.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

TEST(Toml, KeepsThePlaceOfEveryValue) {
  const auto table = parse_toml("a = 1\n[b]\nc = \"x\"\n", "f.toml");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ((*table)[0].second.where(), "f.toml:1:5");
  const auto& inner = std::get<ConfigTable>((*table)[1].second.value);
  EXPECT_EQ(inner[0].second.where(), "f.toml:3:5");
  EXPECT_EQ(std::get<std::string>(inner[0].second.value), "x");
}

TEST(Toml, NamesTheLineOfASyntaxError) {
  const auto table = parse_toml("a = 1\nb = [\n", "f.toml");
  ASSERT_FALSE(table.ok());
  EXPECT_NE(table.status().message().find("f.toml:"), std::string::npos);
}

TEST(Toml, RefusesDates) { EXPECT_FALSE(parse_toml("a = 2026-01-01", "f.toml").ok()); }

TEST(Toml, ASetValueIsTomlOrElseAString) {
  EXPECT_EQ(std::get<int64_t>(parse_toml_value_or_string("3", "--set").value), 3);
  EXPECT_EQ(std::get<std::string>(parse_toml_value_or_string("a/b.gguf", "--set").value),
            "a/b.gguf");
  EXPECT_EQ(
      std::get<ConfigList>(parse_toml_value_or_string("[\"q\", \"k\"]", "--set").value).size(), 2u);
  EXPECT_EQ(std::get<std::string>(parse_toml_value_or_string("1\nb = 2", "--set").value),
            "1\nb = 2");
}

}  // namespace
}  // namespace mainspring
