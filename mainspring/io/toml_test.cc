#include "mainspring/io/toml.h"

#include <gtest/gtest.h>

#include "mainspring/io/fuzz_util.h"

namespace mainspring {
namespace {

TEST(Toml, KeepsThePlaceOfEveryValue) {
  const auto table = parse_toml("a = 1\n[b]\nc = \"x\"\n", "f.toml");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ((*table)[0].value.where(), "f.toml:1:5");
  const auto& inner = std::get<ConfigTable>((*table)[1].value.value);
  EXPECT_EQ(inner[0].value.where(), "f.toml:3:5");
  EXPECT_EQ(std::get<std::string>(inner[0].value.value), "x");
}

TEST(Toml, NamesTheLineOfASyntaxError) {
  const auto table = parse_toml("a = 1\nb = [\n", "f.toml");
  ASSERT_FALSE(table.ok());
  EXPECT_NE(table.status().message().find("f.toml:"), std::string::npos);
}

TEST(Toml, KeepsTheOrderOfTheFile) {
  const ConfigTable table = parse_toml("z = 1\na = 2\n[m]\nx = 1\n[b]\ny = 2\n", "f").value();
  std::string keys;
  for (const auto& [key, value] : table) keys += key;
  EXPECT_EQ(keys, "zamb");
}

TEST(Toml, BoundsTheDepthOfValuesAndOfDottedKeys) {
  std::string dotted;
  for (int i = 0; i < 300'000; ++i) dotted += "a.";
  EXPECT_EQ(parse_toml("x = 1\n" + dotted + "a = 1", "f").status().message(),
            "f:2: a key of more than 64 dots");
  EXPECT_FALSE(parse_toml("[" + dotted + "a]", "f").ok());
  EXPECT_FALSE(parse_toml("a = {" + dotted + "a = 1}", "f").ok());
  EXPECT_FALSE(parse_toml("a = " + std::string(100'000, '['), "f").ok());
}

TEST(Toml, DotsInStringsCommentsAndNumbersAreNotDepth) {
  const std::string dots(200, '.');
  std::string numbers;
  for (int i = 0; i < 100; ++i) numbers += "1.5, ";
  const std::string text = "# " + dots + "\na = \"\\\"" + dots + "\"\nb = '" + dots +
                           "'\nc = \"\"\"\n\"" + dots + "\n\"\"\"\nd = [" + numbers + "2.0]\n\"" +
                           dots + "\" = 1\n";
  const auto table = parse_toml(text, "f");
  EXPECT_TRUE(table.ok()) << table.status().to_string();
}

TEST(Toml, DamagedTextNeverCrashes) {
  const std::string text =
      "a = 1\nb = [1.5, \"x\\n\", { c = true }]\n[d.e]\nf = '''\ny'''\n[[g]]\nh = -2\n";
  ASSERT_TRUE(parse_toml(text, "f").ok());
  const auto parse = [](const std::string& bytes) { (void)parse_toml(bytes, "f").ok(); };
  for_each_truncation(text, parse);
  for_each_damage(text, 10'000, parse);
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
