// Each optimizer over 20 f32 steps against its definition: torch.optim's, or its paper's (Lion).
#include <gtest/gtest.h>

#include <cstring>

#include "mainspring/exec/cpu/isa.h"
#include "mainspring/optim/optimizer.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

using test::distance;

constexpr int64_t kSteps = 20;

struct Case {
  std::string name;
  OptimizerKind kind;
  OptimizerSettings settings;
  float lr;
  float weight_decay;
};

/// A failing test shows the name.
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// make_optimizers.py's value(): 16 bits of a hash of (seed, element), in [-0.5, 0.5).
void fill(Buffer& buffer, uint64_t seed) {
  auto* values = static_cast<float*>(buffer.data());
  for (int64_t i = 0; i < buffer.size_bytes() / 4; ++i) {
    uint64_t x = (static_cast<uint64_t>(i) * 2654435761u + seed * 40503u) & 0xffffffffu;
    for (int round = 0; round < 2; ++round) x = ((x ^ (x >> 16)) * 0x45d9f3bu) & 0xffffffffu;
    x ^= x >> 16;
    values[i] = static_cast<float>(x & 0xffff) / 65536.0f - 0.5f;
  }
  buffer.mark_changed();
}

const std::vector<std::pair<std::string, Shape>>& params() {
  static const std::vector<std::pair<std::string, Shape>> all{
      {"wide", {{12, 40}}}, {"tall", {{40, 12}}}, {"chunks", {{16, 300}}}, {"vector", {{33}}}};
  return all;
}

/// One parameter under one optimizer.
class Moved {
 public:
  Moved(Executor& executor, const Case& c, size_t param)
      : case_(c), param_(param), shape_(params()[param].second) {
    Tracer tracer(DType::kF32);
    trace_updates(tracer, {{.name = "p",
                            .shape = shape_,
                            .num_uses = 1,
                            .kind = c.kind,
                            .scalars = "scalars",
                            .muon = c.settings.muon}});
    Graph graph = tracer.release();
    for (const Node& node : graph.nodes()) {
      if (node.op != OpKind::kState && node.op != OpKind::kInput) continue;
      buffers_[std::get<SourceAttrs>(node.attrs).name] =
          executor.allocate(DType::kF32, graph.type(node.outputs[0]).shape.dims);
    }
    program_ = executor.compile(std::move(graph), {}).value();
    for (const auto& [name, buffer] : buffers_)
      EXPECT_TRUE(program_->bind(name, buffer.get()).ok());
    fill(*buffers_.at("p"), 1 + param_);
  }

  void step(int64_t t) {
    fill(*buffers_.at("grad/p"), 100 * static_cast<uint64_t>(t) + param_);
    const StepScalars scalars =
        step_scalars(case_.kind, case_.settings,
                     {.lr = case_.lr, .weight_decay = case_.weight_decay, .step = t});
    std::memcpy(buffers_.at("scalars")->data(), scalars.data(), sizeof(scalars));
    program_->run({});
  }

  std::vector<float> values() const {
    const auto* data = static_cast<const float*>(std::as_const(*buffers_.at("p")).data());
    return {data, data + shape_.num_elements({})};
  }

 private:
  const Case& case_;
  uint64_t param_;
  Shape shape_;
  std::map<std::string, std::unique_ptr<Buffer>> buffers_;
  std::unique_ptr<Executable> program_;
};

class Optimizers : public testing::TestWithParam<Case> {};

TEST_P(Optimizers, TwentyStepsEqualTheDefinitionWithin1e5) {
  const Case& c = GetParam();
  const Safetensors golden =
      open_safetensors(test::source_path("tests/golden/optimizers/golden.safetensors")).value();
  const auto executor = test::make_executor();
  for (size_t p = 0; p < params().size(); ++p) {
    const auto& [name, shape] = params()[p];
    if (c.kind == OptimizerKind::kMuon && shape.rank() != 2) continue;
    Moved moved(*executor, c, p);
    for (int64_t t = 1; t <= kSteps; ++t) {
      moved.step(t);
      if (t != 1 && t != kSteps) continue;
      const std::string key = c.name + "." + name + "." + std::to_string(t);
      const std::vector<float> got = moved.values();
      const SafetensorsEntry& expected = golden.tensors.at(key);
      const double d =
          distance(got.data(), reinterpret_cast<const float*>(expected.data), got.size());
      EXPECT_LT(d, 1e-5) << key;
    }
  }
}

TEST_P(Optimizers, EveryPathAndThreadCountGivesTheSameBits) {
  const Case& c = GetParam();
  for (size_t p = 0; p < params().size(); ++p) {
    if (c.kind == OptimizerKind::kMuon && params()[p].second.rank() != 2) continue;
    std::vector<float> first;
    for (const cpu::Isa isa : cpu::supported_isas()) {
      for (int threads : {1, 2, 3}) {
        const auto executor = test::make_executor(threads, std::string(cpu::isa_name(isa)));
        Moved moved(*executor, c, p);
        for (int64_t t = 1; t <= 3; ++t) moved.step(t);
        const std::vector<float> got = moved.values();
        if (first.empty()) first = got;
        EXPECT_EQ(std::memcmp(got.data(), first.data(), got.size() * sizeof(float)), 0)
            << params()[p].first << " on " << cpu::isa_name(isa) << " with " << threads;
      }
    }
  }
}

std::vector<Case> cases() {
  using enum OptimizerKind;
  OptimizerSettings adamw;
  adamw.adamw = {0.9f, 0.95f, 1e-8f};
  OptimizerSettings clip;
  clip.adafactor = {.beta2_decay = -0.5, .eps2 = 1e-3f, .clip = 1.5f};
  OptimizerSettings original;
  original.muon.scale = MuonScale::kOriginal;
  OptimizerSettings f32 = original;
  f32.muon.nesterov = false;
  f32.muon.products = DType::kF32;
  return {{"adamw", kAdamw, adamw, 1e-2f, 0.1f},
          {"lion", kLion, {}, 1e-3f, 0.1f},
          {"adafactor", kAdafactor, {}, 1e-2f, 0.1f},
          {"adafactor_clip", kAdafactor, clip, 0.5f, 0.0f},
          {"muon_original", kMuon, original, 1e-3f, 0.1f},
          {"muon_match", kMuon, {}, 2e-4f, 0.1f},
          {"muon_f32", kMuon, f32, 2e-2f, 0.1f}};
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mainspring
