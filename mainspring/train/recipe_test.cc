#include "mainspring/train/recipe.h"

#include <gtest/gtest.h>

#include "mainspring/io/test_dir.h"

namespace mainspring {
namespace {

std::string write_recipe(const std::string& text) {
  static const TestDir dir;
  return dir.write("recipe_test.toml", text);
}

constexpr const char* kMinimal = "[model]\npath = \"m\"\n[data]\nfiles = [\"a.jsonl\"]\n";

std::string error_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  const auto recipe = load_recipe(write_recipe(text), sets);
  return recipe.ok() ? "" : recipe.status().message();
}

TEST(Recipe, ReadsValuesAndRemembersTheirOrigin) {
  const auto recipe =
      load_recipe(write_recipe(std::string(kMinimal) + "[train]\nsteps = 7\n"), {"optim.lr=1e-3"})
          .value();
  EXPECT_EQ(recipe.train.steps, 7);
  EXPECT_EQ(recipe.optim.lr, 1e-3);
  for (const RecipeValue& value : recipe.values) {
    if (value.key == "train.steps") {
      EXPECT_NE(value.origin.find("recipe_test.toml:6"), std::string::npos);
    }
    if (value.key == "optim.lr") {
      EXPECT_EQ(value.origin, "--set optim.lr");
    }
    if (value.key == "tune.rank") {
      EXPECT_EQ(value.origin, "default");
    }
  }
}

TEST(Recipe, AnUnknownKeyNamesItsPlaceAndTheNearestKey) {
  const std::string error = error_of(std::string(kMinimal) + "[train]\nstep = 7\n");
  EXPECT_NE(error.find("recipe_test.toml:6:"), std::string::npos) << error;
  EXPECT_NE(error.find("nearest is \"train.steps\""), std::string::npos) << error;
}

TEST(Recipe, AWrongValueSaysWhatWasExpectedAndGot) {
  EXPECT_NE(error_of(std::string(kMinimal) + "[train]\nsteps = \"many\"\n")
                .find("expected an integer >= 1, got \"many\""),
            std::string::npos);
  EXPECT_NE(error_of(std::string(kMinimal) + "[optim]\nschedule = \"cosin\"\n")
                .find("got \"cosin\"; nearest is \"cosine\""),
            std::string::npos);
  EXPECT_NE(
      error_of(std::string(kMinimal) + "[tune]\ndropout = 2\n").find("a number from 0 to 0.99"),
      std::string::npos);
  // A bound that six decimals would round to a value that is refused.
  EXPECT_NE(error_of(std::string(kMinimal) + "[train]\nema = 1\n").find("from 0 to 0.9999999,"),
            std::string::npos);
}

TEST(Recipe, ARefusedSetNamesItsKeyOnceAndTheValueGot) {
  EXPECT_EQ(error_of(kMinimal, {"train.steps=-1"}),
            "--set train.steps: expected an integer >= 1, got -1");
  EXPECT_EQ(error_of(kMinimal, {"optim.lr=nan"}),
            "--set optim.lr: expected a number >= 0, got nan");
  EXPECT_EQ(error_of(kMinimal, {"seed=99999999999999999999"}),
            "--set seed: expected an integer >= 0, got 99999999999999999999, which does not fit 64 "
            "bits");
  EXPECT_EQ(error_of(kMinimal, {"data.weights=[1, \"x\"]"}),
            "--set data.weights: expected a list of numbers >= 0, got [1, \"x\"]");
  EXPECT_NE(error_of(kMinimal, {"train.steps=" + std::string(200, 'x')}).find("xxx...\""),
            std::string::npos);
}

TEST(Recipe, AHintComparesTheLastPartAndIsLeftOutWhenNothingIsNear) {
  EXPECT_EQ(error_of(kMinimal, {"steps=3"}),
            "--set steps: unknown key \"steps\", nearest is \"train.steps\"");
  EXPECT_NE(error_of(kMinimal, {"optim.steps=3"}).find("nearest is \"train.steps\""),
            std::string::npos);
  EXPECT_EQ(
      error_of(kMinimal, {"a.b.c=3"}),
      "--set a.b.c: unknown key \"a.b.c\"; there are seed, kind, title and the tables model, data, "
      "tune, train, checkpoint, optim, rl, env (mainspring train --keys)");
  EXPECT_NE(error_of(kMinimal, {"train=5"}).find("it is a table; set one of its keys: train.steps"),
            std::string::npos);
  EXPECT_NE(error_of(kMinimal, {"checkpoint.interval=5"})
                .find("the keys of this table are checkpoint.every, checkpoint.keep_last"),
            std::string::npos);
  EXPECT_EQ(error_of(kMinimal, {"data.loss_on=user"}),
            "--set data.loss_on: expected \"assistant\" | \"all\", got \"user\"");
}

TEST(Recipe, ASetValueIsTomlOrElseAString) {
  const auto recipe =
      load_recipe(write_recipe(kMinimal),
                  {"model.path=models/x.gguf", "data.files=[\"a\", \"b\"]", "train.steps=3"})
          .value();
  EXPECT_EQ(recipe.model.path, "models/x.gguf");
  EXPECT_EQ(recipe.data.files.size(), 2u);
  EXPECT_EQ(recipe.train.steps, 3);
  EXPECT_NE(error_of(kMinimal, {"train.steps"}).find("expected key=value"), std::string::npos);
}

TEST(Recipe, ImpossibleCombinationsAreRefused) {
  EXPECT_NE(error_of("[data]\nfiles = [\"a\"]\n").find("model.path is missing"), std::string::npos);
  EXPECT_NE(error_of("[model]\npath = \"m\"\n").find("data.files is missing"), std::string::npos);
  const std::string minimal = kMinimal;
  EXPECT_NE(error_of(minimal, {"model.quantise=nf4", "tune.mode=full"}).find("needs a frozen base"),
            std::string::npos);
  EXPECT_NE(error_of(minimal, {"data.weights=[1, 2]"}).find("expected one per file"),
            std::string::npos);
  EXPECT_NE(error_of(minimal, {"optim.schedule=wsd"}).find("optim.decay_steps"), std::string::npos);
  EXPECT_NE(error_of(minimal, {"optim.warmup_steps=1000"}).find("at most train.steps"),
            std::string::npos);
  const std::string most = std::to_string(INT64_MAX);  // the sum must not wrap
  EXPECT_NE(error_of(minimal, {"optim.schedule=wsd", "optim.warmup_steps=" + most,
                               "optim.decay_steps=" + most})
                .find("at most train.steps"),
            std::string::npos);
  EXPECT_NE(error_of(minimal, {"optim.decay_steps=5"}).find("with \"cosine\" it must be 0, got 5"),
            std::string::npos);
  EXPECT_NE(error_of(minimal, {"optim.schedule=constant", "optim.final_ratio=0.1"})
                .find("a schedule that falls"),
            std::string::npos);
  EXPECT_NE(error_of(minimal, {"tune.targets=[\"q_proj\", \"v_proj\", \"q_proj\"]"})
                .find("tune.targets: \"q_proj\" stands there twice"),
            std::string::npos);
  EXPECT_NE(error_of(minimal, {"tune.mode=full", "tune.targets=q_proj"}).find("belongs to LoRA"),
            std::string::npos);
}

TEST(Recipe, EveryKeyHasAMeaning) {
  for (const RecipeKey& key : recipe_keys()) {
    EXPECT_FALSE(key.meaning.empty()) << key.key;
    EXPECT_FALSE(key.fallback.empty()) << key.key;
  }
}

TEST(Recipe, AWrongGroupSaysWhichWhereAndWhatItGot) {
  const auto group = [](const std::string& text) {
    return error_of(std::string(kMinimal) + "[[optim.groups]]\nparams = \"a\"\n" +
                    "[[optim.groups]]\n" + text);
  };
  const auto expect_end = [](const std::string& error, const std::string& end) {
    EXPECT_TRUE(error.ends_with(end)) << error;
  };
  expect_end(group("params = \"b\"\nlr_scale = \"x\"\n"),
             "recipe_test.toml:9:12: optim.groups, group 2: lr_scale: expected a number >= 0, got "
             "\"x\"");
  expect_end(group("lr_scale = 1\n"),
             "recipe_test.toml:7:1: optim.groups, group 2: params is missing: the names of its "
             "parameters");
  expect_end(group("params = \"b\"\nlr_scal = 1\n"),
             "recipe_test.toml:9:11: optim.groups, group 2: unknown key \"lr_scal\", nearest is "
             "\"lr_scale\"");
  expect_end(group("params = [1]\n"),
             "optim.groups, group 2: params: expected a name or a list of names, got [1]");
  EXPECT_EQ(error_of(kMinimal, {"optim.groups=[{params=\"a\", weight_decay=-1}]"}),
            "--set optim.groups, group 1: weight_decay: expected a number >= 0, got -1");
  EXPECT_EQ(
      error_of(kMinimal, {"optim.groups=3"}),
      "--set optim.groups: expected tables [[optim.groups]] with params, optimizer, lr_scale, "
      "weight_decay, got 3");
}

}  // namespace
}  // namespace mainspring
