#include "mainspring/sample/sampler.h"

#include <algorithm>
#include <map>
#include <utility>

#include "mainspring/sample/batching_sampler.h"

namespace mainspring {

std::string_view stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kMaxTokens:
      return "max_tokens";
    case StopReason::kStopToken:
      return "stop_token";
    case StopReason::kStopString:
      return "stop_string";
    case StopReason::kContext:
      return "context";
    case StopReason::kCancelled:
      return "cancelled";
    case StopReason::kSchema:
      return "schema";
    case StopReason::kDeadEnd:
      return "dead_end";
    case StopReason::kNonFinite:
      return "non_finite";
  }
  return "";
}

Result<std::unique_ptr<Sampler>> Sampler::create(Executor& executor, ForwardModel model,
                                                 SamplerOptions options) {
  auto sampler = std::make_unique<BatchingSampler>(executor, std::move(model), std::move(options));
  MS_RETURN_IF_ERROR(sampler->init());
  return std::unique_ptr<Sampler>(std::move(sampler));
}

Result<std::vector<std::vector<SampleResult>>> Sampler::run(std::vector<SampleRequest> requests) {
  std::vector<std::vector<SampleResult>> results;
  std::map<int64_t, size_t> index_of;
  for (size_t i = 0; i < requests.size(); ++i) {
    results.emplace_back(static_cast<size_t>(std::max(1, requests[i].params.n)));
    Result<int64_t> id = submit(std::move(requests[i]));
    if (!id.ok()) {
      for (const auto& [submitted, place] : index_of) cancel(submitted);
      while (!is_idle()) step();
      return id.status().with_context("request " + std::to_string(i));
    }
    index_of.emplace(*id, i);
  }
  while (!is_idle()) {
    for (SampleEvent& event : step()) {
      const auto found = index_of.find(event.request);
      if (found == index_of.end() || !event.result.has_value()) continue;
      results[found->second][static_cast<size_t>(event.sample)] = std::move(*event.result);
    }
  }
  return results;
}

}  // namespace mainspring
