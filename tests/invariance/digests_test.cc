// Rule 24: a tiny model with every option must give the committed bits on every machine, path,
// thread count and compiler. A change of a digest is an ADR with regenerated digests in the same
// commit:
//   MS_PRINT_DIGESTS=1 build/tests/invariance/digests_test
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "mainspring/exec/cpu/isa.h"
#include "mainspring/io/checksum.h"
#include "mainspring/models/decoder.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/train/exactness_checks.h"
#include "mainspring/weights/digest.h"
#include "mainspring/weights/quantise.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

constexpr const char* kDigestFile = "tests/invariance/digests.json";

struct Digests {
  std::string logprobs;
  std::string sampled;
  std::string lora_steps;
  std::string full_steps;
};

template <typename T>
std::string hex_of(const std::vector<T>& values) {
  return checksum128(values.data(), values.size() * sizeof(T)).hex();
}

std::vector<Datum> datums_for(const ModelConfig& config) {
  std::vector<Datum> datums;
  for (uint64_t i = 0; i < 4; ++i) {
    datums.push_back(
        make_random_datum(config.vocabulary, 41 - static_cast<int64_t>(5 * i), 900 + i));
    datums.back().sample_index = i;
  }
  // One sequence long enough to cross a key block of 64.
  datums.push_back(make_random_datum(config.vocabulary, 150, 950));
  datums.back().sample_index = 4;
  return datums;
}

std::string logprob_digest(Engine& engine, const std::vector<Datum>& datums) {
  std::vector<float> all;
  const auto result = engine.forward(kBaseModel, datums, "cross_entropy").value();
  for (const auto& sequence : result.logprobs)
    all.insert(all.end(), sequence.begin(), sequence.end());
  return hex_of(all);
}

std::string train_digest(Engine& engine, ModelId id, const std::vector<Datum>& datums) {
  for (int step = 0; step < 3; ++step) {
    const auto result = engine.forward_backward(id, datums, "cross_entropy").value();
    const auto update = engine.optim_step(id, {.lr = 1e-2f,
                                               .weight_decay = 0.1f,
                                               .max_grad_norm = 1.0f,
                                               .normaliser = result.weight_sum});
    EXPECT_TRUE(update.value().applied);
  }
  return digest_of(engine.state(id).value().tensors).hex();
}

// Temperature, top-k, top-p and min-p together, an adapter on half of the requests.
std::string sample_digest(Engine& engine, ModelId adapter) {
  ParameterSet base = engine.base_parameters();
  base[kRopeTableParam] = engine.rope_table();
  ForwardModel model{.compute = engine.options().compute,
                     .config = engine.model().config,
                     .base = &base,
                     .adapters = {},
                     .weight_version = 0};
  model.adapters.push_back({.spec = engine.adapter_spec(adapter).value(),
                            .parameters = engine.parameters(adapter).value(),
                            .weight_version = 0});
  auto sampler =
      Sampler::create(engine.executor(), model, {.max_batch = 6, .max_rows = 32}).value();
  std::vector<SampleRequest> requests;
  for (int i = 0; i < 6; ++i) {
    SampleRequest request;
    request.prompt = make_random_datum(engine.model().config.vocabulary, 12 + i, 970).tokens;
    request.params.max_tokens = 20;
    request.params.temperature = 0.9f;
    request.params.top_k = 50;
    request.params.top_p = 0.95f;
    request.params.min_p = 0.01f;
    request.params.seed = static_cast<uint64_t>(i);
    request.adapter = i % 2 == 0 ? SampleRequest::kBaseOnly : 0;
    requests.push_back(std::move(request));
  }
  std::vector<uint32_t> all;
  const auto results = sampler->run(requests).value();
  for (const auto& samples : results) {
    for (size_t t = 0; t < samples[0].tokens.size(); ++t) {
      all.push_back(static_cast<uint32_t>(samples[0].tokens[t]));
      all.push_back(std::bit_cast<uint32_t>(samples[0].logprobs[t]));
      all.push_back(std::bit_cast<uint32_t>(samples[0].raw_logprobs[t]));
    }
  }
  return hex_of(all);
}

struct Case {
  std::string variant;
  DType compute;
  std::optional<DType> stored = std::nullopt;  // of the linears, if not as in the file
};

std::shared_ptr<const LoadedModel> model_of(const Case& c) {
  auto model = load_model(test::source_path("tests/golden/tiny/" + c.variant)).value();
  if (!c.stored.has_value()) return model;
  auto quantised = std::make_shared<LoadedModel>(*model);
  quantised->weights = quantise_linears(quantised->weights, *c.stored).value();
  return quantised;
}

Digests digests_of(const Case& c, const std::string& isa, int threads) {
  const auto model = model_of(c);
  const auto executor = test::make_executor(threads, isa);
  auto engine =
      Engine::create(model, *executor, {.compute = c.compute, .max_sequence_tokens = 256}).value();
  const auto datums = datums_for(model->config);
  const ModelId adapter =
      engine->add_adapter(make_random_adapter(model->config, 21, 5, 0.2f), 8).value();
  const ModelId full = engine->add_full().value();
  Digests digests;
  digests.logprobs = logprob_digest(*engine, datums);
  digests.sampled = sample_digest(*engine, adapter);
  digests.lora_steps = train_digest(*engine, adapter, datums);
  digests.full_steps = train_digest(*engine, full, datums);
  return digests;
}

Json to_json(const Digests& digests) {
  Json json;
  json["logprobs"] = digests.logprobs;
  json["sampled"] = digests.sampled;
  json["lora_steps"] = digests.lora_steps;
  json["full_steps"] = digests.full_steps;
  return json;
}

const std::vector<Case> kCases{{"llama_gqa", DType::kBF16},
                               {"llama_gqa", DType::kF32},
                               {"qwen2", DType::kBF16},
                               {"qwen3", DType::kBF16},
                               {"qwen3", DType::kF32},
                               {"llama_rope_llama3", DType::kBF16},
                               {"mistral", DType::kBF16},
                               {"phi3", DType::kBF16},
                               {"qwen2_window", DType::kF32},
                               {"gemma2", DType::kBF16},
                               {"gemma3", DType::kBF16},
                               {"gpt2", DType::kBF16},
                               {"llama_gqa", DType::kBF16, DType::kInt8}};

std::string key_of(const Case& c) {
  return c.variant + "/" + std::string(dtype_name(c.compute)) +
         (c.stored.has_value() ? "/" + std::string(dtype_name(*c.stored)) : "");
}

class Bits : public testing::TestWithParam<Case> {};

TEST_P(Bits, OnEveryPathAndThreadCountAreTheCommitted) {
  const Json committed = test::read_json(kDigestFile)[key_of(GetParam())];
  for (cpu::Isa isa : cpu::supported_isas()) {
    // How work is split over threads is the same on every path; the scalar one takes longest.
    for (int threads : isa == cpu::Isa::kScalar ? std::vector{2} : std::vector{1, 2}) {
      const Json got = to_json(digests_of(GetParam(), std::string(cpu::isa_name(isa)), threads));
      EXPECT_EQ(got, committed) << cpu::isa_name(isa) << ", " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Digests, Bits, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = key_of(info.param);
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
});

TEST(Digests, HoldsWhatIsTestedAndNothingElse) {
  if (std::getenv("MS_PRINT_DIGESTS") != nullptr) {
    Json all;
    for (const auto& c : kCases) all[key_of(c)] = to_json(digests_of(c, "", 2));
    std::ofstream(test::source_path(kDigestFile)) << all.dump(2) << "\n";
  }
  const Json committed = test::read_json(kDigestFile);
  EXPECT_EQ(committed.size(), kCases.size());
  for (const auto& c : kCases) EXPECT_TRUE(committed.contains(key_of(c))) << key_of(c);
}

}  // namespace
}  // namespace mainspring
