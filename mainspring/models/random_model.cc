#include "mainspring/models/random_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "mainspring/base/bf16.h"
#include "mainspring/base/elementary.h"
#include "mainspring/base/nearest.h"
#include "mainspring/base/philox.h"
#include "mainspring/base/thread_pool.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/models/hf_config.h"
#include "mainspring/models/model_text.h"
#include "mainspring/models/tokenizer_source.h"
#include "mainspring/nn/layers.h"
#include "mainspring/text/byte_tokenizer.h"

namespace mainspring {
namespace {

constexpr double kTwoPi = 6.283185307179586476925;

/// Elements [4 block, 4 block + 4) of a parameter's normal numbers.
void normals(PhiloxKey key, int64_t block, double (&out)[4]) {
  const PhiloxCounter bits =
      philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}, key);
  for (size_t pair = 0; pair < 2; ++pair) {
    // In (0, 1]: its logarithm is finite.
    const double u = (static_cast<double>(bits[2 * pair] >> 8) + 1.0) * 0x1p-24;
    const double angle = kTwoPi * static_cast<double>(bits[2 * pair + 1] >> 8) * 0x1p-24;
    const double radius = std::sqrt(-2.0 * exact_log(u));
    out[2 * pair] = radius * exact_cos(angle);
    out[2 * pair + 1] = radius * exact_sin(angle);
  }
}

void fill_normal(ThreadPool& pool, PhiloxKey key, double std, std::vector<float>& values) {
  const auto n = static_cast<int64_t>(values.size());
  constexpr int64_t kPiece = 1 << 14;
  pool.run((n + kPiece - 1) / kPiece, [&](int64_t piece, int) {
    const int64_t end = std::min(n, (piece + 1) * kPiece);
    for (int64_t i = piece * kPiece; i < end; i += 4) {
      double four[4];
      normals(key, i / 4, four);
      for (int64_t j = i; j < std::min(end, i + 4); ++j) {
        values[static_cast<size_t>(j)] = static_cast<float>(std * four[j - i]);
      }
    }
  });
}

bool ends_branch(std::string_view name) {
  return name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
}

bool is_table(std::string_view name) {
  return name.ends_with("embed_tokens.weight") || name.ends_with("embed_positions.weight") ||
         name.ends_with("lm_head.weight");
}

double std_of(const ParameterSpec& spec, const ModelConfig& config, const InitOptions& options,
              const MupPart& part) {
  if (options.scheme == InitScheme::kFanIn && !is_table(spec.name)) {
    return part.multiplier / std::sqrt(static_cast<double>(spec.shape.back()));
  }
  const double std = options.std * (part.multiplier / std::sqrt(part.fan_in));
  if (options.scheme == InitScheme::kScaled && ends_branch(spec.name)) {
    return std / std::sqrt(2.0 * static_cast<double>(config.layers));
  }
  return std;
}

StoredTensor owned(const ParameterSpec& spec, std::shared_ptr<std::vector<float>> values) {
  StoredTensor tensor;
  tensor.name = spec.name;
  tensor.dtype = DType::kF32;
  tensor.shape = spec.shape;
  tensor.data = values->data();
  tensor.size_bytes = static_cast<int64_t>(values->size() * sizeof(float));
  tensor.owner = std::move(values);
  return tensor;
}

StoredTensor in_bf16(const StoredTensor& tensor) {
  const auto* from = static_cast<const float*>(tensor.data);
  auto values = std::make_shared<std::vector<bf16>>(static_cast<size_t>(tensor.num_elements()));
  std::transform(from, from + tensor.num_elements(), values->begin(), to_bf16);
  StoredTensor narrow = tensor;
  narrow.dtype = DType::kBF16;
  narrow.data = values->data();
  narrow.size_bytes = tensor.size_bytes / 2;
  narrow.owner = std::move(values);
  return narrow;
}

}  // namespace

Result<InitScheme> parse_init_scheme(std::string_view name) {
  const std::vector<std::string> known{"scaled", "normal", "fan_in"};
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i] == name) return static_cast<InitScheme>(i);
  }
  return invalid_argument("no init scheme named \"" + std::string(name) + "\", nearest is \"" +
                          nearest_name(std::string(name), known) + "\"");
}

TensorSet random_weights(const ModelConfig& config, const InitOptions& options) {
  ThreadPool pool(std::max(1, options.num_threads));
  TensorSet weights;
  for (const ParameterSpec& spec : model_parameters(config)) {
    int64_t elements = 1;
    for (int64_t dim : spec.shape) elements *= dim;
    auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(elements), 0.0f);
    const MupPart part = mup_part(config, options.mup, spec.name);
    if (spec.shape.size() > 1) {
      const PhiloxKey key = philox_key(nn::random_key(options.seed, spec.name));
      fill_normal(pool, key, std_of(spec, config, options, part), *values);
    } else if (spec.name.ends_with(".weight")) {
      std::fill(values->begin(), values->end(), static_cast<float>(part.multiplier));
    }
    weights[spec.name] = owned(spec, std::move(values));
    if (options.dtype == DType::kBF16) weights[spec.name] = in_bf16(weights[spec.name]);
  }
  return weights;
}

Result<ModelConfig> complete_config(ModelConfig config, const TokenizerSource& tokenizer) {
  LoadedModel named;
  named.path = "the new model";
  named.tokenizer = tokenizer;
  MS_ASSIGN_OR_RETURN(const ModelText text, make_model_text(named));
  if (text.tokenizer != nullptr) {
    const int64_t needed = text.tokenizer->vocab_size();
    if (config.vocabulary == 0) config.vocabulary = needed;
    if (config.vocabulary < needed) {
      return invalid_argument("the tokenizer has " + std::to_string(needed) +
                              " tokens, the vocabulary only " + std::to_string(config.vocabulary));
    }
    const auto eos = text.tokenizer->eos_token();
    if (config.eos_tokens.empty() && eos.has_value()) config.eos_tokens = {*eos};
  }
  MS_RETURN_IF_ERROR(validate_config(config));
  return config;
}

Result<std::shared_ptr<const LoadedModel>> make_random_model(ModelConfig config,
                                                             const InitOptions& options,
                                                             TokenizerSource tokenizer) {
  auto model = std::make_shared<LoadedModel>();
  MS_ASSIGN_OR_RETURN(model->config, complete_config(std::move(config), tokenizer));
  model->path = "a new " + model->config.family + " model";
  model->tokenizer = std::move(tokenizer);
  MS_ASSIGN_OR_RETURN(
      const Json json,
      make_hf_config(model->config, options.dtype == DType::kBF16 ? "bfloat16" : "float32"));
  model->config_json = json_text(json, 2) + "\n";
  model->weights = random_weights(model->config, options);
  for (const auto& [name, tensor] : model->weights) {
    model->num_parameters += tensor.num_elements();
    model->size_bytes += tensor.size_bytes;
  }
  return std::shared_ptr<const LoadedModel>(std::move(model));
}

Result<TokenizerSource> read_tokenizer_source(const std::string& path) {
  TokenizerSource source;
  if (path == "none") return source;
  if (path.empty()) {
    source.tokenizer_json = byte_tokenizer_json();
    source.tokenizer_config_json = byte_tokenizer_config_json();
    source.eos_token = kByteEndOfText;
    return source;
  }
  if (path.ends_with(".gguf")) {
    MS_ASSIGN_OR_RETURN(const auto file, GgufFile::open(path));
    MS_ASSIGN_OR_RETURN(source, read_gguf_tokenizer_source(*file));
    MS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::from_gguf(*source.gguf));
    MS_ASSIGN_OR_RETURN(source.tokenizer_json, tokenizer->to_json());
    source.gguf.reset();
    return source;
  }
  std::error_code none;
  const bool is_folder = std::filesystem::is_directory(path, none);
  const std::string folder = is_folder ? path : std::filesystem::path(path).parent_path().string();
  MS_ASSIGN_OR_RETURN(source, read_folder_tokenizer(folder.empty() ? "." : folder));
  if (!is_folder) {
    MS_ASSIGN_OR_RETURN(source.tokenizer_json, read_text_file(path, int64_t{1} << 29));
  }
  if (source.tokenizer_json.empty()) return not_found(path + ": has no tokenizer.json");
  return source;
}

}  // namespace mainspring
