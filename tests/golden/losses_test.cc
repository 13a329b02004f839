// Each objective against torch's autograd in f64 (losses/golden.json), and against differences of
// itself; group advantages against torch.
#include <gtest/gtest.h>

#include <cmath>

#include "mainspring/losses/advantage.h"
#include "mainspring/losses/losses.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

// Both sides are f64; their exp and log differ by a few units in the last place.
constexpr double kTolerance = 1e-10;

// One group of datums with what the model said about them.
struct Group {
  std::vector<Datum> datums;
  std::vector<std::vector<float>> logprobs;
  std::vector<std::vector<float>> values;
  std::vector<std::vector<float>> candidate_logprobs;
};

std::vector<float> floats_of(const Json& item, const char* key) {
  return item.contains(key) ? item[key].get<std::vector<float>>() : std::vector<float>();
}

struct Outcome {
  double total = 0.0;
  std::vector<ObjectiveGradient> gradients;
  LossMetrics metrics;
};

Group read_group(const Json& items) {
  Group group;
  for (const Json& item : items) {
    Datum datum;
    datum.weights = item["weights"].get<std::vector<float>>();
    datum.role = item["role"].get<int32_t>();
    datum.group = 5;
    for (const auto& [name, values] : item["inputs"].items()) {
      datum.inputs[name] = values.get<std::vector<float>>();
    }
    datum.tokens.resize(datum.weights.size());
    if (item.contains("candidates")) {
      datum.candidates = item["candidates"].get<std::vector<int32_t>>();
    }
    datum.candidate_weights = floats_of(item, "candidate_weights");
    group.datums.push_back(std::move(datum));
    group.logprobs.push_back(floats_of(item, "logprobs"));
    group.values.push_back(floats_of(item, "values"));
    group.candidate_logprobs.push_back(floats_of(item, "candidate_logprobs"));
  }
  return group;
}

LossSettings read_settings(const Json& json) {
  LossSettings settings;
  for (const auto& [name, value] : json.items()) settings[name] = value.get<double>();
  return settings;
}

Result<Outcome> run(const LossInfo& loss, const Group& group, const LossSettings& given) {
  MS_ASSIGN_OR_RETURN(const LossSettings settings, complete_settings(loss, given));
  std::vector<ObjectiveItem> items;
  Outcome outcome;
  for (size_t i = 0; i < group.datums.size(); ++i) {
    items.push_back(
        {&group.datums[i], group.logprobs[i], group.values[i], group.candidate_logprobs[i]});
    outcome.gradients.push_back(
        {.by_logprob = std::vector<double>(group.logprobs[i].size()),
         .by_value = std::vector<double>(group.values[i].size()),
         .by_candidate = std::vector<double>(group.candidate_logprobs[i].size())});
  }
  MS_RETURN_IF_ERROR(loss.objective(items, settings, outcome.gradients, outcome.metrics));
  for (const ObjectiveGradient& gradient : outcome.gradients) outcome.total += gradient.loss;
  return outcome;
}

void expect_near(double got, double want) {
  EXPECT_NEAR(got, want, kTolerance * (1.0 + std::abs(want)));
}

const Json& golden() {
  static const Json json = test::read_json("tests/golden/losses/golden.json");
  return json;
}

TEST(LossGolden, LossAndGradientEqualAutograd) {
  std::map<std::string, int> seen;
  for (const Json& c : golden()["cases"]) {
    SCOPED_TRACE(c["loss"].get<std::string>() + " " + c["settings"].dump());
    const LossInfo& loss = *find_loss(c["loss"].get<std::string>()).value();
    const auto outcome = run(loss, read_group(c["items"]), read_settings(c["settings"]));
    ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
    expect_near(outcome->total, c["total"].get<double>());
    for (size_t i = 0; i < outcome->gradients.size(); ++i) {
      for (size_t t = 0; t < outcome->gradients[i].by_logprob.size(); ++t) {
        expect_near(outcome->gradients[i].by_logprob[t], c["by_logprob"][i][t].get<double>());
      }
      for (size_t t = 0; t < outcome->gradients[i].by_value.size(); ++t) {
        expect_near(outcome->gradients[i].by_value[t], c["by_value"][i][t].get<double>());
      }
      for (size_t j = 0; j < outcome->gradients[i].by_candidate.size(); ++j) {
        expect_near(outcome->gradients[i].by_candidate[j], c["by_candidate"][i][j].get<double>());
      }
    }
    ++seen[std::string(loss.name)];
  }
  for (const LossInfo& loss : loss_table()) {
    if (loss.objective == nullptr || loss.name == "importance_sampling") continue;
    EXPECT_GE(seen[std::string(loss.name)], 3) << loss.name << " has no golden values";
  }
}

// Whether the formula holds nothing fixed that these differences move, and its kinks are further
// apart than they reach.
bool differences_apply(const Json& c) {
  const std::string name = c["loss"];
  if (name == "cispo") return false;
  const Json& settings = c["settings"];
  if (name == "gspo" && !settings.contains("clip_high_threshold")) return false;
  return settings.value("correction", 1) == 1 ||
         c["items"][0]["inputs"].contains("proximal_logprobs");
}

// The derivative by `x`, an element of `group`, lies between the one-sided slopes around it.
void expect_slope(const LossInfo& loss, const Group& group, const LossSettings& settings, float& x,
                  double derivative) {
  const float here = x;
  const double middle = run(loss, group, settings)->total;
  x = here + 0x1p-10f;
  const double right = (run(loss, group, settings)->total - middle) / static_cast<double>(x - here);
  x = here - 0x1p-10f;
  const double left = (middle - run(loss, group, settings)->total) / static_cast<double>(here - x);
  x = here;
  // The slopes' mean is wrong by h^2 / 6 times the third derivative, but at a kink, where it
  // belongs to neither side.
  const double error = std::abs(derivative - 0.5 * (left + right));
  const double spread = std::abs(left - right);
  EXPECT_LE(error, 1e-5 * (1.0 + std::abs(derivative)) + (spread > 0.02 ? 0.51 * spread : 0.0))
      << "left " << left << " right " << right << " derivative " << derivative;
}

TEST(LossGolden, GradientsEqualDifferences) {
  int64_t num_checked = 0;
  for (const Json& c : golden()["cases"]) {
    if (!differences_apply(c)) continue;
    SCOPED_TRACE(c["loss"].get<std::string>() + " " + c["settings"].dump());
    const LossInfo& loss = *find_loss(c["loss"].get<std::string>()).value();
    Group group = read_group(c["items"]);
    const LossSettings settings = read_settings(c["settings"]);
    const Outcome outcome = run(loss, group, settings).value();
    for (size_t i = 0; i < group.datums.size(); ++i) {
      if (loss.name == "kto" && group.datums[i].role == 3) continue;  // its point is held fixed
      for (size_t t = 0; t < group.logprobs[i].size(); ++t) {
        if (group.datums[i].weights[t] == 0.0f) continue;
        expect_slope(loss, group, settings, group.logprobs[i][t],
                     outcome.gradients[i].by_logprob[t]);
        if (!group.values[i].empty()) {
          expect_slope(loss, group, settings, group.values[i][t], outcome.gradients[i].by_value[t]);
        }
        ++num_checked;
      }
    }
  }
  EXPECT_GT(num_checked, 1000);
}

TEST(LossGolden, AdvantagesEqualTorch) {
  size_t num_kinds = 0;
  for (const Json& c : golden()["advantages"]) {
    SCOPED_TRACE(c["kind"].dump());
    const AdvantageOptions options{.kind = parse_advantage(c["kind"].get<std::string>()).value(),
                                   .eps = c["eps"].get<double>()};
    const auto got = group_advantages(options, c["rewards"].get<std::vector<double>>(),
                                      c["groups"].get<std::vector<int64_t>>());
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    const auto want = c["advantages"].get<std::vector<double>>();
    ASSERT_EQ(got->size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) expect_near((*got)[i], want[i]);
    ++num_kinds;
  }
  EXPECT_EQ(num_kinds, advantage_names().size());
}

}  // namespace
}  // namespace mainspring
