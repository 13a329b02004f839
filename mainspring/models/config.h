// ModelConfig: everything about a decoder that changes its results, whatever file it came from.
//
// The one idea: config.json of the Hugging Face families and GGUF metadata become one flat
// struct; a source field that would change results and has no place here is refused while loading,
// never ignored. Not for how to compute: that is models/decoder.h. Design note: docs/design.md,
// section 2 (models/).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

/// How rotary frequencies are stretched for longer contexts.
///   kLinear:  f' = f / factor
///   kLlama3:  with wavelength w = 2 pi / f:  f' = f / factor if w > original_context /
///   low_freq_factor;
///             f if w < original_context / high_freq_factor; between them
///             f' = (1 - s) * f / factor + s * f,
///             s = (original_context / w - low_freq_factor) / (high_freq_factor - low_freq_factor)
///   kFactors: f'_i = f_i / factors[i], one factor per pair (GGUF's rope_freqs.weight when it is
///   not
///             recognised as kLlama3)
struct RopeScaling {
  enum class Kind { kNone, kLinear, kLlama3, kFactors };
  Kind kind = Kind::kNone;
  float factor = 1.0f;
  float low_freq_factor = 1.0f;
  float high_freq_factor = 4.0f;
  int64_t original_context = 0;
  std::vector<float> factors;  // kFactors: (head_width / 2)

  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

/// The function between the MLP's linears.
enum class MlpActivation { kSilu, kGeluTanh };

/// A dense decoder of one of the families. Axis letters: docs/glossary.md.
struct ModelConfig {
  std::string family;  // "gemma2", "gemma3", "gpt2", "llama", "mistral", "phi3", "qwen2", "qwen3"
  int64_t d = 0;       // hidden size
  int64_t layers = 0;
  int64_t query_heads = 0;   // h
  int64_t kv_heads = 0;      // divides query_heads
  int64_t head_width = 0;    // c, set apart from d / h
  int64_t rotary_width = 0;  // leading elements of a head that rope turns; 0: all of them
  int64_t ffn = 0;
  int64_t vocabulary = 0;      // rows of the embedding
  int64_t context_length = 0;  // positions the model was made for
  float rms_eps = 1e-6f;       // of either norm
  float rope_theta = 10000.0f;
  RopeScaling rope_scaling;
  float local_rope_theta = 0.0f;  // windowed layers' own theta, unscaled; 0: all layers are alike
  int64_t window = 0;  // keys that a windowed layer's query sees, itself included; 0: no window
  std::vector<bool> windowed_layers;  // (layers); empty: a window, if any, is on every layer
  float query_scalar = 0.0f;          // scores are q.k / sqrt(this); 0: of the head width
  float attention_softcap = 0.0f;     // scores become cap tanh(score / cap); 0: none
  float final_softcap = 0.0f;         // the same of logits
  MlpActivation activation = MlpActivation::kSilu;
  bool layer_norm = false;          // layer norms with a bias in place of root-mean-square norms
  bool learned_positions = false;   // a learned row per position is added, and no rope; of the
                                    // context length
  bool gated_mlp = true;            // down(f(gate) * up), else down(f(up))
  bool norm_plus_one = false;       // norm weights are stored without their one
  bool sandwich_norms = false;      // norms before and after attention and MLP
  bool scaled_embeddings = false;   // embeddings times sqrt(d)
  bool tied_embeddings = false;     // the head is the embedding matrix
  bool attention_bias = false;      // biases on q, k, v
  bool output_bias = false;         // bias on o_proj
  bool mlp_bias = false;            // biases on gate, up, down
  bool qk_norm = false;             // rms_norm over each head of q and k, before rope
  std::vector<int32_t> eos_tokens;  // any of them ends a reply
  int32_t bos_token = -1;           // -1: none
  int32_t pad_token = -1;           // -1: none

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Elements of a head that rope turns.
int64_t rotary_width(const ModelConfig& config);

/// The window of one layer; 0: every earlier key is seen.
int64_t layer_window(const ModelConfig& config, int64_t layer);

/// One tensor that a model of a given config has.
struct ParameterSpec {
  std::string name;            // Hugging Face's: "model.layers.3.mlp.up_proj.weight"
  std::vector<int64_t> shape;  // linear weights (out, in)
};

/// Every parameter of the model, in the order of the forward pass: the embedding, each layer, the
/// last norm, and lm_head.weight if untied.
std::vector<ParameterSpec> model_parameters(const ModelConfig& config);

/// Values that no model can have (sizes below 1, heads that do not divide, odd head width,
/// non-positive eps or theta). Errors: invalid argument with the field's name, what was expected
/// and what was got.
Status validate_config(const ModelConfig& config);

}  // namespace mainspring
