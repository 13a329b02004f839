#include "mainspring/train/answers.h"

#include "mainspring/io/json.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/text/detokenizer.h"
#include "mainspring/train/live_model.h"

namespace mainspring {
namespace {

Result<std::vector<int32_t>> prompt_tokens(const ModelText& text, const std::string& prompt) {
  if (text.chat_template == nullptr) {
    return text.tokenizer->encode(prompt,
                                  {.add_special_tokens = true, .parse_special_tokens = true});
  }
  Json message;
  message["role"] = "user";
  message["content"] = prompt;
  MS_ASSIGN_OR_RETURN(
      const std::string rendered,
      text.chat_template->render(Json::array({message}), {.add_generation_prompt = true}));
  return text.tokenizer->encode(rendered,
                                {.add_special_tokens = false, .parse_special_tokens = true});
}

}  // namespace

Result<std::vector<RunSample>> answer_prompts(Engine& engine, ModelId id, const ModelText& text,
                                              const AnswerOptions& options) {
  std::vector<RunSample> samples;
  if (options.prompts.empty() || text.tokenizer == nullptr) return samples;
  ParameterSet base;
  MS_ASSIGN_OR_RETURN(ForwardModel model, live_model(engine, id, base));
  const int32_t adapter = model.adapters.empty() ? SampleRequest::kBaseOnly : 0;
  std::vector<SampleRequest> requests;
  int64_t longest = 0;
  for (const std::string& prompt : options.prompts) {
    SampleRequest request;
    MS_ASSIGN_OR_RETURN(request.prompt, prompt_tokens(text, prompt));
    request.params.max_tokens = static_cast<int32_t>(options.max_tokens);
    request.params.temperature = 0.0f;
    request.params.stop_tokens = engine.model().config.eos_tokens;
    request.adapter = adapter;
    longest = std::max<int64_t>(longest, static_cast<int64_t>(request.prompt.size()));
    requests.push_back(std::move(request));
  }
  SamplerOptions sampler_options;
  sampler_options.max_batch = static_cast<int32_t>(std::min<size_t>(options.prompts.size(), 16));
  sampler_options.max_rows = 256;
  sampler_options.max_sequence_tokens =
      std::min<int64_t>(longest + options.max_tokens, engine.options().max_sequence_tokens);
  MS_ASSIGN_OR_RETURN(auto sampler,
                      Sampler::create(engine.executor(), std::move(model), sampler_options));
  MS_ASSIGN_OR_RETURN(const auto results, sampler->run(std::move(requests)));
  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<int32_t> tokens = results[i][0].tokens;
    MS_ASSIGN_OR_RETURN(std::string answer, text.tokenizer->decode(tokens, true));
    samples.push_back(
        {.step = options.step,
         .kind = "generated",
         .title = "prompt " + std::to_string(i + 1),
         .pieces = {{.text = options.prompts[i] + "\n", .learned = false, .logprob = {}},
                    {.text = std::move(answer), .learned = true, .logprob = {}}}});
  }
  return samples;
}

}  // namespace mainspring
