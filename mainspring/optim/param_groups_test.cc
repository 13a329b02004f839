#include "mainspring/optim/param_groups.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

const std::vector<std::pair<std::string, Shape>>& params() {
  static const std::vector<std::pair<std::string, Shape>> all{
      {"lm_head.weight", {{9, 4}}},
      {"model.embed_tokens.weight", {{9, 4}}},
      {"model.layers.0.mlp.up_proj.weight", {{8, 4}}},
      {"model.norm.weight", {{4}}},
  };
  return all;
}

std::vector<OptimizerKind> kinds(const OptimizerPlan& plan) {
  std::vector<OptimizerKind> result;
  const auto parts = assign_params(plan, params()).value();
  for (const ParamPlan& part : parts) result.push_back(part.kind);
  return result;
}

TEST(ParamGroups, AStarStandsForAnyText) {
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("*norm*", "model.norm.weight"));
  EXPECT_TRUE(matches_pattern("a*b*c", "aXbYbc"));
  EXPECT_TRUE(matches_pattern("model.norm.weight", "model.norm.weight"));
  EXPECT_FALSE(matches_pattern("model.norm", "model.norm.weight"));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_FALSE(matches_pattern("*b", "abc"));
}

TEST(ParamGroups, MuonLeavesTablesAndVectorsToAdamw) {
  using enum OptimizerKind;
  EXPECT_EQ(kinds({.rest = {.optimizer = kMuon}}),
            (std::vector<OptimizerKind>{kAdamw, kAdamw, kMuon, kAdamw}));
}

TEST(ParamGroups, ATableOfPositionsIsNoHiddenMatrix) {
  const auto parts = assign_params({.rest = {.optimizer = OptimizerKind::kMuon}},
                                   {{"model.embed_positions.weight", {{16, 4}}}})
                         .value();
  EXPECT_EQ(parts[0].kind, OptimizerKind::kAdamw);
}

TEST(ParamGroups, TheFirstGroupThatNamesAParameterTakesIt) {
  using enum OptimizerKind;
  const OptimizerPlan plan{.rest = {.optimizer = kLion},
                           .groups = {{.params = {"*norm*", "lm_head*"}, .optimizer = kAdamw},
                                      {.params = {"*.weight"}, .optimizer = kAdafactor}}};
  EXPECT_EQ(kinds(plan), (std::vector<OptimizerKind>{kAdamw, kAdafactor, kAdafactor, kAdamw}));
}

TEST(ParamGroups, AGroupWithoutAnOptimizerDoesAsTheRest) {
  using enum OptimizerKind;
  const OptimizerPlan plan{.rest = {.optimizer = kMuon},
                           .groups = {{.params = {"*"}, .lr_scale = 0.5}}};
  EXPECT_EQ(kinds(plan), (std::vector<OptimizerKind>{kAdamw, kAdamw, kMuon, kAdamw}));
}

TEST(ParamGroups, CodedStatesLeaveSmallParametersToAdamw) {
  using enum OptimizerKind;
  const std::vector<std::pair<std::string, Shape>> sizes{{"large", {{64, 64}}},
                                                         {"small", {{4095}}}};
  for (const OptimizerPlan& plan :
       {OptimizerPlan{.rest = {.optimizer = kAdamw8bit}},
        OptimizerPlan{.groups = {{.params = {"*"}, .optimizer = kAdamw8bit}}}}) {
    const auto parts = assign_params(plan, sizes).value();
    EXPECT_EQ(parts[0].kind, kAdamw8bit);
    EXPECT_EQ(parts[1].kind, kAdamw);
  }
}

TEST(ParamGroups, WeightsInBf16RefuseWhatNeedsF32Masters) {
  const OptimizerPlan plan{.rest = {.optimizer = OptimizerKind::kMuon}};
  EXPECT_NE(
      assign_params(plan, params(), DType::kBF16).status().message().find("muon needs f32 masters"),
      std::string::npos);
  EXPECT_TRUE(assign_params({}, params(), DType::kBF16).ok());
}

TEST(Ema, TheRateFallsToThatOfTheDecay) {
  const EmaSettings settings{.decay = 0.99, .warmup = true};
  EXPECT_FLOAT_EQ(ema_rate(settings, 1), 1.0f - 2.0f / 11.0f);
  EXPECT_FLOAT_EQ(ema_rate(settings, 100000), 0.01f);
  EXPECT_FLOAT_EQ(ema_rate({.decay = 0.99, .warmup = false}, 1), 0.01f);
}

TEST(ParamGroups, APatternThatTakesNothingNamesTheNearest) {
  const OptimizerPlan plan{.groups = {{.params = {"model.nrm.weight"}}}};
  EXPECT_EQ(assign_params(plan, params()).status().message(),
            "no parameter is named \"model.nrm.weight\", nearest is \"model.norm.weight\"");
}

TEST(ParamGroups, AGroupThatEarlierOnesLeaveNothingIsRefused) {
  const OptimizerPlan plan{
      .groups = {{.params = {"*.weight"}}, {.params = {"lm_head*"}}, {.params = {"*norm*"}}}};
  EXPECT_EQ(assign_params(plan, params()).status().message(),
            "group 2 (params \"lm_head*\") takes nothing: group 1 (params \"*.weight\") stands "
            "before it and takes all that it names; put the narrower one first");
}

TEST(ParamGroups, MuonRefusesAVectorThatIsNamedForIt) {
  const OptimizerPlan plan{.groups = {{.params = {"*norm*"}, .optimizer = OptimizerKind::kMuon}}};
  EXPECT_NE(assign_params(plan, params()).status().message().find("model.norm.weight is (4)"),
            std::string::npos);
}

TEST(ParamGroups, SettingsOutOfRangeAreRefused) {
  OptimizerPlan plan;
  plan.settings.muon.momentum = 1.0f;
  EXPECT_FALSE(assign_params(plan, params()).ok());
  plan = {};
  plan.rest.lr_scale = -1.0;
  EXPECT_FALSE(assign_params(plan, params()).ok());
}

TEST(ParamGroups, AnUnknownOptimizerNamesTheNearest) {
  EXPECT_EQ(parse_optimizer("moun").status().message(),
            "no optimizer named \"moun\", nearest is \"muon\"");
  for (const std::string& name : optimizer_names()) {
    EXPECT_EQ(optimizer_name(parse_optimizer(name).value()), name);
  }
}

}  // namespace
}  // namespace mainspring
