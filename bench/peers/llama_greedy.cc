// Peer for files: continues prompts greedily with llama.cpp, everything in f32 but the weights.
//
//   llama_greedy MODEL.gguf TOKENS < prompts        a prompt a line: token numbers with blanks
//   between
//
// Prints a line for each prompt: the tokens it went on with, ':', and the least distance between
// the two highest logits on the way, to tell a tie from a fault. Built by `llama_cpp.sh build`; CI
// does not need it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "llama.h"

namespace {

void fail(const std::string& what) {
  std::fprintf(stderr, "llama_greedy: %s\n", what.c_str());
  std::exit(1);
}

void print_warnings(ggml_log_level level, const char* text, void*) {
  if (level >= GGML_LOG_LEVEL_WARN) std::fputs(text, stderr);
}

/// The highest logit's token, and its distance from the next.
llama_token best_of(const float* logits, int32_t count, float& margin) {
  const float* best = std::max_element(logits, logits + count);
  float second = -std::numeric_limits<float>::infinity();
  for (const float* at = logits; at < logits + count; ++at) {
    if (at != best) second = std::max(second, *at);
  }
  margin = std::min(margin, *best - second);
  return static_cast<llama_token>(best - logits);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) fail("expected MODEL.gguf and a number of tokens");
  const int num_tokens = std::atoi(argv[2]);
  llama_log_set(print_warnings, nullptr);
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) fail(std::string(argv[1]) + " does not load");
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = 1024;
  params.n_threads = params.n_threads_batch = 1;  // tiny models
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  const int32_t vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::vector<llama_token> prompt;
    for (llama_token token = 0; words >> token;) prompt.push_back(token);
    llama_context* context = llama_init_from_model(model, params);
    if (context == nullptr) fail("no context");
    float margin = std::numeric_limits<float>::infinity();
    llama_batch batch = llama_batch_get_one(prompt.data(), static_cast<int32_t>(prompt.size()));
    llama_token token = 0;
    for (int i = 0; i < num_tokens; ++i) {
      if (llama_decode(context, batch) != 0) fail("decoding failed");
      token = best_of(llama_get_logits_ith(context, -1), vocabulary, margin);
      std::printf("%s%d", i == 0 ? "" : " ", token);
      batch = llama_batch_get_one(&token, 1);
    }
    std::printf(" : %g\n", static_cast<double>(margin));
    llama_free(context);
  }
  llama_model_free(model);
  return 0;
}
