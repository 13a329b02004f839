#include "mainspring/train/sweep_grid.h"

#include <gtest/gtest.h>

#include <set>

#include "mainspring/io/test_dir.h"

namespace mainspring {
namespace {

class SweepGrid : public testing::Test {
 protected:
  Result<SweepPlan> load(const std::string& text, const std::vector<std::string>& sets = {}) {
    const std::string recipe =
        dir_.write("recipe.toml", "[model]\npath = \"m\"\n[data]\nfiles = [\"a.jsonl\"]\n");
    return load_sweep(dir_.write("grid.toml", "recipe = \"" + recipe + "\"\n" + text), sets);
  }
  std::string error_of(const std::string& text, const std::vector<std::string>& sets = {}) {
    const auto plan = load(text, sets);
    return plan.ok() ? "" : plan.status().message();
  }
  void expect_refused(const std::string& text, const std::vector<std::string>& words,
                      const std::vector<std::string>& sets = {}) {
    const std::string error = error_of(text, sets);
    for (const std::string& word : words) {
      EXPECT_NE(error.find(word), std::string::npos) << word << "\nis not in: " << error;
    }
  }

  const TestDir dir_;
};

std::vector<std::string> names_of(const SweepPlan& plan) {
  std::vector<std::string> names;
  for (const SweepPoint& point : plan.record.points) names.push_back(point.name);
  return names;
}

TEST_F(SweepGrid, EveryCombinationIsAPointInTheOrderOfTheFile) {
  const SweepPlan plan =
      load("[grid]\noptim.lr = [1e-3, 0.01]\nseed = [0, 1]\noptim.beta1 = [0.5]\n").value();
  EXPECT_EQ(names_of(plan),
            (std::vector<std::string>{"lr=0.001 seed=0 beta1=0.5", "lr=0.001 seed=1 beta1=0.5",
                                      "lr=0.01 seed=0 beta1=0.5", "lr=0.01 seed=1 beta1=0.5"}));
  EXPECT_EQ(plan.recipes[2].optim.lr, 0.01);
  EXPECT_EQ(plan.recipes[3].seed, 1u);
  EXPECT_EQ(plan.recipes[3].title, "grid: lr=0.01 seed=1 beta1=0.5");
  EXPECT_EQ(plan.record.points[3].folder, "points/lr-0.01_seed-1_beta1-0.5");
  EXPECT_EQ(plan.record.axes[0].labels, (std::vector<std::string>{"0.001", "0.01"}));
  EXPECT_EQ(plan.record.axes[0].numbers, (std::vector<double>{0.001, 0.01}));
}

TEST_F(SweepGrid, ZippedKeysChangeTogether) {
  const SweepPlan plan = load(
                             "[set]\ntrain.steps = 7\n[grid]\nseed = [0, 1]\n"
                             "[[zip]]\ntune.rank = [4, 8]\ntune.alpha = [8, 16.0]\n")
                             .value();
  EXPECT_EQ(plan.record.points.size(), 4u);
  EXPECT_EQ(names_of(plan)[1], "seed=0 rank=8 alpha=16.0");
  EXPECT_EQ(plan.record.axes[1].title, "rank/alpha");
  EXPECT_EQ(plan.record.axes[1].labels[1], "8/16.0");
  EXPECT_EQ(plan.recipes[3].train.steps, 7);
}

TEST_F(SweepGrid, ALongerGridFindsTheFoldersOfAShorterOne) {
  const SweepPlan few = load("[grid]\noptim.lr = [0.2, 0.1]\n").value();
  const SweepPlan more = load("[grid]\noptim.lr = [0.4, 0.2, 0.3, 0.1]\n").value();
  std::set<std::string> folders;
  for (const SweepPoint& point : more.record.points) folders.insert(point.folder);
  EXPECT_EQ(folders.size(), 4u);
  for (const SweepPoint& point : few.record.points) EXPECT_TRUE(folders.contains(point.folder));
}

TEST_F(SweepGrid, ValuesThatAFolderCannotBeNamedByKeepFoldersApart) {
  const SweepPlan plan =
      load("[grid]\ndata.files = [[\"a/b.jsonl\"], [\"a-b.jsonl\"], [\"a?b.jsonl\"]]\n").value();
  std::set<std::string> folders;
  for (const SweepPoint& point : plan.record.points) folders.insert(point.folder);
  EXPECT_EQ(folders.size(), 3u);
}

TEST_F(SweepGrid, WrongKeysAreRefusedWithPlaceAndNearestName) {
  expect_refused("[grid]\noptim.lrr = [0.1]\n",
                 {"grid.toml:3:", "unknown key \"optim.lrr\"", "nearest is \"optim.lr\""});
  expect_refused("[set]\ntrain.step = 3\n[grid]\noptim.lr = [0.1]\n",
                 {"grid.toml:3:", "nearest is \"train.steps\""});
  expect_refused("[grd]\noptim.lr = [0.1]\n", {"grid.toml:2:", "nearest is \"grid\""});
  expect_refused("metric = \"eval_los\"\n[grid]\noptim.lr = [0.1]\n",
                 {"grid.toml:2:", "nearest is \"eval_loss\""});
  expect_refused("[grid]\ntitle = [\"a\", \"b\"]\n", {"title at the top"});
  expect_refused("[grid]\noptim.lr = [0.1]\n", {"--set: title", "title at the top"}, {"title=b"});
}

TEST_F(SweepGrid, WrongListsAreRefusedWithTheirPlace) {
  expect_refused("[grid]\noptim.lr = []\n", {"grid.toml:3:", "optim.lr", "the list is empty"});
  expect_refused("[grid]\noptim.lr = 0.1\n", {"grid.toml:3:", "got 0.1", "belongs into [set]"});
  expect_refused("[grid]\noptim.lr = [0.1, 0.2, 1e-1]\n",
                 {"grid.toml:3:", "optim.lr = 0.1 stands there twice, as values 1 and 3"});
  expect_refused("[grid]\nseed = [1, 1.0]\n", {"stands there twice"});
  expect_refused("[[zip]]\nseed = [1, 2]\ntrain.steps = [3]\n",
                 {"train.steps: has 1 values, seed has 2"});
  expect_refused("[set]\nseed = 3\n", {"no axes"});
  expect_refused("", {"no axes"});
}

TEST_F(SweepGrid, AKeyStandsInOnePlaceOnly) {
  expect_refused("[set]\noptim.lr = 1.0\n[grid]\noptim.lr = [0.1]\n", {"optim.lr: stands in"});
  expect_refused("[grid]\nseed = [0]\n[[zip]]\nseed = [1]\n", {"seed: stands in"});
  expect_refused("[grid]\noptim.lr = [0.1]\n", {"--set optim.lr: is an axis of the grid"},
                 {"optim.lr=3"});
}

TEST_F(SweepGrid, TooManyPointsAreCountedNotMade) {
  std::string seeds;
  for (int i = 0; i < 101; ++i) seeds += (i == 0 ? "" : ", ") + std::to_string(i);
  expect_refused("[grid]\nseed = [" + seeds + "]\noptim.lr = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n",
                 {"101 x 10 points, more than 1000"});
}

TEST_F(SweepGrid, ABadPointIsNamed) {
  expect_refused("[grid]\noptim.lr = [0.1, -1]\nseed = [0]\n",
                 {"point lr=-1 seed=0", "grid.toml:3:", "expected a number >= 0, got -1"});
  expect_refused("[grid]\noptim.warmup_steps = [5, 500]\n",
                 {"point warmup_steps=500", "expected at most train.steps (100)"});
}

TEST_F(SweepGrid, OnlyChoosesByNumberAndByValue) {
  const SweepRecord sweep =
      load("[grid]\noptim.lr = [1e-3, 0.01, 0.1]\nseed = [0, 1]\n").value().record;
  const auto chosen = [&](const std::vector<std::string>& only) {
    return chosen_points(sweep, only).value();
  };
  EXPECT_EQ(chosen({}).size(), 6u);
  EXPECT_EQ(chosen({"2-3,6"}), (std::vector<size_t>{1, 2, 5}));
  EXPECT_EQ(chosen({"lr=1e-3,0.1"}), (std::vector<size_t>{0, 1, 4, 5}));
  EXPECT_EQ(chosen({"optim.lr=0.001", "seed=1"}), (std::vector<size_t>{1}));
  const auto refused = [&](const std::vector<std::string>& only) {
    return chosen_points(sweep, only).status().message();
  };
  EXPECT_NE(refused({"7"}).find("numbers from 1 to 6"), std::string::npos);
  EXPECT_NE(refused({"sed=1"}).find("nearest is \"seed\""), std::string::npos);
  EXPECT_NE(refused({"lr=5"}).find("there are 0.001, 0.01, 0.1"), std::string::npos);
  EXPECT_NE(refused({"1", "2"}).find("no point fits"), std::string::npos);
}

}  // namespace
}  // namespace mainspring
