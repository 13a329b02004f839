#include "mainspring/models/names.h"

#include <gtest/gtest.h>

#include "mainspring/models/model_files_for_test.h"

namespace mainspring {
namespace {

TEST(Names, TranslateBothWays) {
  EXPECT_EQ(hf_name_of_gguf("blk.12.attn_output.weight"),
            "model.layers.12.self_attn.o_proj.weight");
  EXPECT_EQ(hf_name_of_gguf("blk.0.attn_q.bias"), "model.layers.0.self_attn.q_proj.bias");
  EXPECT_EQ(hf_name_of_gguf("token_embd.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(gguf_name_of_hf("lm_head.weight"), "output.weight");
  EXPECT_EQ(gguf_name_of_hf("model.layers.3.post_attention_layernorm.weight"),
            "blk.3.ffn_norm.weight");
}

TEST(Names, OfEveryParameterGoToGgufAndBack) {
  for (const std::string family :
       {"gemma2", "gemma3", "gpt2", "llama", "mistral", "phi3", "qwen2", "qwen3"}) {
    ModelConfig config = tiny_config(family);
    if (!config.sandwich_norms) config.mlp_bias = true;
    const NameStyle style = name_style(config);
    for (const FileTensor& file : file_tensors(config, FileKind::kGguf)) {
      EXPECT_EQ(hf_name_of_gguf(gguf_name_of_hf(file.name, style), style), file.name);
    }
  }
}

TEST(Names, ThatAreNoneGiveNothing) {
  for (const char* name :
       {"", "blk.weight", "blk..attn_q.weight", "blk.x.attn_q.weight", "blk.01.attn_q.weight",
        "blk.1.attn_q", "attn_q.weight", "blk.1.token_embd.weight", "blk.1.attn_qkv.weight",
        "blk.99999999999.attn_q.weight"}) {
    EXPECT_EQ(hf_name_of_gguf(name), "") << name;
  }
}

TEST(Names, OfModulesHaveTheirPath) {
  EXPECT_EQ(linear_module(3, "q_proj"), "model.layers.3.self_attn.q_proj");
  EXPECT_EQ(linear_module(0, "down_proj"), "model.layers.0.mlp.down_proj");
}

}  // namespace
}  // namespace mainspring
