#include "mainspring/cli/model_session.h"

#include <algorithm>
#include <cstdio>

#include "mainspring/exec/cpu/cpu_executor.h"
#include "mainspring/io/checksum.h"
#include "mainspring/run/progress.h"
#include "mainspring/text/detokenizer.h"

namespace mainspring::cli {
namespace {

constexpr const char* kAdapterPrefix = "adapter/";

class DetokenizerStream final : public TextStream {
 public:
  explicit DetokenizerStream(std::shared_ptr<const Tokenizer> tokenizer)
      : detokenizer_(std::move(tokenizer), /*skip_special_tokens=*/true) {}
  std::string push(int32_t token) override { return detokenizer_.push(token); }
  std::string finish() override { return detokenizer_.finish(); }

 private:
  IncrementalDetokenizer detokenizer_;
};

std::string digest_of(const TensorSet& tensors) {
  if (tensors.empty()) return "none";
  Checksum128 sum;
  for (const auto& [name, tensor] : tensors) {
    const std::string head = name + std::string(dtype_name(tensor.dtype));
    sum.update(head.data(), head.size());
    sum.update(tensor.data, static_cast<size_t>(tensor.size_bytes));
  }
  return sum.digest().hex();
}

}  // namespace

void ModelFlags::declare(Flags& flags) {
  flags.required_text("model", &model, "Hugging Face folder or .gguf file");
  flags.text("adapter", &adapter, "PEFT folder of a LoRA adapter to apply");
  flags.choice("dtype", &dtype, {"bf16", "f32"}, "what activations are computed in");
  flags.integer("threads", &threads, 0, "compute threads (0: the cores this process may use)");
  flags.text("isa", &isa,
             "instruction-set path: scalar, avx2, avx512 or avx512bf16 (empty: the fastest)");
}

Result<std::unique_ptr<ModelSession>> ModelSession::open(const ModelFlags& flags) {
  std::unique_ptr<ModelSession> session(new ModelSession());
  MS_ASSIGN_OR_RETURN(session->model_, load_model(flags.model));
  MS_ASSIGN_OR_RETURN(session->text_, make_model_text(*session->model_));
  std::vector<std::string> notes;
  MS_ASSIGN_OR_RETURN(
      std::unique_ptr<Executor> executor,
      cpu::make_cpu_executor({.num_threads = static_cast<int>(flags.threads), .isa = flags.isa},
                             &notes));
  session->executor_ = std::move(executor);
  for (const std::string& note : notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  session->compute_ = flags.dtype == "f32" ? DType::kF32 : DType::kBF16;
  session->base_ = borrow_parameters(*session->executor_, session->model_->weights);
  if (!flags.adapter.empty()) MS_RETURN_IF_ERROR(session->open_adapter(flags.adapter));
  return session;
}

Result<std::unique_ptr<ModelSession>> ModelSession::open_beside(const std::string& model) const {
  std::unique_ptr<ModelSession> session(new ModelSession());
  MS_ASSIGN_OR_RETURN(session->model_, load_model(model));
  MS_ASSIGN_OR_RETURN(session->text_, make_model_text(*session->model_));
  session->executor_ = executor_;
  session->compute_ = compute_;
  session->base_ = borrow_parameters(*executor_, session->model_->weights);
  return session;
}

Status ModelSession::open_adapter(const std::string& folder) {
  MS_ASSIGN_OR_RETURN(adapter_, load_peft(folder, model_->config));
  for (const auto& [name, tensor] : adapter_.tensors) {
    StoredTensor& copy = adapter_tensors_[kAdapterPrefix + name];
    copy = tensor;
    copy.name = kAdapterPrefix + name;
  }
  adapter_parameters_ = borrow_parameters(*executor_, adapter_tensors_);
  return {};
}

ForwardModel ModelSession::forward_model() const {
  ForwardModel model;
  model.compute = compute_;
  model.config = model_->config;
  model.base = &base_;
  if (adapter_.modules.empty()) return model;
  ForwardAdapter adapter;
  adapter.spec.prefix = kAdapterPrefix;
  for (const auto& [name, module] : adapter_.modules) {
    adapter.spec.modules.push_back({name, {.rank = module.rank, .scale = module.scale}});
  }
  adapter.parameters = &adapter_parameters_;
  model.adapters.push_back(std::move(adapter));
  return model;
}

const std::vector<int32_t>& ModelSession::eos_tokens() const {
  return model_->generation.eos_tokens.empty() ? model_->config.eos_tokens
                                               : model_->generation.eos_tokens;
}

MakeTextStream ModelSession::make_text() const {
  if (text_.tokenizer == nullptr) return {};
  return [tokenizer = text_.tokenizer]() -> std::unique_ptr<TextStream> {
    return std::make_unique<DetokenizerStream>(tokenizer);
  };
}

std::shared_ptr<const TokenBytes> ModelSession::token_bytes() const {
  const auto& tokenizer = text_.tokenizer;
  if (tokenizer == nullptr || tokenizer->decoder_kind() != DecoderKind::kBytes) return nullptr;
  std::vector<std::string> bytes(static_cast<size_t>(model_->config.vocabulary));
  const int64_t known = std::min<int64_t>(tokenizer->vocab_size(), std::ssize(bytes));
  for (int32_t token = 0; token < known; ++token) {
    if (tokenizer->is_special(token) || !tokenizer->token_text(token).ok()) continue;
    bytes[static_cast<size_t>(token)] = tokenizer->token_bytes(token);
  }
  return std::make_shared<TokenBytes>(std::move(bytes));
}

MadeWith ModelSession::made_with() const {
  return {{"model", digest_of(model_->weights)},
          {"adapter", digest_of(adapter_.tensors)},
          {"dtype", std::string(dtype_name(compute_))}};
}

std::string ModelSession::description() const {
  const int threads = executor_->num_threads();
  return model_->config.family + " of " +
         format_count(static_cast<double>(model_->num_parameters)) + " parameters, " +
         std::string(dtype_name(compute_)) + ", " + std::string(executor_->name()) + ", " +
         std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

}  // namespace mainspring::cli
