#include "mainspring/cli/speculation_flags.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace mainspring::cli {
namespace {

std::string tiny(const std::string& name) {
  return std::string(std::getenv("MS_SOURCE_DIR")) + "/tests/golden/tiny/" + name;
}

Status status_of(const std::string& model, const std::string& draft) {
  ModelFlags flags;
  flags.model = tiny(model);
  flags.threads = 1;
  const auto session = ModelSession::open(flags);
  EXPECT_TRUE(session.ok()) << session.status().to_string();
  return open_speculation({.max_draft = 4, .draft_model = tiny(draft)}, **session).status();
}

TEST(SpeculationFlags, WithoutTwoTokenizersTheVocabulariesMustBeOfOneSize) {
  EXPECT_TRUE(status_of("llama_untied", "llama_bf16").ok());
  struct Case {
    const char* model;
    const char* draft;
    const char* sizes;
  };
  // llama_tied has a tokenizer.
  for (const Case& each : {Case{"llama_untied", "qwen3", "of 304 tokens"},
                           Case{"llama_tied", "llama_untied", "of 288 tokens"},
                           Case{"llama_untied", "llama_tied", "one of 288;"}}) {
    const Status status = status_of(each.model, each.draft);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << each.draft;
    EXPECT_NE(status.message().find(each.sizes), std::string::npos) << status.message();
  }
}

TEST(SpeculationFlags, TwoTokenizersMustAgree) {
  EXPECT_TRUE(status_of("qwen2", "qwen2").ok());
  EXPECT_NE(status_of("qwen2", "llama_tied").message().find("another tokenizer"),
            std::string::npos);
}

}  // namespace
}  // namespace mainspring::cli
