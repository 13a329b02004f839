// Recipe: everything a training run is asked to do, typed, with the origin of each value.
//
// The one idea: one table (recipe.cc) lists every key with its type, default, bounds and meaning;
// the TOML file, --set and --help are all read against it, so an unknown key, a wrong type or an
// impossible combination is refused before any work, with file, line, what was expected and the
// nearest name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/toml.h"
#include "mainspring/run/run_folder.h"
#include "mainspring/train/recipe_rl.h"

namespace mainspring {

struct ModelRecipe {
  std::string path;    // HF folder or .gguf
  std::string family;  // "" | llama | qwen3 | gpt2: a new model
  int64_t layers = 12;
  int64_t hidden = 768;
  int64_t heads = 12;
  int64_t kv_heads = 0;      // 0: heads
  int64_t head_dim = 0;      // 0: hidden / heads
  int64_t intermediate = 0;  // 0: 8/3 hidden, up to a multiple of 32; gpt2: 4 hidden
  int64_t vocab = 0;         // 0: the tokenizer's
  int64_t context = 1024;
  bool tie_embeddings = false;
  bool qk_norm = false;
  double rope_theta = 10000.0;
  double rms_eps = 1e-5;
  double logit_soft_cap = 0.0;  // 0: none
  std::string init = "scaled";  // scaled | normal | fan_in
  double init_std = 0.02;
  int64_t mup_base_hidden = 0;    // 0: no muP
  int64_t mup_base_head_dim = 0;  // 0: the model's
  std::string tokenizer;          // tokenizer.json, folder or .gguf; "": bytes
  std::string dtype = "bf16";     // compute: bf16 | f32
  std::string
      quantise;  // "" | q4_0 | q4_1 | q5_0 | q5_1 | q8_0 | nf4 | int8: the frozen base is stored so
};

struct DataRecipe {
  std::vector<std::string> files;
  std::vector<double> weights;        // mixture weights, one per file; empty: by number of rows
  std::string format = "auto";        // auto | chat | completion | text | tokens | shards
  bool across_documents = false;      // of shards' windows
  std::string loss_on = "assistant";  // assistant | all
  int64_t max_tokens = 2048;
  bool shuffle = true;
  double held_out = 0.0;  // fraction of rows kept for evaluation
  std::vector<std::string> eval_files;
  double stall_timeout_s = 60.0;
};

struct TuneRecipe {
  std::string mode = "lora";  // lora | full
  int64_t rank = 16;
  double alpha = 32.0;
  double dropout = 0.0;
  std::vector<std::string> targets;  // empty: all seven linears
};

struct TrainRecipe {
  int64_t steps = 100;
  int64_t batch_size = 8;          // sequences per optimizer step
  int64_t batch_tokens = 0;        // > 0: at least so many tokens per step instead
  int64_t batch_ramp_from = 0;     // batch of the first step, in the batch's own unit
  int64_t batch_ramp_steps = 0;    // steps until the batch is full; 0: from the first on
  int64_t gradient_leaf = 0;       // sequences to a gradient leaf; 0: all
  int64_t micro_batch_rows = 0;    // 0: from memory
  std::string recompute = "none";  // none | selective | full
  double max_grad_norm = 1.0;      // 0: no clipping
  double z_loss = 0.0;             // times lse^2 per token
  std::string spikes = "ignore";   // ignore | skip | rollback
  double spike_factor = 20.0;      // median distances above the median loss
  int64_t spike_window = 32;       // losses that say what is usual
  int64_t max_spikes = 20;         // before the run stops
  double ema = 0.0;                // decay of the moving average of the weights; 0: none is kept
  bool ema_warmup = true;          // a smaller decay in the first steps
  bool ema_eval = true;            // evaluations and samples take the average
  int64_t max_bad_steps = 3;       // non-finite steps in a row before the run stops
  int64_t eval_every = 0;          // 0: at the end only
  int64_t eval_rows = 64;
  std::vector<std::string> sample_prompts;  // answered before, at every evaluation, and after
  int64_t sample_tokens = 64;
  std::vector<std::string> disabled_passes;
};

/// One [[optim.groups]] table: parameters that are moved differently.
struct GroupRecipe {
  std::vector<std::string> params;  // names; '*' stands for any text
  std::string optimizer;            // "": as optim.optimizer says
  double lr_scale = 1.0;
  std::optional<double> weight_decay;  // unset: optim.weight_decay
};

struct OptimRecipe {
  std::string optimizer = "adamw";  // adamw | muon | lion | adafactor | adamw8bit
  std::string state = "f32";        // f32 | bf16: weights and moments, without f32 masters
  std::vector<GroupRecipe> groups;
  double lr = 2e-4;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.95;  // Muon
  bool nesterov = true;
  std::string muon_scale = "match_adamw";  // match_adamw | original | spectral
  std::string muon_products = "bf16";      // bf16 | f32
  double lion_beta1 = 0.9;
  double lion_beta2 = 0.99;
  double adafactor_decay = -0.8;
  double adafactor_eps = 1e-3;
  double adafactor_clip = 1.0;
  std::string schedule = "cosine";  // constant | linear | cosine | wsd
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;
  double final_ratio = 0.0;
};

/// kind = "preference".
struct PreferenceRecipe {
  std::string loss = "dpo";
  std::map<std::string, double, std::less<>> settings;  // those given; the loss has the others
};

struct CheckpointRecipe {
  int64_t every = 0;  // 0: the last step only
  int64_t keep_last = 3;
  int64_t keep_best = 1;
};

struct Recipe {
  std::string kind = "supervised";  // what is learned from: recipe_kinds()
  std::string title;                // of the report; the file's stem
  uint64_t seed = 0;
  ModelRecipe model;
  DataRecipe data;
  TuneRecipe tune;
  TrainRecipe train;
  OptimRecipe optim;
  CheckpointRecipe checkpoint;
  RlRecipe rl;
  EnvRecipe env;
  PreferenceRecipe preference;

  std::vector<RecipeValue> values;  // every key with its value and origin, in table order
};

/// What `kind` may say.
const std::vector<std::string>& recipe_kinds();

/// One row of the key table, for --help and documentation.
struct RecipeKey {
  std::string key;
  std::string type;      // "string", "integer", "number", "boolean", "list of strings", ...
  std::string fallback;  // as TOML
  std::string meaning;
};
std::vector<RecipeKey> recipe_keys();

/// Reads a recipe file and applies `sets` ("train.steps=20"; the value is parsed as TOML, else
/// taken as a string) in order. Paths in the file are relative to the working directory. Errors:
/// not found; invalid argument with file:line:column, the key, what was expected, the nearest name.
Result<Recipe> load_recipe(const std::string& path, const std::vector<std::string>& sets);

/// The same with `values` (keys as "optim.lr") between the file and `sets`; each keeps its own
/// place as its origin.
Result<Recipe> load_recipe(const std::string& path, const ConfigTable& values,
                           const std::vector<std::string>& sets);

/// The recipe that a run's record tells of (read_run_recipe): keys it does not name have their
/// defaults. Errors: as load_recipe, with `source`.
Result<Recipe> recipe_from_record(const std::vector<RecipeValue>& values,
                                  const std::string& source);

}  // namespace mainspring
