#include "mainspring/ckpt/manifest.h"

#include <gtest/gtest.h>

namespace mainspring {
namespace {

Manifest small_manifest() {
  Manifest manifest;
  manifest.format_version = kCheckpointFormat;
  manifest.step = 12;
  manifest.digest = "d";
  manifest.eval_loss = 1.25;
  manifest.files = {{"model.safetensors", 4096, "aa"}};
  manifest.tensors = {{"model/w", "model.safetensors", "f32", {2, 3}, "bb"}};
  return manifest;
}

TEST(Manifest, ComesBackAsItWasWritten) {
  const auto back = parse_manifest(manifest_text(small_manifest()), "m");
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(back->step, 12);
  EXPECT_EQ(back->eval_loss, 1.25);
  EXPECT_EQ(back->files[0].size_bytes, 4096);
  EXPECT_EQ(back->tensors[0].shape, (std::vector<int64_t>{2, 3}));
}

TEST(Manifest, AnotherFormatVersionIsRefusedWithBothNumbers) {
  Manifest manifest = small_manifest();
  manifest.format_version = 2;
  const Status status = parse_manifest(manifest_text(manifest), "m").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("version 2"), std::string::npos);
}

TEST(Manifest, EveryFlippedByteAndEveryCutIsNoticed) {
  const std::string text = manifest_text(small_manifest());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    EXPECT_FALSE(parse_manifest(damaged, "m").ok()) << "byte " << i << " '" << text[i] << "'";
    if (i + 2 >= text.size()) continue;  // without its last newline it is still whole
    EXPECT_FALSE(parse_manifest(text.substr(0, i), "m").ok());
  }
}

TEST(Manifest, StateWithMissingOrWrongFieldsIsDataLossAndNamesThem) {
  const auto status_of = [](const std::string& text) { return parse_state(text, "s").status(); };
  EXPECT_EQ(status_of("{").code(), StatusCode::kDataLoss);
  EXPECT_EQ(status_of("[]").code(), StatusCode::kDataLoss);
  EXPECT_NE(status_of(R"({"step":1,"seed":-1})").message().find("seed"), std::string::npos);
  EXPECT_NE(status_of(R"({"step":1,"seed":1})").message().find("data"), std::string::npos);
}

TEST(Manifest, ALossOfAnotherStepIsRefused) {
  const std::string text = next_loss_text(5, 1.0 / 3);
  EXPECT_EQ(*parse_next_loss(text, 5, "l"), 1.0 / 3);
  EXPECT_FALSE(parse_next_loss(text, 6, "l").ok());
}

TEST(Manifest, CheckpointNamesRoundTripAndOthersAreNone) {
  EXPECT_EQ(checkpoint_name(123), "step-000123");
  EXPECT_EQ(checkpoint_step("step-000123"), 123);
  EXPECT_EQ(checkpoint_step("step-1234567"), 1234567);
  for (const char* name :
       {"step-", "step-123", "step-000123x", ".tmp-step-000123", "step--00012"}) {
    EXPECT_EQ(checkpoint_step(name), -1) << name;
  }
}

}  // namespace
}  // namespace mainspring
