// Training from nothing: a model made from its shape, on bytes, with z-loss.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/data/shard_build.h"
#include "mainspring/io/safetensors.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/models/export.h"
#include "mainspring/models/export_gguf.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/models/model_text.h"
#include "mainspring/models/random_model.h"
#include "mainspring/train/count.h"
#include "mainspring/train/new_model.h"
#include "mainspring/train/trainer.h"
#include "mainspring/weights/digest.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

class Pretrain : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream rows(dir_ + "/rows.jsonl");
    for (int i = 0; i < 24; ++i) {
      rows << "{\"text\": \"The quick brown fox number " << i << " jumps over the lazy dog.\"}\n";
    }
    std::ofstream(dir_ + "/recipe.toml")
        << "seed = 3\n[model]\nfamily = \"llama\"\nlayers = 2\nhidden = 32\nheads = 4\nkv_heads = "
           "2\n"
        << "context = 64\ntie_embeddings = true\n[data]\nfiles = [\"" << dir_
        << "/rows.jsonl\"]\nmax_tokens = 64\nheld_out = 0.2\n[tune]\nmode = \"full\"\n"
        << "[train]\nsteps = 20\nbatch_size = 4\n[optim]\nlr = 0.01\n";
  }
  Result<TrainResult> run(const std::string& name, const std::vector<std::string>& sets = {},
                          bool resume = false, int64_t stop_after = -1) {
    const auto recipe = load_recipe(dir_ + "/recipe.toml", sets);
    if (!recipe.ok()) return recipe.status();
    const auto executor = test::make_executor();
    int64_t asked = 0;
    return run_training(*recipe, *executor,
                        {.run_dir = dir_ + "/" + name,
                         .resume = resume,
                         .dry_run = false,
                         .should_stop = [&] { return stop_after >= 0 && asked++ >= stop_after; },
                         .facts = {},
                         .say = {}});
  }

  std::string refusal(const std::vector<std::string>& sets) {
    return run("refused", sets).status().message();
  }

  std::string digest(const std::string& name) {
    return load_newest_checkpoint(dir_ + "/" + name + "/checkpoints")
        .value()
        .checkpoint->manifest.digest;
  }

  const TestDir folder_;
  const std::string dir_ = folder_.path();
};

TEST_F(Pretrain, ANewModelLearnsFromTheUniformLoss) {
  const TrainResult result = run("a").value();
  EXPECT_NEAR(result.first_eval_loss, std::log(257.0), 0.2);
  EXPECT_LT(result.last_eval_loss, result.first_eval_loss - 1.5);
}

TEST_F(Pretrain, ItsCheckpointIsAModelFolder) {
  const TrainResult result = run("a", {"train.steps=2"}).value();
  const auto model = load_model(result.newest_checkpoint).value();
  EXPECT_EQ(model->config.family, "llama");
  EXPECT_EQ(model->config.eos_tokens, std::vector<int32_t>{256});
  const ModelText text = make_model_text(*model).value();
  EXPECT_EQ(text.tokenizer->encode("ab").value(), (std::vector<int32_t>{'a', 'b'}));
}

/// What changes the fixture's recipe into a GPT-2.
const std::vector<std::string> kGpt2{"model.family=gpt2", "model.kv_heads=0"};

std::vector<std::string> with(std::vector<std::string> sets, const std::string& more) {
  sets.push_back(more);
  return sets;
}

TEST_F(Pretrain, AGpt2LearnsAndItsCheckpointAndExportAreItsModel) {
  const TrainResult result = run("a", kGpt2).value();
  EXPECT_NEAR(result.first_eval_loss, std::log(257.0), 0.2);
  EXPECT_LT(result.last_eval_loss, result.first_eval_loss - 1.5);
  const auto model = load_model(result.newest_checkpoint).value();
  EXPECT_EQ(model->config.family, "gpt2");
  EXPECT_EQ(model->config.ffn, 4 * 32);
  ASSERT_TRUE(export_hf_folder(*model, dir_ + "/hf", {.dtype = DType::kF32}).ok());
  const auto exported = load_model(dir_ + "/hf").value();
  EXPECT_EQ(exported->config, model->config);
  EXPECT_EQ(digest_of(exported->weights), digest_of(model->weights));
  const auto file = open_safetensors_folder(dir_ + "/hf").value();
  EXPECT_TRUE(file.tensors.contains("transformer.h.1.attn.c_attn.weight"));
  EXPECT_FALSE(file.tensors.contains("lm_head.weight"));
}

TEST_F(Pretrain, ACapBoundsTheLogitsAndIsReadBack) {
  for (const std::string family : {"llama", "gpt2"}) {
    const auto sets = with(family == "gpt2" ? kGpt2 : std::vector<std::string>{}, "train.steps=2");
    ASSERT_TRUE(run(family + "_off", sets).ok());
    const TrainResult on = run(family + "_on", with(sets, "model.logit_soft_cap=0.25")).value();
    EXPECT_NE(digest(family + "_off"), digest(family + "_on"));
    // Logits within 0.25 of zero: every probability is within e^0.5 of 1/257.
    EXPECT_NEAR(on.last_eval_loss, std::log(257.0), 0.5);
    const auto model = load_model(on.newest_checkpoint).value();
    EXPECT_EQ(model->config.family, family);
    EXPECT_EQ(model->config.final_softcap, 0.25f);
    // No class of transformers computes it: the type says so, and a folder for it is refused.
    EXPECT_NE(model->config_json.find("\"mainspring_" + family), std::string::npos);
    EXPECT_NE(export_hf_folder(*model, dir_ + "/hf", {}).message().find("caps the logits"),
              std::string::npos);
    const std::string refused = export_gguf(*model, dir_ + "/g.gguf", {}).message();
    EXPECT_NE(refused.find("final_logit_softcapping"), std::string::npos) << refused;
  }
}

TEST_F(Pretrain, EveryFamilyAndOptimizerResumesWithTheSameBits) {
  const std::vector<std::vector<std::string>> cases{
      {"train.z_loss=0.001"},
      with(kGpt2, "model.logit_soft_cap=20"),
      with(kGpt2, "optim.optimizer=muon"),
      {"model.family=qwen3", "model.head_dim=16", "optim.optimizer=muon", "optim.lr=0.003"}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string name = std::to_string(i);
    ASSERT_TRUE(run(name + "whole", cases[i]).ok());
    ASSERT_TRUE(run(name + "cut", cases[i], false, 7).ok());
    ASSERT_TRUE(run(name + "cut", cases[i], true).ok());
    EXPECT_EQ(digest(name + "whole"), digest(name + "cut"));
  }
}

TEST_F(Pretrain, TheZLossIsAddedAndShownApart) {
  ASSERT_TRUE(run("off", {"train.steps=3"}).ok());
  ASSERT_TRUE(run("on", {"train.steps=3", "train.z_loss=0.01"}).ok());
  EXPECT_NE(digest("off"), digest("on"));
  std::ifstream metrics(dir_ + "/on/metrics.jsonl");
  std::string line;
  std::vector<double> z;
  std::vector<double> loss;
  while (std::getline(metrics, line)) {
    const Json json = Json::parse(line);
    z.push_back(json["z_loss"].get<double>());
    loss.push_back(json["loss"].get<double>());
  }
  ASSERT_EQ(z.size(), 3u);
  // lse starts at about log(257): 0.01 * 5.549^2 = 0.308.
  EXPECT_NEAR(z[0], 0.01 * std::log(257.0) * std::log(257.0), 0.01);
  EXPECT_NEAR(loss[0], std::log(257.0), 0.2);
}

TEST_F(Pretrain, ImpossibleShapesAreRefusedByTheirKeys) {
  EXPECT_NE(refusal({"model.path=x"}).find("model.path and model.family exclude each other"),
            std::string::npos);
  EXPECT_NE(refusal({"tune.mode=lora"}).find("set tune.mode = \"full\""), std::string::npos);
  EXPECT_NE(refusal({"model.family=lama"}).find("nearest is \"llama\""), std::string::npos);
  EXPECT_NE(refusal({"model.qk_norm=true"}).find("\"qwen3\""), std::string::npos);
  EXPECT_NE(refusal({"model.heads=5"}).find("model.hidden: expected a multiple of model.heads (5)"),
            std::string::npos);
  EXPECT_NE(refusal({"model.kv_heads=3"}).find("[model]"), std::string::npos);
  EXPECT_NE(refusal({"model.vocab=100"}).find("257 tokens, the vocabulary only 100"),
            std::string::npos);
  EXPECT_NE(
      refusal(with(kGpt2, "model.kv_heads=2")).find("model.kv_heads: model.family = \"gpt2\""),
      std::string::npos);
  EXPECT_NE(refusal(with(kGpt2, "model.head_dim=16")).find("hidden / heads (8), got 16"),
            std::string::npos);
  EXPECT_NE(refusal(with(kGpt2, "model.rope_theta=5000")).find("model.rope_theta"),
            std::string::npos);
  EXPECT_NE(refusal({"model.family=", "model.path=x", "model.logit_soft_cap=1"}).find("new model"),
            std::string::npos);
  EXPECT_NE(refusal({"model.tokenizer=/no/such"}).find("/no/such"), std::string::npos);
}

TEST_F(Pretrain, TheCountIsThatOfTheModelThatIsMade) {
  const Recipe recipe = load_recipe(dir_ + "/recipe.toml", {}).value();
  const RecipeCount count = count_recipe(recipe).value();
  const auto model = make_new_model(recipe, 1).value();
  EXPECT_EQ(count.parameters, model->num_parameters);
  EXPECT_EQ(count.trained, model->num_parameters);
  EXPECT_EQ(count.optimal_tokens, 20 * model->num_parameters);
  EXPECT_EQ(count.tokens, 20 * 4 * 64);
  EXPECT_EQ(count.optimizer_bytes, 8 * model->num_parameters);
  // Two layers of q, k, v, o (32 x 32, 16 x 32 twice, 32 x 32) and three of 32 x 96; the head.
  const double weights = 2 * (32 * 32 * 3 + 3 * 32 * 96) + 257 * 32;
  EXPECT_EQ(count.flops_per_token, 6 * weights + 6.0 * 2 * 32 * 64);
  const Recipe gpt2 = load_recipe(dir_ + "/recipe.toml", kGpt2).value();
  const RecipeCount gpt2_count = count_recipe(gpt2).value();
  // Two tables, per layer two norms and six linears with biases, the last norm; the head is tied.
  const int64_t layer = 4 * 32 + 4 * (32 * 32 + 32) + 32 * 128 + 128 + 128 * 32 + 32;
  EXPECT_EQ(gpt2_count.parameters, (257 + 64) * 32 + 2 * layer + 2 * 32);
  EXPECT_EQ(gpt2_count.parameters, make_new_model(gpt2, 1).value()->num_parameters);
  EXPECT_EQ(gpt2_count.flops_per_token,
            6.0 * (2 * (4 * 32 * 32 + 2 * 32 * 128) + 257 * 32) + 6.0 * 2 * 32 * 64);
  const Recipe lion = load_recipe(dir_ + "/recipe.toml", {"optim.optimizer=lion"}).value();
  EXPECT_EQ(count_recipe(lion)->optimizer_bytes, 4 * model->num_parameters);
  EXPECT_NE(count_text(count).find("Hoffmann et al. 2022"), std::string::npos);
}

// The same, on token shards.
class PretrainShards : public Pretrain {
 protected:
  void SetUp() override {
    Pretrain::SetUp();
    build("");
    std::ofstream(dir_ + "/recipe.toml")
        << "seed = 3\n[model]\nfamily = \"llama\"\nlayers = 2\nhidden = 32\nheads = 4\n"
        << "context = 64\n[data]\nformat = \"shards\"\nfiles = [\"" << dir_
        << "/shards\"]\nmax_tokens = 24\n[tune]\nmode = \"full\"\n"
        << "[train]\nsteps = 12\nbatch_size = 4\n[optim]\nlr = 0.01\n";
  }

  // Shards of the fixture's rows.
  void build(const std::string& tokenizer) {
    LoadedModel named;
    named.tokenizer = read_tokenizer_source(tokenizer).value();
    ShardBuildOptions options;
    options.inputs = {dir_ + "/rows.jsonl"};
    options.out = dir_ + "/shards" + (tokenizer.empty() ? "" : "_other");
    options.tokenizer = make_model_text(named)->tokenizer;
    options.tokenizer_name = tokenizer.empty() ? "bytes" : tokenizer;
    options.held_out = 0.2;
    options.exact_duplicates = true;
    options.piece_bytes = 500;
    ASSERT_TRUE(build_shards(options).ok());
  }
};

TEST_F(PretrainShards, LearnAndResumeWithTheSameBits) {
  for (const std::string across : {"false", "true"}) {
    const std::vector<std::string> sets{"data.across_documents=" + across,
                                        "train.batch_tokens=100"};
    const TrainResult whole = run(across + "whole", sets).value();
    EXPECT_LT(whole.last_eval_loss, whole.first_eval_loss - 0.7);
    ASSERT_TRUE(run(across + "cut", sets, false, 5).ok());
    ASSERT_TRUE(run(across + "cut", sets, true).ok());
    EXPECT_EQ(digest(across + "whole"), digest(across + "cut"));
  }
}

TEST_F(PretrainShards, HeldOutRowsAndOtherTokenizersAreRefused) {
  EXPECT_NE(refusal({"data.held_out=0.1"}).find("held-out documents of their own"),
            std::string::npos);
  build(test::source_path("tests/golden/tiny/llama_tied"));
  EXPECT_NE(refusal({"data.files=" + dir_ + "/shards_other"}).find("another tokenizer"),
            std::string::npos);
  EXPECT_NE(refusal({"data.files=" + dir_}).find("no index.json"), std::string::npos);
  EXPECT_NE(refusal({"data.format=text", "data.across_documents=true"}).find("\"shards\""),
            std::string::npos);
}

}  // namespace
}  // namespace mainspring
