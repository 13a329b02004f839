// The product's side of the benchmarks: one JSON line per run, in the shape of bench/peers/*.
//   product_bench sft --model M [--lora] [--dtype bf16|f32] [-B 4] [-T 256] [--reps 3] [--warm 1]
//     [--recompute none]
//   product_bench decode --model M [--dtype bf16|f32] [-N 16] [--prompt 128] [--new 64]
// M: a folder, a .gguf file, or gpt2:LAYERS,HIDDEN,HEADS,VOCABULARY, a new model of that shape.
// Decoding is timed from where every sequence has its first token.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mainspring/engine/engine.h"
#include "mainspring/exec/cpu/cpu_executor.h"
#include "mainspring/models/random_model.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/train/exactness_checks.h"
#include "mainspring/train/new_model.h"

namespace mainspring {
namespace {

using Clock = std::chrono::steady_clock;
const Clock::time_point kStart = Clock::now();

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int64_t peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

struct Flags {
  std::map<std::string, std::string> values;
  std::string get(const std::string& name, const std::string& fallback) const {
    const auto found = values.find(name);
    return found == values.end() ? fallback : found->second;
  }
  int64_t number(const std::string& name, int64_t fallback) const {
    return std::stoll(get(name, std::to_string(fallback)));
  }
};

Flags parse(int argc, char** argv) {
  Flags flags;
  for (int i = 2; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--lora")
      flags.values[name] = "1";
    else if (i + 1 < argc)
      flags.values[name] = argv[++i];
  }
  return flags;
}

std::string spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  char text[96];
  std::snprintf(text, sizeof(text), "[%.3f, %.3f, %.3f]", values.front(), values[values.size() / 2],
                values.back());
  return text;
}

std::vector<double> rates(const std::vector<double>& seconds, double tokens) {
  std::vector<double> result;
  for (double s : seconds) result.push_back(tokens / s);
  return result;
}

/// "gpt2:12,768,12,50257" as a config; nothing for a path.
std::optional<ModelConfig> shape_of(const std::string& name, int64_t context) {
  ModelRecipe shape;
  long long layers = 0;
  long long hidden = 0;
  long long heads = 0;
  long long vocabulary = 0;
  if (std::sscanf(name.c_str(), "gpt2:%lld,%lld,%lld,%lld", &layers, &hidden, &heads,
                  &vocabulary) != 4) {
    return std::nullopt;
  }
  shape.family = "gpt2";
  shape.layers = layers;
  shape.hidden = hidden;
  shape.heads = heads;
  shape.vocab = vocabulary;
  shape.context = std::max<int64_t>(1024, context);
  return new_model_config(shape);
}

std::shared_ptr<const LoadedModel> model_of(const Flags& flags, int64_t context, int threads) {
  const std::string name = flags.get("--model", "");
  const auto shape = shape_of(name, context);
  if (!shape.has_value()) return load_model(name).value();
  return make_random_model(*shape, {.num_threads = threads}, {}).value();
}

int sft(const Flags& flags) {
  const bool lora = flags.get("--lora", "") == "1";
  const int64_t batch = flags.number("-B", 4);
  const int64_t length = flags.number("-T", 256);
  const int threads = static_cast<int>(flags.number("--threads", 2));
  auto model = model_of(flags, length, threads);
  const auto executor = cpu::make_cpu_executor({.num_threads = threads}).value();
  EngineOptions options{
      .compute = flags.get("--dtype", "bf16") == "f32" ? DType::kF32 : DType::kBF16,
      .max_micro_batch_rows = flags.number("--rows", batch * length + batch),
      .max_sequence_tokens = length};
  options.passes.recompute = parse_recompute(flags.get("--recompute", "none")).value();
  const auto engine = Engine::create(model, *executor, options).value();
  const ModelId id =
      lora ? engine->add_lora({.rank = 16, .alpha = 32.0f}).value() : engine->add_full().value();
  std::vector<Datum> datums;
  for (int64_t i = 0; i < batch; ++i) {
    Datum datum = make_random_datum(model->config.vocabulary, length + 1, static_cast<uint64_t>(i));
    std::fill(datum.weights.begin(), datum.weights.end(),
              1.0f);  // every position is a target, as the peer's
    datums.push_back(std::move(datum));
  }
  std::vector<double> steps;
  double first = 0;
  const int64_t warm = flags.number("--warm", 1);
  for (int64_t i = 0; i < warm + flags.number("--reps", 3); ++i) {
    const auto start = Clock::now();
    const auto result = engine->forward_backward(id, datums, "cross_entropy").value();
    const auto update =
        engine
            ->optim_step(id, {.lr = 1e-5f, .max_grad_norm = 0.0f, .normaliser = result.weight_sum})
            .value();
    if (!update.applied) return 1;
    if (i == 0) first = seconds_since(kStart);
    if (i >= warm) steps.push_back(seconds_since(start));
  }
  if (steps.empty()) steps.push_back(first);
  std::printf(
      "{\"product\": \"%s\", \"mode\": \"%s\", \"prec\": \"%s\", \"B\": %lld, \"T\": %lld, "
      "\"tok_s\": %s, \"step_s\": %s, "
      "\"first_step_s\": %.2f, \"peak_mib\": %lld}\n",
      std::string(executor->name()).c_str(), lora ? "lora" : "full",
      flags.get("--dtype", "bf16").c_str(), static_cast<long long>(batch),
      static_cast<long long>(length),
      spread(rates(steps, static_cast<double>(batch * length))).c_str(), spread(steps).c_str(),
      first, static_cast<long long>(peak_mib()));
  return 0;
}

int decode(const Flags& flags) {
  const int64_t prompt_tokens = flags.number("--prompt", 128);
  const auto num_new = static_cast<int32_t>(flags.number("--new", 64));
  const int64_t n = flags.number("-N", 16);
  const auto model = load_model(flags.get("--model", "")).value();
  const auto executor =
      cpu::make_cpu_executor({.num_threads = static_cast<int>(flags.number("--threads", 2))})
          .value();
  const ParameterSet base = borrow_parameters(*executor, model->weights);
  ForwardModel forward{
      .compute = flags.get("--dtype", "bf16") == "f32" ? DType::kF32 : DType::kBF16,
      .config = model->config,
      .base = &base,
      .adapters = {},
      .weight_version = 0};
  SamplerOptions options;
  options.max_batch = static_cast<int32_t>(n);
  options.max_rows = 512;
  options.max_sequence_tokens = prompt_tokens + num_new;
  options.share_prefixes = false;
  const auto sampler = Sampler::create(*executor, forward, options).value();
  SampleRequest warm;  // packs the weights, compiles
  warm.prompt = {1, 2, 3};
  warm.params.max_tokens = 2;
  if (!sampler->submit(std::move(warm)).ok()) return 1;
  while (!sampler->is_idle()) sampler->step();
  const int64_t warmed = sampler->stats().sampled_tokens;
  for (int64_t i = 0; i < n; ++i) {
    SampleRequest request;
    request.prompt =
        make_random_datum(model->config.vocabulary, prompt_tokens + 1, static_cast<uint64_t>(i))
            .tokens;
    request.params.max_tokens = num_new;
    request.params.seed = static_cast<uint64_t>(i);
    if (!sampler->submit(std::move(request)).ok()) return 1;
  }
  // Prefill ends when the last sequence has its first token; decoding is timed from there.
  const auto begin = Clock::now();
  std::set<int64_t> started;
  while (static_cast<int64_t>(started.size()) < n && !sampler->is_idle()) {
    for (const SampleEvent& event : sampler->step()) started.insert(event.request);
  }
  const int64_t before = sampler->stats().sampled_tokens;
  const auto start = Clock::now();
  while (!sampler->is_idle()) sampler->step();
  const double seconds = seconds_since(start);
  const double total = seconds_since(begin);
  const double rate = static_cast<double>(sampler->stats().sampled_tokens - before) / seconds;
  std::printf(
      "{\"product\": \"%s\", \"mode\": \"decode\", \"prec\": \"%s\", \"N\": %lld, \"tok_s\": "
      "[%.1f, %.1f, %.1f], \"prefill_tok_s\": %.1f, \"new_tok_s\": %.1f, "
      "\"outside_kernels\": %.3f, \"peak_mib\": %lld}\n",
      std::string(executor->name()).c_str(), flags.get("--dtype", "bf16").c_str(),
      static_cast<long long>(n), rate, rate, rate,
      static_cast<double>(n * prompt_tokens) / (total - seconds),
      static_cast<double>(sampler->stats().sampled_tokens - warmed) / total,
      1.0 - static_cast<double>(sampler->stats().run_ns + sampler->stats().choose_ns) /
                static_cast<double>(sampler->stats().step_ns),
      static_cast<long long>(peak_mib()));
  return 0;
}

}  // namespace
}  // namespace mainspring

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  const auto flags = mainspring::parse(argc, argv);
  if (verb == "sft") return mainspring::sft(flags);
  if (verb == "decode") return mainspring::decode(flags);
  std::fprintf(
      stderr,
      "usage: product_bench sft|decode --model M ... (see the head of bench/product_bench.cc)\n");
  return 2;
}
