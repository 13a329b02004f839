// A moving average of the weights: its values, what uses it, resume and export.
#include <cmath>
#include <filesystem>

#include "mainspring/cli/cmd_export.h"
#include "mainspring/models/adapter.h"
#include "mainspring/models/loaded_model.h"
#include "tests/e2e/tiny_run.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

class Ema : public TinyRun {
 protected:
  /// Tensors of a checkpoint by role.
  static TensorSet tensors(const Checkpoint& checkpoint, const std::string& role) {
    for (const CheckpointFile& file : checkpoint.files) {
      if (file.role == role) return file.tensors;
    }
    return {};
  }
  static std::vector<float> floats(const StoredTensor& tensor) {
    const auto* values = static_cast<const float*>(tensor.data);
    return {values, values + tensor.num_elements()};
  }
};

// In f64 from the weights of every step.
TEST_F(Ema, FollowsTheWeightsOfEveryStep) {
  for (const bool warmup : {false, true}) {
    const std::string name = warmup ? "warm" : "plain";
    ASSERT_TRUE(
        run(name, {"train.steps=4", "train.ema=0.6", "checkpoint.every=1", "checkpoint.keep_last=9",
                   std::string("train.ema_warmup=") + (warmup ? "true" : "false")})
            .ok());
    const std::string weight = "model.layers.0.mlp.up_proj.weight";
    const auto model = load_model(test::source_path("tests/golden/tiny/llama_gqa")).value();
    std::vector<float> start = floats(model->weights.at(weight));
    std::vector<double> average(start.begin(), start.end());
    for (int t = 1; t <= 4; ++t) {
      const Checkpoint checkpoint =
          load_checkpoint(dir_ + "/" + name + "/checkpoints/" + checkpoint_name(t)).value();
      const std::vector<float> weights = floats(tensors(checkpoint, "model").at(weight));
      const std::vector<float> got = floats(tensors(checkpoint, "ema").at(weight));
      const double decay = warmup ? std::min(0.6, (1.0 + t) / (10.0 + t)) : 0.6;
      for (size_t i = 0; i < average.size(); ++i) {
        average[i] = decay * average[i] + (1 - decay) * static_cast<double>(weights[i]);
        ASSERT_NEAR(static_cast<double>(got[i]), average[i], 1e-6 * (1 + std::abs(average[i])));
      }
    }
  }
}

TEST_F(Ema, ResumesWithTheSameBits) {
  for (const std::string mode : {"lora", "full"}) {
    expect_resumes(mode, {"tune.mode=" + mode, "train.ema=0.9"});
  }
}

TEST_F(Ema, ChangesNoWeightAndIsWhatEvaluationsTake) {
  const TrainResult without = run("without", {}).value();
  const TrainResult with = run("with", {"train.ema=0.9"}).value();
  const TrainResult raw = run("raw", {"train.ema=0.9", "train.ema_eval=false"}).value();
  EXPECT_EQ(raw.last_eval_loss, without.last_eval_loss);
  EXPECT_EQ(with.first_eval_loss, without.first_eval_loss);
  EXPECT_NE(with.last_eval_loss, without.last_eval_loss);
  EXPECT_LT(with.last_eval_loss, with.first_eval_loss);
  const TensorSet a = tensors(newest("without"), "model");
  const TensorSet b = tensors(newest("with"), "model");
  for (const auto& [name, tensor] : a) EXPECT_EQ(floats(tensor), floats(b.at(name))) << name;
  EXPECT_TRUE(tensors(newest("without"), "ema").empty());
}

TEST_F(Ema, IsExportedOnRequest) {
  const std::string base = test::source_path("tests/golden/tiny/llama_gqa");
  ASSERT_TRUE(run("full", {"train.ema=0.9"}).ok());
  const std::string checkpoint = dir_ + "/full/checkpoints/step-000020";
  ASSERT_EQ(cli::run_export({.model = base,
                             .adapter = "",
                             .weights = checkpoint,
                             .ema = true,
                             .out = dir_ + "/exported",
                             .format = "hf",
                             .dtype = "f32"}),
            0);
  const auto model = load_model(dir_ + "/exported").value();
  for (const auto& [name, tensor] : tensors(newest("full"), "ema")) {
    EXPECT_EQ(floats(model->weights.at(name)), floats(tensor)) << name;
  }

  ASSERT_TRUE(run("lora", {"tune.mode=lora", "train.ema=0.9"}).ok());
  ASSERT_EQ(cli::run_export({.model = base,
                             .adapter = dir_ + "/lora/checkpoints/step-000020",
                             .weights = "",
                             .ema = true,
                             .out = dir_ + "/adapter",
                             .format = "peft",
                             .dtype = "f32"}),
            0);
  const Adapter adapter = load_peft(dir_ + "/adapter", model->config).value();
  const TensorSet saved = tensors(newest("lora"), "ema");
  EXPECT_EQ(adapter.tensors.size(), saved.size());
  for (const auto& [name, tensor] : adapter.tensors) {
    EXPECT_EQ(floats(tensor), floats(saved.at(peft_tensor_name(name)))) << name;
  }
}

TEST_F(Ema, ARunWithoutOneHasNothingToExport) {
  ASSERT_TRUE(run("a", {"train.steps=1"}).ok());
  testing::internal::CaptureStderr();
  EXPECT_NE(cli::run_export({.model = test::source_path("tests/golden/tiny/llama_gqa"),
                             .adapter = "",
                             .weights = dir_ + "/a/checkpoints/step-000001",
                             .ema = true,
                             .out = dir_ + "/exported",
                             .format = "hf",
                             .dtype = "f32"}),
            0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("only checkpoints of a run with train.ema have a moving average"),
            std::string::npos)
      << said;
  EXPECT_FALSE(fs::exists(dir_ + "/exported"));
}

TEST_F(Ema, CannotBeSwitchedOnAtResume) {
  ASSERT_TRUE(run("a", {}, {.stop_after = 2}).ok());
  const Status status = run("a", {"train.ema=0.9"}, {.resume = true}).status();
  EXPECT_NE(status.message().find("train.ema"), std::string::npos) << status.to_string();
}

}  // namespace
}  // namespace mainspring
