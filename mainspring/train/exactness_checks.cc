#include "mainspring/train/exactness_checks.h"

#include <bit>
#include <chrono>

#include "mainspring/base/philox.h"
#include "mainspring/models/decoder.h"
#include "mainspring/models/names.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/weights/dequantise.h"
#include "mainspring/weights/digest.h"
#include "mainspring/weights/quantise.h"

namespace mainspring {
namespace {

using Logprobs = std::vector<std::vector<float>>;

// What one way of computing gave.
struct Outcome {
  Logprobs logprobs;
  double loss_sum = 0.0;
  std::string gradients;  // digest; empty: none
};

std::string compare(const Outcome& a, const Outcome& b) {
  if (a.logprobs.size() != b.logprobs.size()) return "another number of sequences";
  for (size_t i = 0; i < a.logprobs.size(); ++i) {
    if (a.logprobs[i].size() != b.logprobs[i].size()) return "another number of tokens";
    for (size_t t = 0; t < a.logprobs[i].size(); ++t) {
      if (std::bit_cast<uint32_t>(a.logprobs[i][t]) != std::bit_cast<uint32_t>(b.logprobs[i][t])) {
        return "log-probability of sequence " + std::to_string(i) + ", token " + std::to_string(t) +
               ": " + std::to_string(a.logprobs[i][t]) + " and " + std::to_string(b.logprobs[i][t]);
      }
    }
  }
  if (a.loss_sum != b.loss_sum) return "the loss";
  if (a.gradients != b.gradients) return "the gradients";
  return "";
}

Outcome merge(Outcome a, const Outcome& b) {
  a.logprobs.insert(a.logprobs.end(), b.logprobs.begin(), b.logprobs.end());
  a.loss_sum += b.loss_sum;
  return a;
}

// Executor, engine and the models it trains, made anew for each way of computing.
struct Bench {
  std::unique_ptr<Executor> executor;
  std::unique_ptr<Engine> engine;
  ModelId adapter_a = 0;
  ModelId adapter_b = 0;
  ModelId full = 0;
};

struct Way {
  std::string isa;
  int threads = 2;
  int64_t micro_batch_rows = 1024;
  PassOptions passes = {};
  bool transient_packs = false;
};

class Checker {
 public:
  Checker(std::shared_ptr<const LoadedModel> model, const ExactnessOptions& options)
      : model_(std::move(model)), options_(options) {
    for (uint64_t i = 0; i < 5; ++i) {
      const int64_t length = options.sequence_tokens - static_cast<int64_t>(3 * i) + 1;
      datums_.push_back(make_random_datum(model_->config.vocabulary, std::max<int64_t>(length, 3),
                                          options.seed + i));
      datums_.back().sample_index = i;
    }
  }

  Result<std::string> sampler_equals_trainer(int sequences, const Way& way, int32_t chunk,
                                             bool share);
  Result<std::string> same_training(const Way& a, const Way& b);
  Result<std::string> calls_split();
  Result<std::string> packed_equals_alone();
  Result<std::string> adapters_together();
  Result<std::string> qlora_equals_lora();

 private:
  Result<Bench> make_bench(const Way& way, const std::shared_ptr<const LoadedModel>& model) const;
  Result<Bench> make_bench(const Way& way) const { return make_bench(way, model_); }
  Result<Outcome> train(Bench& bench, ModelId id, std::span<const Datum> datums) const;
  Result<Outcome> train_all(const Way& way, const std::shared_ptr<const LoadedModel>& model) const;
  Result<std::string> gradients(Bench& bench, ModelId id) const;

  std::shared_ptr<const LoadedModel> model_;
  const ExactnessOptions& options_;
  std::vector<Datum> datums_;
};

Result<Bench> Checker::make_bench(const Way& way,
                                  const std::shared_ptr<const LoadedModel>& model) const {
  Bench bench;
  MS_ASSIGN_OR_RETURN(bench.executor, options_.make_executor(way.isa, way.threads));
  MS_ASSIGN_OR_RETURN(bench.engine, Engine::create(model, *bench.executor,
                                                   {.compute = options_.compute,
                                                    .max_micro_batch_rows = way.micro_batch_rows,
                                                    .max_sequence_tokens = 256,
                                                    .passes = way.passes,
                                                    .transient_packs = way.transient_packs}));
  MS_ASSIGN_OR_RETURN(bench.adapter_a, bench.engine->add_adapter(
                                           make_random_adapter(model->config, 11, 4, 0.1f), 5));
  MS_ASSIGN_OR_RETURN(bench.adapter_b, bench.engine->add_adapter(
                                           make_random_adapter(model->config, 12, 3, 0.0f), 6));
  if (options_.full_weights) {
    MS_ASSIGN_OR_RETURN(bench.full, bench.engine->add_full());
  }
  return bench;
}

Result<std::string> Checker::gradients(Bench& bench, ModelId id) const {
  MS_ASSIGN_OR_RETURN(const TensorSet set, bench.engine->gradients(id));
  return digest_of(set).hex();
}

Result<Outcome> Checker::train(Bench& bench, ModelId id, std::span<const Datum> datums) const {
  MS_ASSIGN_OR_RETURN(ForwardBackwardResult result,
                      bench.engine->forward_backward(id, datums, "cross_entropy"));
  Outcome outcome{
      .logprobs = std::move(result.logprobs), .loss_sum = result.loss_sum, .gradients = ""};
  MS_ASSIGN_OR_RETURN(outcome.gradients, gradients(bench, id));
  return outcome;
}

// An adapter's outcome, and with full_weights all weights'.
Result<Outcome> Checker::train_all(const Way& way,
                                   const std::shared_ptr<const LoadedModel>& model) const {
  MS_ASSIGN_OR_RETURN(Bench bench, make_bench(way, model));
  MS_ASSIGN_OR_RETURN(Outcome outcome, train(bench, bench.adapter_a, datums_));
  if (!options_.full_weights) return outcome;
  MS_ASSIGN_OR_RETURN(Outcome full, train(bench, bench.full, datums_));
  outcome.gradients += full.gradients;
  return merge(std::move(outcome), full);
}

Result<std::string> Checker::same_training(const Way& a, const Way& b) {
  MS_ASSIGN_OR_RETURN(const Outcome first, train_all(a, model_));
  MS_ASSIGN_OR_RETURN(const Outcome second, train_all(b, model_));
  return compare(first, second);
}

Result<std::string> Checker::calls_split() {
  MS_ASSIGN_OR_RETURN(Bench together, make_bench({}));
  MS_ASSIGN_OR_RETURN(const Outcome one, train(together, together.adapter_a, datums_));
  MS_ASSIGN_OR_RETURN(Bench apart, make_bench({}));
  const std::span<const Datum> all(datums_);
  MS_ASSIGN_OR_RETURN(const Outcome first, train(apart, apart.adapter_a, all.first(2)));
  MS_ASSIGN_OR_RETURN(const Outcome second, train(apart, apart.adapter_a, all.subspan(2)));
  Outcome both = merge(first, second);
  both.gradients = second.gradients;  // the accumulators went on from the first call
  both.loss_sum = one.loss_sum;       // a sum of two calls' sums has another order by design
  return compare(one, both);
}

// Changing one sequence must not change a bit of another's log-probabilities.
Result<std::string> Checker::packed_equals_alone() {
  MS_ASSIGN_OR_RETURN(Bench bench, make_bench({}));
  MS_ASSIGN_OR_RETURN(const auto packed,
                      bench.engine->forward(bench.adapter_a, datums_, "cross_entropy"));
  Logprobs alone;
  for (const Datum& datum : datums_) {
    MS_ASSIGN_OR_RETURN(auto one,
                        bench.engine->forward(bench.adapter_a, {&datum, 1}, "cross_entropy"));
    alone.push_back(std::move(one.logprobs[0]));
  }
  return compare({.logprobs = packed.logprobs, .loss_sum = 0, .gradients = ""},
                 {.logprobs = alone, .loss_sum = 0, .gradients = ""});
}

Result<std::string> Checker::adapters_together() {
  const std::span<const Datum> all(datums_);
  MS_ASSIGN_OR_RETURN(Bench together, make_bench({}));
  const Engine::Work work[] = {{together.adapter_a, all.first(3)},
                               {together.adapter_b, all.subspan(3)}};
  MS_ASSIGN_OR_RETURN(auto results, together.engine->forward_backward_many(work, "cross_entropy"));
  Outcome a{
      .logprobs = std::move(results[0].logprobs), .loss_sum = results[0].loss_sum, .gradients = ""};
  Outcome b{
      .logprobs = std::move(results[1].logprobs), .loss_sum = results[1].loss_sum, .gradients = ""};
  MS_ASSIGN_OR_RETURN(a.gradients, gradients(together, together.adapter_a));
  MS_ASSIGN_OR_RETURN(b.gradients, gradients(together, together.adapter_b));
  MS_ASSIGN_OR_RETURN(Bench apart, make_bench({}));
  MS_ASSIGN_OR_RETURN(const Outcome a_alone, train(apart, apart.adapter_a, all.first(3)));
  MS_ASSIGN_OR_RETURN(const Outcome b_alone, train(apart, apart.adapter_b, all.subspan(3)));
  const std::string first = compare(a, a_alone);
  return first.empty() ? compare(b, b_alone) : first;
}

Result<std::string> Checker::qlora_equals_lora() {
  auto quantised = std::make_shared<LoadedModel>(*model_);
  auto dequantised = std::make_shared<LoadedModel>(*model_);
  for (auto& [name, tensor] : quantised->weights) {
    const bool is_linear = tensor.shape.size() == 2 && name.find(".layers.") != std::string::npos;
    if (!is_linear) continue;
    if (!is_quantised(tensor.dtype)) {
      if (tensor.shape[1] % 32 != 0) continue;
      MS_ASSIGN_OR_RETURN(tensor,
                          quantise(tensor, tensor.shape[1] % 64 == 0 ? DType::kNF4 : DType::kQ4_1));
    }
    dequantised->weights[name] = to_dtype(tensor, DType::kBF16);
  }
  MS_ASSIGN_OR_RETURN(const Outcome q, train_all({.isa = "", .transient_packs = true}, quantised));
  MS_ASSIGN_OR_RETURN(const Outcome l, train_all({}, dequantised));
  return compare(q, l);
}

Result<std::string> Checker::sampler_equals_trainer(int sequences, const Way& way, int32_t chunk,
                                                    bool share) {
  MS_ASSIGN_OR_RETURN(Bench bench, make_bench(way));
  ParameterSet base = bench.engine->base_parameters();
  base[kRopeTableParam] = bench.engine->rope_table();
  SamplerOptions sampler_options;
  sampler_options.max_rows = chunk;
  sampler_options.max_batch = sequences;
  sampler_options.share_prefixes = share;
  sampler_options.max_sequence_tokens = 256;
  MS_ASSIGN_OR_RETURN(auto sampler, Sampler::create(*bench.executor,
                                                    {.compute = options_.compute,
                                                     .config = model_->config,
                                                     .base = &base,
                                                     .adapters = {},
                                                     .weight_version = 0},
                                                    sampler_options));
  std::vector<SampleRequest> requests;
  for (int i = 0; i < sequences; ++i) {
    SampleRequest request;
    // With sharing, prompts have a long common beginning: one whole page and a bit.
    const int64_t length = share ? 70 : options_.prompt_tokens + i;
    request.prompt =
        make_random_datum(model_->config.vocabulary, length, options_.seed + 100).tokens;
    if (i > 0)
      request.prompt.back() =
          (request.prompt.back() + i) % static_cast<int32_t>(model_->config.vocabulary);
    request.params.max_tokens = static_cast<int32_t>(options_.sampled_tokens);
    request.params.seed = static_cast<uint64_t>(i);
    requests.push_back(std::move(request));
  }
  MS_ASSIGN_OR_RETURN(const auto results, sampler->run(requests));
  std::vector<Datum> datums;
  Outcome sampled;
  for (size_t i = 0; i < requests.size(); ++i) {
    std::vector<int32_t> tokens = requests[i].prompt;
    const SampleResult& result = results[i][0];
    tokens.insert(tokens.end(), result.tokens.begin(), result.tokens.end());
    datums.push_back(make_next_token_datum(tokens, std::vector<uint8_t>(tokens.size(), 1)));
    sampled.logprobs.push_back(result.raw_logprobs);
  }
  MS_ASSIGN_OR_RETURN(const auto trained,
                      bench.engine->forward(kBaseModel, datums, "cross_entropy"));
  Outcome scored;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto begin =
        trained.logprobs[i].begin() + static_cast<int64_t>(requests[i].prompt.size()) - 1;
    scored.logprobs.emplace_back(begin, trained.logprobs[i].end());
  }
  return compare(sampled, scored);
}

// Runs one check with its time and keeps the list.
class Report {
 public:
  explicit Report(const std::function<void(const ExactnessCheck&)>& on_check)
      : on_check_(on_check) {}

  void add(const std::string& name, const std::function<Result<std::string>()>& run) {
    const auto start = std::chrono::steady_clock::now();
    const Result<std::string> difference = run();
    ExactnessCheck check{
        .name = name,
        .equal = difference.ok() && difference->empty(),
        .detail = difference.ok() ? *difference : difference.status().to_string(),
        .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
    if (on_check_) on_check_(check);
    checks_.push_back(std::move(check));
  }
  std::vector<ExactnessCheck> take() { return std::move(checks_); }

 private:
  const std::function<void(const ExactnessCheck&)>& on_check_;
  std::vector<ExactnessCheck> checks_;
};

}  // namespace

std::vector<ExactnessCheck> run_exactness_checks(
    const std::shared_ptr<const LoadedModel>& model, const ExactnessOptions& options,
    const std::function<void(const ExactnessCheck&)>& on_check) {
  Checker checker(model, options);
  Report report(on_check);
  for (int n : options.sequence_counts) {
    report.add("sampler = trainer, " + std::to_string(n) + (n == 1 ? " sequence" : " sequences"),
               [&] { return checker.sampler_equals_trainer(n, {}, 512, false); });
  }
  report.add("sampler = trainer, prompts in chunks of 7",
             [&] { return checker.sampler_equals_trainer(3, {}, 7, false); });
  report.add("sampler = trainer, shared prefixes",
             [&] { return checker.sampler_equals_trainer(3, {}, 512, true); });
  report.add("sampler = trainer, 1 thread", [&] {
    return checker.sampler_equals_trainer(3, {.isa = "", .threads = 1}, 512, false);
  });
  report.add("training: packed = one at a time", [&] { return checker.packed_equals_alone(); });
  report.add("training: 1 thread = 2 threads",
             [&] { return checker.same_training({}, {.isa = "", .threads = 1}); });
  report.add("training: micro-batches of 64 rows = one of 1,024", [&] {
    return checker.same_training({}, {.isa = "", .threads = 2, .micro_batch_rows = 64});
  });
  report.add("training: two calls = one", [&] { return checker.calls_split(); });
  report.add("training: selective recomputation = none", [&] {
    return checker.same_training(
        {}, {.passes = {.disabled = {}, .recompute = RecomputePolicy::kSelective}});
  });
  report.add("training: recomputation of all but attention = none", [&] {
    return checker.same_training(
        {}, {.passes = {.disabled = {}, .recompute = RecomputePolicy::kKeepAttention}});
  });
  report.add("training: full recomputation = none", [&] {
    return checker.same_training({},
                                 {.passes = {.disabled = {}, .recompute = RecomputePolicy::kFull}});
  });
  report.add("training: all passes off = on", [&] {
    return checker.same_training(
        {},
        {.passes = {.disabled = {"constant_folding", "fuse_gated_mul", "recompute", "dead_code"}}});
  });
  report.add("training: two adapters together = apart",
             [&] { return checker.adapters_together(); });
  report.add("training: QLoRA = LoRA on the dequantised weights",
             [&] { return checker.qlora_equals_lora(); });
  for (size_t i = 1; i < options.isas.size(); ++i) {
    report.add("path " + options.isas[i] + " = " + options.isas[0] + ", training", [&] {
      return checker.same_training({.isa = options.isas[0]}, {.isa = options.isas[i]});
    });
    report.add("path " + options.isas[i] + ": sampler = trainer", [&] {
      return checker.sampler_equals_trainer(3, {.isa = options.isas[i]}, 512, false);
    });
  }
  return report.take();
}

Adapter make_random_adapter(const ModelConfig& config, uint64_t seed, int64_t rank, float dropout) {
  Adapter adapter;
  adapter.dropout = dropout;
  const auto modules = lora_modules(config, {});
  uint32_t tensor = 0;
  for (const std::string& module : modules.value()) {
    const auto [out, in] = linear_shape(config, module);
    adapter.modules[module] = {rank, 0.5f};
    for (const auto& [half, shape] :
         {std::pair<std::string, std::vector<int64_t>>{".lora_A.weight", {rank, in}},
          {".lora_B.weight", {out, rank}}}) {
      std::vector<float> values(static_cast<size_t>(shape[0] * shape[1]));
      for (size_t i = 0; i < values.size(); ++i) {
        const PhiloxCounter bits =
            philox4x32({static_cast<uint32_t>(i), tensor, 0, 0}, philox_key(seed));
        values[i] = (philox_uniform(bits[0]) - 0.5f) * 0.1f;
      }
      adapter.tensors[module + half] = make_tensor(module + half, shape, DType::kF32, values);
      ++tensor;
    }
  }
  return adapter;
}

Datum make_random_datum(int64_t vocabulary, int64_t num_tokens, uint64_t seed) {
  std::vector<int32_t> tokens;
  std::vector<uint8_t> mask;
  for (int64_t t = 0; t < num_tokens; ++t) {
    const PhiloxCounter bits = philox4x32({static_cast<uint32_t>(t), 77, 0, 0}, philox_key(seed));
    tokens.push_back(static_cast<int32_t>(bits[0] % static_cast<uint64_t>(vocabulary)));
    mask.push_back(bits[1] % 3 != 0 ? 1 : 0);
  }
  return make_next_token_datum(tokens, mask);
}

}  // namespace mainspring
