#include "mainspring/cli/cmd_export.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "mainspring/cli/exit_code.h"
#include "mainspring/exec/cpu/cpu_executor.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/io/safetensors.h"
#include "mainspring/models/adapter.h"
#include "mainspring/models/export.h"
#include "mainspring/models/export_gguf.h"
#include "mainspring/sample/forward_model.h"
#include "mainspring/train/checkpointing.h"

namespace mainspring::cli {
namespace {

// Logits (f32) of a fixed token sequence, to see what merging changes.
Result<std::vector<float>> probe_logits(Executor& executor, const LoadedModel& model,
                                        const TensorSet& weights, const Adapter* adapter) {
  constexpr int32_t kTokens = 32;
  ParameterSet base = borrow_parameters(executor, weights);
  ParameterSet adapter_parameters;
  ForwardModel forward_model{.compute = DType::kF32,
                             .config = model.config,
                             .base = &base,
                             .adapters = {},
                             .weight_version = 0};
  if (adapter != nullptr) {
    adapter_parameters = copy_parameters_f32(executor, adapter->tensors);
    nn::AdapterSpec spec;
    for (const auto& [module, sizes] : adapter->modules)
      spec.modules.push_back({module, {sizes.rank, sizes.scale}});
    forward_model.adapters.push_back(
        {.spec = spec, .parameters = &adapter_parameters, .weight_version = 0});
  }
  MS_ASSIGN_OR_RETURN(auto forward, Forward::create(executor, forward_model,
                                                    {.ending = Forward::Ending::kLogits,
                                                     .capacity = {kTokens, kTokens},
                                                     .rope_positions = kTokens}));
  std::vector<int32_t> picked(kTokens);
  for (int32_t i = 0; i < kTokens; ++i) {
    forward->tokens()[i] = static_cast<int32_t>((int64_t{i} * 7919 + 11) % model.config.vocabulary);
    picked[static_cast<size_t>(i)] = i;
  }
  const Segment segment{
      .row_begin = 0, .num_rows = kTokens, .adapter_slot = adapter != nullptr ? 0 : -1};
  forward->run({kTokens, {&segment, 1}, picked}, nullptr);
  return std::vector<float>(forward->result(),
                            forward->result() + kTokens * model.config.vocabulary);
}

Status report_merge(const LoadedModel& model, const Adapter& adapter) {
  MS_ASSIGN_OR_RETURN(auto executor, cpu::make_cpu_executor({}));
  MS_ASSIGN_OR_RETURN(const auto apart, probe_logits(*executor, model, model.weights, &adapter));
  MS_ASSIGN_OR_RETURN(
      const auto merged,
      probe_logits(*executor, model, merge_adapter(model.weights, adapter), nullptr));
  double largest = 0;
  for (size_t i = 0; i < apart.size(); ++i) {
    largest =
        std::max(largest, std::abs(static_cast<double>(apart[i]) - static_cast<double>(merged[i])));
  }
  std::printf(
      "merged in f32: largest logit change %.3g over 32 probe tokens, before rounding to the "
      "file's dtype\n",
      largest);
  return {};
}

// Files "<stem>.safetensors" of a checkpoint or folder, as replacement weights.
Result<TensorSet> read_weights(const std::string& folder, std::string_view stem) {
  MS_ASSIGN_OR_RETURN(const Safetensors file, open_safetensors_folder(folder, stem));
  TensorSet weights;
  for (const auto& [name, entry] : file.tensors) {
    const DType dtype = entry.dtype == "F32" ? DType::kF32 : DType::kBF16;
    if (entry.dtype != "F32" && entry.dtype != "BF16") {
      return unimplemented(folder + ": tensor " + name + " is " + entry.dtype +
                           ", expected F32 or BF16");
    }
    weights[name] = {.name = name,
                     .dtype = dtype,
                     .shape = entry.shape,
                     .data = entry.data,
                     .size_bytes = entry.size_bytes,
                     .owner = entry.owner,
                     .aux = {}};
  }
  return weights;
}

constexpr std::string_view kEmaStem = "ema";

Status check_ema(const ExportFlags& flags) {
  if (flags.adapter.empty() == flags.weights.empty()) {
    return invalid_argument(
        "--ema goes with one of --adapter and --weights: the checkpoint whose moving average is "
        "wanted");
  }
  const std::string& folder = flags.adapter.empty() ? flags.weights : flags.adapter;
  if (is_regular_file(join_path(folder, kEmaFile))) return {};
  return not_found(folder + ": no " + kEmaFile +
                   ": only checkpoints of a run with train.ema have a moving average");
}

// What can be refused before anything is read.
Status check_flags(const ExportFlags& flags) {
  const bool is_gguf = flags.format == "gguf";
  const bool needs_adapter = flags.format == "peft" || flags.format == "merged";
  if (needs_adapter && flags.adapter.empty()) {
    return invalid_argument("--format " + flags.format + " needs --adapter");
  }
  if (flags.format == "hf" && !flags.adapter.empty()) {
    return invalid_argument(
        "--adapter goes with --format peft (the adapter alone), merged or gguf (into the weights), "
        "not hf");
  }
  if (!is_gguf && flags.dtype != "bf16" && flags.dtype != "f32") {
    return invalid_argument("--dtype " + flags.dtype + " goes with --format gguf; " + flags.format +
                            " takes bf16 and f32");
  }
  if (flags.ema) MS_RETURN_IF_ERROR(check_ema(flags));
  if (std::filesystem::exists(flags.out)) {
    return already_exists(flags.out + ": is there already; give a " +
                          (is_gguf ? "file" : "folder") + " to make");
  }
  return {};
}

DType dtype_of(const std::string& name) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0}) {
    if (dtype_name(dtype) == name) return dtype;
  }
  return DType::kBF16;
}

Status export_weights(const LoadedModel& model, const ExportFlags& flags, const Adapter* adapter,
                      const TensorSet* weights) {
  const DType dtype = dtype_of(flags.dtype);
  if (flags.format == "gguf") {
    return export_gguf(model, flags.out, {.dtype = dtype, .weights = weights, .adapter = adapter});
  }
  return export_hf_folder(model, flags.out,
                          {.dtype = dtype, .weights = weights, .adapter = adapter});
}

Status export_model(const ExportFlags& flags) {
  MS_RETURN_IF_ERROR(check_flags(flags));
  MS_ASSIGN_OR_RETURN(const auto model, load_model(flags.model));
  Adapter adapter;
  TensorSet weights;
  if (!flags.adapter.empty()) {
    MS_ASSIGN_OR_RETURN(
        adapter, load_peft(flags.adapter, model->config, flags.ema ? kEmaStem : kPeftTensors));
  }
  if (flags.format == "peft") {
    MS_RETURN_IF_ERROR(export_peft(adapter, model->config, flags.model, flags.out));
  } else {
    const bool merges = !flags.adapter.empty();
    if (merges) MS_RETURN_IF_ERROR(report_merge(*model, adapter));
    if (!flags.weights.empty()) {
      MS_ASSIGN_OR_RETURN(weights, read_weights(flags.weights, flags.ema ? kEmaStem : "model"));
    }
    const Status exported = export_weights(*model, flags, merges ? &adapter : nullptr,
                                           flags.weights.empty() ? nullptr : &weights);
    if (!exported.ok()) {
      return flags.weights.empty() ? exported : exported.with_context("--weights " + flags.weights);
    }
  }
  std::printf("wrote %s\n", flags.out.c_str());
  return {};
}

}  // namespace

int run_export(const ExportFlags& flags) { return exit_code("export", export_model(flags)); }

void add_export(CommandRegistry& registry) {
  auto flags = std::make_shared<ExportFlags>();
  Flags& f = registry.add("export", "write a model or adapter for other tools",
                          [flags] { return run_export(*flags); });
  f.required_text("model", &flags->model, "Hugging Face folder or .gguf file of the base");
  f.text("adapter", &flags->adapter, "PEFT folder, such as a LoRA run's checkpoint");
  f.text("weights", &flags->weights,
         "folder with model.safetensors, such as a full run's checkpoint");
  f.toggle("ema", &flags->ema,
           "the moving average of the checkpoint's weights (train.ema) instead of the last ones");
  f.required_text("out", &flags->out, "new folder (gguf: file) to write");
  f.choice("format", &flags->format, {"hf", "peft", "merged", "gguf"}, "what to write");
  f.choice("dtype", &flags->dtype, {"bf16", "f32", "f16", "q8_0"},
           "of the written weights; f16 and q8_0 with gguf");
}

}  // namespace mainspring::cli
