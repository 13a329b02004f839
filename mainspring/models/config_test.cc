#include "mainspring/models/config.h"

#include <functional>

#include <gtest/gtest.h>

#include "mainspring/models/model_files_for_test.h"

namespace mainspring {
namespace {

TEST(ModelParameters, FollowTheForwardPass) {
  ModelConfig config = tiny_config("qwen3");
  config.layers = 1;
  config.attention_bias = true;
  std::string names;
  for (const ParameterSpec& spec : model_parameters(config)) {
    names += spec.name.substr(spec.name.find("layers.0.") == std::string::npos ? 0 : 15) + " ";
  }
  EXPECT_EQ(
      names,
      "model.embed_tokens.weight input_layernorm.weight self_attn.q_proj.weight "
      "self_attn.q_proj.bias "
      "self_attn.k_proj.weight self_attn.k_proj.bias self_attn.v_proj.weight self_attn.v_proj.bias "
      "self_attn.q_norm.weight self_attn.k_norm.weight self_attn.o_proj.weight "
      "post_attention_layernorm.weight "
      "mlp.gate_proj.weight mlp.up_proj.weight mlp.down_proj.weight model.norm.weight "
      "lm_head.weight ");
}

TEST(ModelParameters, OfATiedModelHaveNoHead) {
  ModelConfig config = tiny_config();
  config.tied_embeddings = true;
  EXPECT_EQ(model_parameters(config).back().name, "model.norm.weight");
}

TEST(ValidateConfig, NamesTheFieldThatCannotBe) {
  struct Case {
    std::function<void(ModelConfig&)> break_it;
    const char* expected;
  };
  const Case cases[] = {
      {[](ModelConfig& c) { c.d = 0; }, "hidden size: expected 1"},
      {[](ModelConfig& c) { c.layers = 1'000'000'000; }, "layers: expected 1 to 4096"},
      {[](ModelConfig& c) { c.kv_heads = 3; }, "key/value heads"},
      {[](ModelConfig& c) { c.query_heads = 3, c.kv_heads = 2; }, "expected a divisor of 3"},
      {[](ModelConfig& c) { c.head_width = 5; }, "head width: expected an even"},
      {[](ModelConfig& c) { c.rms_eps = 0; }, "rms norm eps: expected a positive"},
      {[](ModelConfig& c) { c.rope_theta = -1; }, "rope theta"},
      {[](ModelConfig& c) { c.eos_tokens = {6}; }, "end-of-text token: expected 0 to 5, got 6"},
      {[](ModelConfig& c) { c.rope_scaling.kind = RopeScaling::Kind::kLlama3; },
       "rope original context"},
      {[](ModelConfig& c) { c.rope_scaling.kind = RopeScaling::Kind::kFactors; },
       "rope factors: expected 2 to 2"},
  };
  EXPECT_TRUE(validate_config(tiny_config()).ok());
  for (const Case& item : cases) {
    ModelConfig config = tiny_config();
    item.break_it(config);
    const Status status = validate_config(config);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(item.expected), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace mainspring
