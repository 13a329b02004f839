#include "mainspring/cli/profile_decode.h"

#include <ctime>
#include <set>
#include <vector>

#include "mainspring/cli/made_prompts.h"
#include "mainspring/io/checksum.h"

namespace mainspring::cli {
namespace {

SamplerOptions options_for(const DecodeFlags& flags, int64_t new_tokens) {
  SamplerOptions options;
  options.max_batch = static_cast<int32_t>(flags.sequences);
  options.max_sequence_tokens = flags.prompt_tokens + new_tokens;
  options.cache_pages =
      static_cast<int32_t>(flags.sequences * (options.max_sequence_tokens / kPageTokens + 2));
  options.share_prefixes = false;
  return options;
}

class Decoder {
 public:
  explicit Decoder(std::unique_ptr<Sampler> sampler) : sampler_(std::move(sampler)) {}

  Sampler& sampler() { return *sampler_; }
  size_t num_started() const { return started_.size(); }
  const std::vector<int32_t>& tokens() const { return tokens_; }

  void step(Timeline* timeline) {
    const SpanScope span(timeline, SpanKind::kGroup, "step");
    const SpanScope host(timeline, SpanKind::kHost, "schedule and choose");
    for (const SampleEvent& event : sampler_->step()) {
      if (event.token < 0) continue;
      started_.insert(event.request);
      tokens_.push_back(event.token);
    }
  }

 private:
  std::unique_ptr<Sampler> sampler_;
  std::set<int64_t> started_;
  std::vector<int32_t> tokens_;
};

}  // namespace

Result<DecodedRun> decode_on(ModelSession& session, const DecodeFlags& flags, int64_t steps,
                             int64_t warmup, Timeline* timeline) {
  // Sequences that start early decode while the others' prompts are computed.
  const int64_t new_tokens = steps + warmup + flags.sequences * (flags.prompt_tokens / 64 + 2);
  const int64_t context = session.model().config.context_length;
  if (flags.prompt_tokens + new_tokens > context) {
    return invalid_argument(
        "--prompt-tokens and --steps: " + std::to_string(flags.prompt_tokens + new_tokens) +
        " positions are more than the model's context of " + std::to_string(context));
  }
  MS_ASSIGN_OR_RETURN(auto sampler, Sampler::create(session.executor(), session.forward_model(),
                                                    options_for(flags, new_tokens)));
  Decoder decoder(std::move(sampler));
  for (int64_t s = 0; s < flags.sequences; ++s) {
    MS_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t id,
                        decoder.sampler().submit(made_request(s, flags.prompt_tokens, new_tokens,
                                                              session.model().config.vocabulary)));
  }
  while (decoder.num_started() < static_cast<size_t>(flags.sequences)) decoder.step(nullptr);
  for (int64_t i = 0; i < warmup; ++i) decoder.step(nullptr);
  const size_t before = decoder.tokens().size();
  session.executor().set_timeline(timeline);
  const std::clock_t cpu_start = std::clock();
  {
    const SpanScope all(timeline, SpanKind::kGroup, "profile");
    for (int64_t i = 0; i < steps; ++i) decoder.step(timeline);
  }
  session.executor().set_timeline(nullptr);
  const std::vector<int32_t>& tokens = decoder.tokens();
  return DecodedRun{.num_tokens = static_cast<int64_t>(tokens.size() - before),
                    .cpu_s = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC,
                    .digest = checksum128(tokens.data(), tokens.size() * sizeof(tokens[0])).hex()};
}

}  // namespace mainspring::cli
