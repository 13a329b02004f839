// Row files through `sample` and `logprobs`: what decides the exit code.
#include <gtest/gtest.h>

#include <filesystem>

#include "mainspring/cli/cmd_logprobs.h"
#include "mainspring/cli/cmd_sample.h"
#include "mainspring/io/test_dir.h"

namespace mainspring::cli {
namespace {

class RowCommandsTest : public testing::Test {
 protected:
  RowCommandsTest() { model_.threads = 1; }

  static std::string tiny_model() {
    return std::string(std::getenv("MS_SOURCE_DIR")) + "/tests/golden/tiny/qwen2";
  }
  // The tiny model with a tokenizer that cannot write "~".
  std::string model_without_tilde() {
    std::filesystem::copy(tiny_model(), dir_.file("model"));
    std::string tokenizer = dir_.read("model/tokenizer.json");
    const size_t at = tokenizer.find("\"~\"");
    dir_.write("model/tokenizer.json", tokenizer.replace(at, 3, "\"qqqq\""));
    return dir_.file("model");
  }
  int sample(const std::string& model, const std::string& rows) {
    SampleFlags flags;
    flags.model = model_;
    flags.model.model = model;
    flags.in = dir_.write("in.jsonl", rows);
    flags.out = dir_.file("out.jsonl");
    flags.max_tokens = 12;
    return run_sample(flags);
  }

  ModelFlags model_;
  TestDir dir_;
};

TEST_F(RowCommandsTest, AnInputWithoutRowsIsRefused) {
  LogprobsFlags flags;
  flags.model = model_;
  flags.model.model = tiny_model();
  flags.in = dir_.write("none.jsonl", "\n");
  flags.out = dir_.file("out.jsonl");
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_logprobs(flags), 1);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("none.jsonl: has no rows"),
            std::string::npos);
  EXPECT_EQ(sample(tiny_model(), ""), 1);
  EXPECT_FALSE(dir_.has("out.jsonl"));
  EXPECT_FALSE(dir_.has("out.jsonl.partial"));
}

TEST_F(RowCommandsTest, ADeadEndFailsTheCommandAndKeepsItsRows) {
  const std::string model = model_without_tilde();
  const std::string fits = R"({"prompt":"a","json_schema":{"const":"ab"},"seed":1})";
  const std::string does_not = R"({"prompt":"a","json_schema":{"const":"a~"},"seed":1})";
  EXPECT_EQ(sample(model, fits + "\n"), 0);
  std::filesystem::remove(dir_.file("out.jsonl"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(sample(model, fits + "\n" + does_not + "\n"), 1);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("1 samples ended before their JSON was whole"), std::string::npos) << said;
  EXPECT_NE(dir_.read("out.jsonl").find("\"dead_end\""), std::string::npos);
}

}  // namespace
}  // namespace mainspring::cli
