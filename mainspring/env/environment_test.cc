#include "mainspring/env/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mainspring/env/env_settings.h"

namespace mainspring {
namespace {

using testing::HasSubstr;

TEST(EnvironmentTable, UnknownNameIsToldTheNearest) {
  const auto made = make_environment("jsonmx", {});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(made.status().message(), HasSubstr("the nearest is \"jsonmax\""));
}

TEST(EnvironmentTable, EveryRowHasAMeaningAndANameOfItsOwn) {
  std::map<std::string_view, int> names;
  for (const EnvironmentInfo& row : environment_table()) {
    EXPECT_FALSE(row.meaning.empty()) << row.name;
    EXPECT_EQ(++names[row.name], 1) << row.name;
  }
  EXPECT_GE(names.size(), 2u);
}

TEST(EnvironmentTable, OutcomesHaveNames) {
  EXPECT_EQ(outcome_name(EpisodeOutcome::kOk), "ok");
  EXPECT_EQ(outcome_name(EpisodeOutcome::kTimeout), "timeout");
  EXPECT_EQ(outcome_name(EpisodeOutcome::kCrash), "crash");
  EXPECT_EQ(outcome_name(EpisodeOutcome::kException), "exception");
  EXPECT_EQ(outcome_name(EpisodeOutcome::kGarbage), "garbage");
  EXPECT_EQ(outcome_name(EpisodeOutcome::kMemory), "memory");
}

TEST(EnvSettingsReader, ReadsEachKindAndKeepsDefaults) {
  const EnvSettings settings = {{"n", "-3"}, {"x", "0.5"}, {"on", "true"}, {"how", "b"}};
  EnvSettingsReader reader("some", settings);
  EXPECT_EQ(reader.integer("n", 1, -5, 5), -3);
  EXPECT_EQ(reader.integer("m", 1, -5, 5), 1);
  EXPECT_EQ(reader.number("x", 0, 0, 1), 0.5);
  EXPECT_TRUE(reader.flag("on", false));
  EXPECT_EQ(reader.choice("how", {"a", "b"}), "b");
  EXPECT_EQ(reader.choice("else", {"a", "b"}), "a");
  EXPECT_EQ(reader.text("label", "none"), "none");
  EXPECT_TRUE(reader.finish().ok());
}

TEST(EnvSettingsReader, RefusalsNameSettingBoundsAndValue) {
  const auto message = [](const EnvSettings& settings) {
    EnvSettingsReader reader("some", settings);
    reader.integer("digits", 1, 1, 9);
    reader.number("x", 0, 0, 1);
    reader.flag("on", false);
    reader.choice("how", {"whole", "tag"});
    return reader.finish().message();
  };
  EXPECT_EQ(
      message({{"digits", "10"}}),
      "environment \"some\": setting \"digits\": expected an integer from 1 to 9, got \"10\"");
  EXPECT_THAT(message({{"digits", "3x"}}), HasSubstr("expected an integer"));
  EXPECT_THAT(message({{"digits", ""}}), HasSubstr("expected an integer"));
  EXPECT_THAT(message({{"x", "nan"}}), HasSubstr("expected a number from 0 to 1"));
  EXPECT_THAT(message({{"on", "yes"}}), HasSubstr("expected true or false"));
  EXPECT_THAT(message({{"how", "tags"}}), HasSubstr("nearest: \"tag\""));
  EXPECT_THAT(message({{"digit", "1"}}), HasSubstr("the nearest is \"digits\""));
}

TEST(EnvSettingsReader, RequiredTextMustBeGiven) {
  const EnvSettings settings;
  EnvSettingsReader reader("some", settings);
  reader.required_text("path", "the file of tasks");
  EXPECT_THAT(reader.finish().message(), HasSubstr("\"path\": must be given: the file of tasks"));
}

}  // namespace
}  // namespace mainspring
