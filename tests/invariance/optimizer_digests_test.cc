// Rule 24 for what may move the weights: three full steps of a tiny model under every optimizer and
// kind of state must give the committed bits on every path and thread count. A change of a digest
// is an ADR with regenerated digests in the same commit:
//   MS_PRINT_DIGESTS=1 build/tests/invariance/optimizer_digests_test
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "mainspring/exec/cpu/isa.h"
#include "mainspring/io/json.h"
#include "mainspring/train/exactness_checks.h"
#include "mainspring/weights/digest.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

constexpr const char* kDigestFile = "tests/invariance/optimizer_digests.json";

struct Case {
  std::string name;
  OptimizerKind kind = OptimizerKind::kAdamw;
  DType weights = DType::kF32;
  double ema = 0.0;  // 0: no average
};

/// A failing test shows the name.
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  using enum OptimizerKind;
  return {{.name = "muon", .kind = kMuon},
          {.name = "lion", .kind = kLion},
          {.name = "adafactor", .kind = kAdafactor},
          {.name = "adamw8bit", .kind = kAdamw8bit},
          {.name = "adamw_bf16", .weights = DType::kBF16},
          {.name = "lion_bf16", .kind = kLion, .weights = DType::kBF16},
          {.name = "adamw8bit_bf16", .kind = kAdamw8bit, .weights = DType::kBF16},
          {.name = "adamw_ema", .ema = 0.9}};
}

std::string digest_of_case(const Case& c, const std::string& isa, int threads) {
  const auto model = load_model(test::source_path("tests/golden/tiny/llama_gqa")).value();
  const auto executor = test::make_executor(threads, isa);
  auto engine = Engine::create(model, *executor, {.max_sequence_tokens = 256}).value();
  const ModelId id = engine->add_full({.weights = c.weights, .seed = 7}).value();
  OptimizerPlan plan;
  plan.rest.optimizer = c.kind;
  EXPECT_TRUE(engine->set_optimizer(id, plan).ok());
  if (c.ema > 0) {
    EXPECT_TRUE(engine->add_average(id, {.decay = c.ema, .warmup = true}).ok());
  }
  std::vector<Datum> datums;
  for (uint64_t i = 0; i < 4; ++i) {
    datums.push_back(
        make_random_datum(model->config.vocabulary, 41 - static_cast<int64_t>(5 * i), 900 + i));
    datums.back().sample_index = i;
  }
  for (int step = 0; step < 3; ++step) {
    const auto result = engine->forward_backward(id, datums, "cross_entropy").value();
    const auto update = engine->optim_step(id, {.lr = 1e-3f,
                                                .weight_decay = 0.1f,
                                                .max_grad_norm = 1.0f,
                                                .normaliser = result.weight_sum});
    EXPECT_TRUE(update.value().applied);
  }
  return digest_of(engine->state(id).value().tensors).hex();
}

class OptimizerBits : public testing::TestWithParam<Case> {};

TEST_P(OptimizerBits, OnEveryPathAndThreadCountAreTheCommitted) {
  const std::string committed = test::read_json(kDigestFile)[GetParam().name].get<std::string>();
  for (const cpu::Isa isa : cpu::supported_isas()) {
    for (const int threads : isa == cpu::Isa::kScalar ? std::vector{2} : std::vector{1, 2}) {
      const std::string path(cpu::isa_name(isa));
      EXPECT_EQ(digest_of_case(GetParam(), path, threads), committed)
          << path << ", " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Digests, OptimizerBits, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST(OptimizerDigests, HoldWhatIsTestedAndNothingElse) {
  if (std::getenv("MS_PRINT_DIGESTS") != nullptr) {
    Json all;
    for (const Case& c : cases()) all[c.name] = digest_of_case(c, "", 2);
    std::ofstream(test::source_path(kDigestFile)) << all.dump(2) << "\n";
  }
  const Json committed = test::read_json(kDigestFile);
  EXPECT_EQ(committed.size(), cases().size());
  for (const Case& c : cases()) EXPECT_TRUE(committed.contains(c.name)) << c.name;
}

}  // namespace
}  // namespace mainspring
