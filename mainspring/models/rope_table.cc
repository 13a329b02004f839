#include "mainspring/models/rope_table.h"

#include "mainspring/base/check.h"
#include "mainspring/base/elementary.h"

namespace mainspring {
namespace {

constexpr float kTwoPi = 6.2831853071795864769f;

float llama3_frequency(float f, const RopeScaling& scaling) {
  const auto context = static_cast<float>(scaling.original_context);
  const float wavelength = kTwoPi / f;
  if (wavelength > context / scaling.low_freq_factor) return f / scaling.factor;
  if (wavelength < context / scaling.high_freq_factor) return f;
  const float smooth = (context / wavelength - scaling.low_freq_factor) /
                       (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0f - smooth) * f / scaling.factor + smooth * f;
}

}  // namespace

std::vector<float> rope_frequencies(float theta, const RopeScaling& scaling, int64_t c) {
  std::vector<float> frequencies;
  frequencies.reserve(static_cast<size_t>(c / 2));
  for (int64_t i = 0; i < c / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(c);
    float f = 1.0f / static_cast<float>(exact_pow(theta, exponent));
    switch (scaling.kind) {
      case RopeScaling::Kind::kNone:
        break;
      case RopeScaling::Kind::kLinear:
        f = f / scaling.factor;
        break;
      case RopeScaling::Kind::kLlama3:
        f = llama3_frequency(f, scaling);
        break;
      case RopeScaling::Kind::kFactors:
        MS_CHECK(scaling.factors.size() == static_cast<size_t>(c / 2), "one factor per pair");
        f = f / scaling.factors[static_cast<size_t>(i)];
        break;
    }
    frequencies.push_back(f);
  }
  return frequencies;
}

Status check_rope_table_size(int64_t c, int64_t max_position) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  if (max_position <= kMostBytes / (c / 2 * 8)) return Status();
  return resource_exhausted("a context of " + std::to_string(max_position) +
                            " positions needs a rotary table of more than 1 GiB: ask for shorter "
                            "sequences");
}

std::vector<float> make_rope_table(float theta, const RopeScaling& scaling, int64_t c,
                                   int64_t max_position) {
  const std::vector<float> frequencies = rope_frequencies(theta, scaling, c);
  std::vector<float> table;
  table.reserve(static_cast<size_t>(max_position * (c / 2) * 2));
  for (int64_t position = 0; position < max_position; ++position) {
    for (const float f : frequencies) {
      const float angle = static_cast<float>(position) * f;
      table.push_back(static_cast<float>(exact_cos(angle)));
      table.push_back(static_cast<float>(exact_sin(angle)));
    }
  }
  return table;
}

Status check_positions(const ModelConfig& config, int64_t max_position) {
  if (config.learned_positions) {
    if (max_position <= config.context_length) return Status();
    return invalid_argument("a context of " + std::to_string(max_position) +
                            " positions: the model has learned " +
                            std::to_string(config.context_length));
  }
  return check_rope_table_size(rotary_width(config) * num_rope_tables(config), max_position);
}

int64_t num_rope_tables(const ModelConfig& config) { return config.local_rope_theta > 0 ? 2 : 1; }

int64_t layer_rope_table(const ModelConfig& config, int64_t layer) {
  return num_rope_tables(config) == 2 && layer_window(config, layer) > 0 ? 1 : 0;
}

std::vector<float> make_rope_table(const ModelConfig& config, int64_t max_position) {
  std::vector<float> table =
      make_rope_table(config.rope_theta, config.rope_scaling, rotary_width(config), max_position);
  if (num_rope_tables(config) == 2) {
    const std::vector<float> local =
        make_rope_table(config.local_rope_theta, {}, rotary_width(config), max_position);
    table.insert(table.end(), local.begin(), local.end());
  }
  return table;
}

std::vector<int64_t> rope_table_shape(const ModelConfig& config, int64_t max_position) {
  return {max_position * num_rope_tables(config), rotary_width(config) / 2, 2};
}

}  // namespace mainspring
