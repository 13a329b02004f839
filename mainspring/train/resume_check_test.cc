#include "mainspring/train/resume_check.h"

#include <gtest/gtest.h>

#include "mainspring/train/recipe.h"

namespace mainspring {
namespace {

std::vector<RecipeChange> changes(const std::string& key, const std::string& was,
                                  const std::string& now) {
  return changes_between({{key, was, "default"}}, {{key, now, "--set"}});
}

TEST(ResumeCheck, WhatDecidesWhatIsTrainedIsRefusedByName) {
  std::vector<RecipeChange> all = changes("tune.rank", "16", "8");
  EXPECT_EQ(check_changes(all).message(),
            "the run was made with tune.rank 16, the recipe says 8; set it back, or train into "
            "another run folder");
  all.push_back(changes("optim.lr", "0.1", "0.2").at(0));
  all.push_back(changes("tune.mode", "\"lora\"", "\"full\"").at(0));
  EXPECT_EQ(check_changes(all).message(),
            "the run was made with tune.rank 16, the recipe says 8; with tune.mode \"lora\", the "
            "recipe says \"full\"; set it back, or train into another run folder");
  for (const char* key :
       {"seed", "model.path", "model.dtype", "model.quantise", "data.format", "data.held_out",
        "data.max_tokens", "data.shuffle", "data.loss_on", "tune.alpha", "tune.dropout",
        "tune.targets", "train.batch_size", "train.batch_tokens"}) {
    EXPECT_EQ(check_changes(changes(key, "1", "2")).code(), StatusCode::kFailedPrecondition) << key;
  }
}

TEST(ResumeCheck, WhatSteersTheRunOnMayChangeAndIsToldInOrder) {
  std::vector<RecipeChange> all = changes("optim.lr", "0.0002", "0.05");
  all.push_back(changes("train.steps", "20", "40").at(0));
  EXPECT_TRUE(check_changes(all).ok());
  EXPECT_EQ(changes_text(all), "optim.lr 0.0002 -> 0.05, train.steps 20 -> 40");
  EXPECT_EQ(changes_text({}), "");
  for (const char* key :
       {"title", "data.weights", "optim.schedule", "checkpoint.every", "train.eval_every",
        "train.sample_prompts", "train.micro_batch_rows", "train.recompute"}) {
    EXPECT_TRUE(check_changes(changes(key, "1", "2")).ok()) << key;
  }
}

TEST(ResumeCheck, EqualNumbersOnePathAndMissingKeysAreNoChange) {
  EXPECT_TRUE(changes("tune.alpha", "32", "32.0").empty());
  EXPECT_TRUE(changes("model.path", "\"/\"", "\"/.\"").empty());
  EXPECT_EQ(changes("model.path", "\"/\"", "\"/tmp\"").size(), 1u);
  EXPECT_TRUE(changes_between({{"old.key", "1", ""}}, {{"new.key", "2", ""}}).empty());
}

}  // namespace
}  // namespace mainspring
