// Training with optimizer states, and weights, in fewer bits than f32: that it learns as well,
// takes less memory, resumes with the same bits, and does not depend on where it runs.
#include <cmath>

#include "mainspring/exec/cpu/isa.h"
#include "mainspring/train/count.h"
#include "tests/e2e/tiny_run.h"

namespace mainspring {
namespace {

const std::vector<std::string> kCoded{"optim.optimizer=adamw8bit"};
const std::vector<std::string> kHalf{"optim.state=bf16"};
const std::vector<std::string> kBoth{"optim.optimizer=adamw8bit", "optim.state=bf16"};

class CompactStates : public TinyRun {
 protected:
  /// A new model of 0.9 M parameters: matrices of 4096 elements and more, and small vectors.
  std::vector<std::string> with_new_model(std::vector<std::string> sets) {
    for (const char* set :
         {"model.path=", "model.family=llama", "model.layers=2", "model.hidden=128",
          "model.heads=4", "model.context=64", "model.vocab=320", "optim.lr=0.003"}) {
      sets.push_back(set);
    }
    return sets;
  }
  /// Bytes of a checkpoint's tensors by role, and their elements.
  static int64_t bytes(const Checkpoint& checkpoint, const std::string& role) {
    int64_t sum = 0;
    for (const CheckpointFile& file : checkpoint.files) {
      if (file.role != role) continue;
      for (const auto& [name, tensor] : file.tensors) sum += tensor.size_bytes;
    }
    return sum;
  }
};

TEST_F(CompactStates, LearnAsWellAsF32) {
  const std::vector<std::string> none;
  const double f32 = run("f32", with_new_model(none)).value().last_eval_loss;
  const double start = std::log(320.0);
  EXPECT_LT(f32, start - 1.5);
  for (const auto& [name, sets] : {std::pair{"coded", kCoded}, {"half", kHalf}, {"both", kBoth}}) {
    const double loss = run(name, with_new_model(sets)).value().last_eval_loss;
    EXPECT_NEAR(loss, f32, 0.05 * (start - f32)) << name;
  }
}

TEST_F(CompactStates, ResumeWithTheSameBits) {
  expect_resumes("coded", with_new_model(kCoded));
  expect_resumes("half", with_new_model(kHalf));
  expect_resumes("both", kBoth);
  expect_resumes("lion", {"optim.optimizer=lion", "optim.state=bf16", "optim.lr=0.0005"});
  expect_resumes("average", {"train.ema=0.9", "optim.state=bf16"});
  expect_resumes("adapter", {"tune.mode=lora", "optim.optimizer=adamw8bit"});
}

TEST_F(CompactStates, DoNotDependOnPathOrThreads) {
  std::vector<std::string> sets = with_new_model(kBoth);
  sets.push_back("train.steps=3");
  std::string first;
  for (const cpu::Isa isa : cpu::supported_isas()) {
    for (const int threads : {1, 3}) {
      const std::string where = std::string(cpu::isa_name(isa)) + std::to_string(threads);
      ASSERT_TRUE(
          run(where, sets, {.threads = threads, .isa = std::string(cpu::isa_name(isa))}).ok());
      if (first.empty()) first = digest(where);
      EXPECT_EQ(digest(where), first) << where;
    }
  }
}

TEST_F(CompactStates, DependOnTheSeedWhereTheyAreRoundedByChance) {
  std::vector<std::string> sets = kHalf;
  sets.insert(sets.end(), {"train.steps=2", "data.shuffle=false", "data.held_out=0"});
  ASSERT_TRUE(run("a", sets).ok());
  sets.push_back("seed=4");
  ASSERT_TRUE(run("b", sets).ok());
  bool differs = false;
  const Checkpoint a = newest("a"), b = newest("b");
  for (size_t i = 0; i < a.manifest.tensors.size(); ++i) {
    differs = differs || a.manifest.tensors[i].digest != b.manifest.tensors[i].digest;
  }
  EXPECT_TRUE(differs);
}

// Per element: 8 bytes of f32 moments; 2 of codes, and 8 per 256 elements; 4 of bf16 moments.
TEST_F(CompactStates, TakeTheMemoryThatTheCountSays) {
  const auto of = [&](const std::string& name, std::vector<std::string> sets) {
    sets.push_back("train.steps=1");
    EXPECT_TRUE(run(name, sets).ok());
    const RecipeCount count =
        count_recipe(load_recipe(dir_ + "/recipe.toml", sets).value()).value();
    const Checkpoint checkpoint = newest(name);
    EXPECT_EQ(bytes(checkpoint, "optimizer"), count.optimizer_bytes) << name;
    // A new model's weights are there twice: as they were made, and as they are now.
    EXPECT_EQ(2 * bytes(checkpoint, "model"), count.weight_bytes) << name;
    return count;
  };
  const RecipeCount f32 = of("f32", with_new_model({}));
  EXPECT_EQ(f32.optimizer_bytes, 8 * f32.trained);
  const RecipeCount coded = of("coded", with_new_model(kCoded));
  EXPECT_LT(coded.optimizer_bytes, 2.1 * static_cast<double>(coded.trained));
  EXPECT_GT(coded.optimizer_bytes, 2 * coded.trained);
  const RecipeCount half = of("half", with_new_model(kHalf));
  EXPECT_EQ(half.optimizer_bytes, 4 * half.trained);
  EXPECT_EQ(2 * half.weight_bytes, f32.weight_bytes);
}

TEST_F(CompactStates, WhatNeedsF32MastersIsRefusedByItsKey) {
  EXPECT_NE(refusal({"tune.mode=lora", "optim.state=bf16"}).find("tune.mode = \"full\""),
            std::string::npos);
  EXPECT_NE(refusal({"optim.state=bf16", "optim.optimizer=muon"})
                .find("optim.optimizer = \"muon\" needs f32 masters"),
            std::string::npos);
  EXPECT_NE(refusal({"optim.state=bf16", "optim.groups=[{params=\"*\", optimizer=\"adafactor\"}]"})
                .find("optim.groups[0].optimizer = \"adafactor\" needs f32 masters"),
            std::string::npos);
  ASSERT_TRUE(run("a", {}, {.stop_after = 2}).ok());
  const Status status = run("a", kHalf, {.resume = true}).status();
  EXPECT_NE(status.message().find("optim.state"), std::string::npos) << status.to_string();
}

}  // namespace
}  // namespace mainspring
