// ModelSession: what the commands that compute with a model open: files, tokenizer, executor,
// weights.
//
// The one idea: flags in, a ForwardModel over a CPU executor out; everything lives as long as the
// session.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/cli/command.h"
#include "mainspring/cli/result_file.h"
#include "mainspring/exec/executor.h"
#include "mainspring/models/adapter.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/models/model_text.h"
#include "mainspring/sample/forward_model.h"
#include "mainspring/sample/sampler.h"
#include "mainspring/weights/parameter_set.h"

namespace mainspring::cli {

struct ModelFlags {
  std::string model;    // a Hugging Face folder or a .gguf file
  std::string adapter;  // a PEFT folder; empty: none
  std::string dtype = "bf16";
  std::string isa;
  int64_t threads = 0;

  void declare(Flags& flags);
};

class ModelSession {
 public:
  /// Errors: those of load_model, load_peft and the executor; notes of the executor go to stderr.
  static Result<std::unique_ptr<ModelSession>> open(const ModelFlags& flags);
  /// Another model, on this session's executor and in its dtype, without an adapter.
  Result<std::unique_ptr<ModelSession>> open_beside(const std::string& model) const;

  const LoadedModel& model() const { return *model_; }
  const ModelText& text() const { return text_; }
  Executor& executor() { return *executor_; }
  /// The base, and the adapter of --adapter as adapter 0.
  ForwardModel forward_model() const;
  /// The adapter that requests use: 0, or SampleRequest::kBaseOnly without --adapter.
  int32_t adapter_index() const { return adapter_.modules.empty() ? SampleRequest::kBaseOnly : 0; }

  /// Tokens that end a reply, as the model's makers say.
  const std::vector<int32_t>& eos_tokens() const;
  /// Empty if the model has no tokenizer. Special tokens give no text.
  MakeTextStream make_text() const;
  /// For constrained replies; null without a byte-level tokenizer.
  std::shared_ptr<const TokenBytes> token_bytes() const;
  /// What decides results besides the rows: model, adapter (digests of their tensors) and dtype.
  MadeWith made_with() const;
  /// "SmolLM2 135M parameters, bf16, cpu/avx2, 2 threads", for people.
  std::string description() const;

 private:
  ModelSession() = default;
  Status open_adapter(const std::string& folder);

  std::shared_ptr<const LoadedModel> model_;
  ModelText text_;
  std::shared_ptr<Executor> executor_;
  DType compute_ = DType::kBF16;
  ParameterSet base_;
  Adapter adapter_;
  TensorSet adapter_tensors_;
  ParameterSet adapter_parameters_;
};

}  // namespace mainspring::cli
