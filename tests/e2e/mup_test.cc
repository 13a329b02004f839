// muP on a recipe: training moves a model alike at every width, checkpoints are plain models.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/models/export.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/train/mup_check.h"
#include "mainspring/train/trainer.h"
#include "mainspring/weights/digest.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

class Mup : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream rows(dir_ + "/rows.jsonl");
    for (int i = 0; i < 64; ++i) {
      rows << "{\"text\": \"" << i * i << " apples and " << 7 * i % 11 << " pears make "
           << i * i + 7 * i % 11 << " pieces of fruit.\"}\n";
    }
    std::ofstream(dir_ + "/recipe.toml")
        << "seed = 3\n[model]\nfamily = \"llama\"\nlayers = 2\nhidden = 64\nheads = 4\ncontext = "
           "64\ndtype = \"f32\"\nmup_base_hidden = 64\ninit_std = 0.08\n[data]\nfiles = [\""
        << dir_ << "/rows.jsonl\"]\nmax_tokens = 64\n[tune]\nmode = \"full\"\n"
        << "[train]\nsteps = 6\nbatch_size = 4\n[optim]\nlr = 0.004\n";
  }
  Recipe recipe(const std::vector<std::string>& sets) {
    auto loaded = load_recipe(dir_ + "/recipe.toml", sets);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return std::move(loaded).value();
  }
  std::string refusal(const std::vector<std::string>& sets) {
    const auto loaded = load_recipe(dir_ + "/recipe.toml", sets);
    return loaded.ok() ? "" : loaded.status().message();
  }
  TrainResult run(const std::string& name, const std::vector<std::string>& sets) {
    const auto executor = test::make_executor();
    return run_training(recipe(sets), *executor,
                        {.run_dir = dir_ + "/" + name,
                         .resume = false,
                         .dry_run = false,
                         .should_stop = {},
                         .before_step = {},
                         .facts = {},
                         .say = {}})
        .value();
  }
  std::string digest(const std::string& name) {
    return load_newest_checkpoint(dir_ + "/" + name + "/checkpoints")
        .value()
        .checkpoint->manifest.digest;
  }

  const TestDir folder_;
  const std::string dir_ = folder_.path();
};

struct CheckCase {
  const char* name;
  std::vector<std::string> sets;
  GrownHeads grown;
};

/// A failing test shows the name.
void PrintTo(const CheckCase& c, std::ostream* out) { *out << c.name; }

class MupCoordinates : public Mup, public testing::WithParamInterface<CheckCase> {};

TEST_P(MupCoordinates, ChangesAreAlikeAtEveryWidthAndGrowWithout) {
  const CheckCase& c = GetParam();
  const auto executor = test::make_executor();
  const MupCheckOptions options{.widths = {64, 128, 256}, .steps = 3, .grown = c.grown};
  const CoordinateTable mup = check_coordinates(recipe(c.sets), *executor, options).value();
  MupCheckOptions without = options;
  without.standard = true;
  const CoordinateTable standard = check_coordinates(recipe(c.sets), *executor, without).value();
  EXPECT_EQ(mup.parametrisation, "muP");
  EXPECT_TRUE(growing_series(mup).empty()) << coordinates_text(mup);
  const std::vector<std::string> growing = growing_series(standard);
  EXPECT_NE(std::find(growing.begin(), growing.end(), "logits"), growing.end())
      << coordinates_text(standard);
  // At the base's width both are one model.
  for (size_t s = 0; s < mup.runs[0].series.size(); ++s)
    EXPECT_EQ(mup.runs[0].series[s].change, standard.runs[0].series[s].change);
  EXPECT_EQ(mup.runs[0].losses, standard.runs[0].losses);
}

INSTANTIATE_TEST_SUITE_P(
    Families, MupCoordinates,
    testing::Values(
        CheckCase{"llama", {}, GrownHeads::kMore},
        CheckCase{"llama_wider_heads", {"model.mup_base_head_dim=16"}, GrownHeads::kWider},
        CheckCase{
            "qwen3", {"model.family=qwen3", "model.mup_base_head_dim=16"}, GrownHeads::kWider},
        CheckCase{"gpt2", {"model.family=gpt2"}, GrownHeads::kMore}),
    [](const auto& info) { return info.param.name; });

TEST_F(Mup, AtTheBaseWidthNoBitChanges) {
  run("with", {"optim.weight_decay=0.1"});
  run("without", {"optim.weight_decay=0.1", "model.mup_base_hidden=0"});
  run("wider_base", {"optim.weight_decay=0.1", "model.mup_base_hidden=32"});
  EXPECT_EQ(digest("with"), digest("without"));
  EXPECT_NE(digest("with"), digest("wider_base"));
}

TEST_F(Mup, ACheckpointAndItsExportArePlainModels) {
  const TrainResult result =
      run("a", {"model.mup_base_hidden=16", "model.family=qwen3", "model.mup_base_head_dim=4"});
  const auto model = load_model(result.newest_checkpoint).value();
  EXPECT_NE(model->config_json.find("\"Qwen3ForCausalLM\""), std::string::npos);
  ASSERT_TRUE(export_hf_folder(*model, dir_ + "/hf", {.dtype = DType::kF32}).ok());
  const auto exported = load_model(dir_ + "/hf").value();
  EXPECT_EQ(exported->config, model->config);
  EXPECT_EQ(digest_of(exported->weights), digest_of(model->weights));
}

TEST_F(Mup, WhatItsRulesDoNotCoverIsRefused) {
  EXPECT_NE(refusal({"optim.optimizer=muon"}).find("not muon's"), std::string::npos);
  EXPECT_NE(refusal({"optim.groups=[{params=[\"*\"], optimizer=\"lion\"}]"}).find("not lion's"),
            std::string::npos);
  EXPECT_NE(refusal({"model.family=", "model.path=x"}).find("model.mup_base_hidden is of a new"),
            std::string::npos);
  EXPECT_NE(refusal({"model.mup_base_hidden=0", "model.mup_base_head_dim=8"})
                .find("set model.mup_base_hidden"),
            std::string::npos);
}

TEST_F(Mup, WidthsThatNoModelHasAreRefusedBeforeAnyStep) {
  const auto refused = [&](int64_t width, GrownHeads grown,
                           const std::vector<std::string>& sets = {}) {
    const auto made = recipe_at_width(recipe(sets), width, grown);
    return made.ok() ? "" : made.status().message();
  };
  EXPECT_EQ(refused(72, GrownHeads::kMore),
            "width 72: model.heads would be 4 * 72 / 64, which is no whole number");
  EXPECT_NE(refused(96, GrownHeads::kMore, {"model.kv_heads=1"}).find("model.kv_heads"),
            std::string::npos);
  EXPECT_NE(refused(96, GrownHeads::kMore, {"model.intermediate=101"}).find("model.intermediate"),
            std::string::npos);
  EXPECT_NE(refused(128, GrownHeads::kWider).find("model.mup_base_head_dim"), std::string::npos);
  EXPECT_EQ(refused(128, GrownHeads::kWider, {"model.mup_base_head_dim=16"}), "");
  EXPECT_EQ(recipe_at_width(recipe({}), 128, GrownHeads::kMore)->model.heads, 8);
  EXPECT_EQ(recipe_at_width(recipe({}), 32, GrownHeads::kMore)->model.heads, 2);
}

}  // namespace
}  // namespace mainspring
