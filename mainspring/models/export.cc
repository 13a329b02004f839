#include "mainspring/models/export.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "mainspring/io/atomic_file.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/io/safetensors.h"
#include "mainspring/models/export_weights.h"
#include "mainspring/models/file_layout.h"
#include "mainspring/models/hf_config.h"
#include "mainspring/text/tokenizer.h"
#include "mainspring/weights/dequantise.h"

namespace mainspring {
namespace {

std::string_view safetensors_dtype(DType dtype) { return dtype == DType::kF32 ? "F32" : "BF16"; }
std::string_view torch_dtype(DType dtype) { return dtype == DType::kF32 ? "float32" : "bfloat16"; }

using Shard = std::vector<FileTensor>;

int64_t file_bytes(const FileTensor& file, DType dtype) {
  int64_t bytes = 0;
  for (const ParameterSpec& part : file.parts) {
    int64_t elements = 1;
    for (const int64_t dim : part.shape) elements *= dim;
    bytes += dtype_bytes(dtype, elements);
  }
  return bytes;
}

/// In name order, a new shard whenever the next tensor would not fit.
std::vector<Shard> cut_shards(const ModelConfig& config, const ExportOptions& options) {
  std::vector<FileTensor> files = file_tensors(config);
  std::sort(files.begin(), files.end(),
            [](const FileTensor& a, const FileTensor& b) { return a.name < b.name; });
  std::vector<Shard> shards(1);
  int64_t bytes = 0;
  for (FileTensor& file : files) {
    const int64_t size = file_bytes(file, options.dtype);
    if (bytes > 0 && bytes + size > options.max_shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(std::move(file));
    bytes += size;
  }
  return shards;
}

std::string shard_name(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

Status write_shard(const LoadedModel& model, const Shard& shard, const std::string& path,
                   const ExportOptions& options) {
  std::vector<SafetensorsSpec> specs;
  for (const FileTensor& file : shard) {
    specs.push_back({.name = file.name,
                     .dtype = std::string(safetensors_dtype(options.dtype)),
                     .shape = file.shape});
  }
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                      SafetensorsWriter::create(path, specs, {{"format", "pt"}}));
  for (const FileTensor& file : shard) {
    std::vector<StoredTensor> parts;
    for (const ParameterSpec& part : file.parts) {
      const StoredTensor& own = model.weights.at(part.name);
      parts.push_back(
          to_dtype(exported_tensor(own, options.weights, options.adapter), options.dtype));
    }
    const StoredTensor out = join_parts(file, parts);
    MS_RETURN_IF_ERROR(writer->append(out.data, out.size_bytes));
  }
  return writer->finish();
}

Status write_weights(const LoadedModel& model, const std::string& folder,
                     const ExportOptions& options) {
  const std::vector<Shard> shards = cut_shards(model.config, options);
  Json weight_map = Json::object();
  int64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    MS_RETURN_IF_ERROR(write_shard(model, shards[i], join_path(folder, name), options));
    for (const FileTensor& file : shards[i]) {
      weight_map.get_ref<Json::object_t&>().emplace_back(file.name, name);
      total += file_bytes(file, options.dtype);
    }
  }
  if (shards.size() == 1) return Status();
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(weight_map)}};
  return write_file_atomically(join_path(folder, "model.safetensors.index.json"),
                               json_text(index, 2) + "\n");
}

/// A Hugging Face source's own config with the new dtype, else one made from what is known.
Result<Json> config_of(const LoadedModel& model, DType dtype) {
  if (needs_own_class(model.config)) {
    return unimplemented("no class of transformers caps the logits of a " + model.config.family +
                         " model: a folder would compute another function there. The checkpoint "
                         "itself is a folder that Mainspring reads");
  }
  if (model.config_json.empty()) return make_hf_config(model.config, torch_dtype(dtype));
  MS_ASSIGN_OR_RETURN(Json json, parse_json(model.config_json, model.path));
  json[json.contains("dtype") ? "dtype" : "torch_dtype"] = torch_dtype(dtype);
  json.erase("_name_or_path");
  return json;
}

Json optional_text(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

/// For a GGUF source; what transformers needs beside tokenizer.json.
Json tokenizer_config_of(const LoadedModel& model) {
  const TokenizerSource& source = model.tokenizer;
  Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"model_max_length", model.config.context_length},
               {"clean_up_tokenization_spaces", false},
               {"bos_token", optional_text(source.bos_token)},
               {"eos_token", optional_text(source.eos_token)},
               {"unk_token", optional_text(source.unk_token)},
               {"pad_token", optional_text(source.pad_token)}};
  if (!source.chat_template.empty()) json["chat_template"] = source.chat_template;
  return json;
}

Status write_if_any(const std::string& folder, std::string_view name, const std::string& text) {
  return text.empty() ? Status() : write_file_atomically(join_path(folder, name), text);
}

/// Files of slow tokenizers and older releases, copied as they are.
Status copy_further_files(const std::string& from, const std::string& folder) {
  for (const std::string_view name : {"special_tokens_map.json", "added_tokens.json", "vocab.json",
                                      "merges.txt", "tokenizer.model"}) {
    const std::string path = join_path(from, name);
    if (!is_regular_file(path)) continue;
    MS_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
    MS_RETURN_IF_ERROR(write_file_atomically(join_path(folder, name), text));
  }
  return Status();
}

Status write_templates(const TokenizerSource& source, const std::string& folder) {
  MS_RETURN_IF_ERROR(write_if_any(folder, "chat_template.jinja", source.chat_template));
  if (source.named_chat_templates.empty()) return Status();
  const std::string more = join_path(folder, "additional_chat_templates");
  MS_RETURN_IF_ERROR(make_directories(more));
  for (const auto& [name, text] : source.named_chat_templates) {
    if (name.empty() || name.find('/') != std::string::npos || name[0] == '.') {
      return unimplemented("chat template '" + name + "' cannot be a file's name");
    }
    MS_RETURN_IF_ERROR(write_if_any(more, name + ".jinja", text));
  }
  return Status();
}

Status write_tokenizer(const LoadedModel& model, const std::string& folder) {
  const TokenizerSource& source = model.tokenizer;
  MS_RETURN_IF_ERROR(write_templates(source, folder));
  if (model.source == ModelSource::kHuggingFace) {
    MS_RETURN_IF_ERROR(write_if_any(folder, "tokenizer.json", source.tokenizer_json));
    MS_RETURN_IF_ERROR(write_if_any(folder, "tokenizer_config.json", source.tokenizer_config_json));
    return copy_further_files(model.path, folder);
  }
  if (!source.gguf.has_value()) return Status();
  MS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::from_gguf(*source.gguf));
  MS_ASSIGN_OR_RETURN(const std::string json, tokenizer->to_json());
  MS_RETURN_IF_ERROR(write_if_any(folder, "tokenizer.json", json));
  return write_if_any(folder, "tokenizer_config.json",
                      json_text(tokenizer_config_of(model), 2) + "\n");
}

}  // namespace

Status export_hf_folder(const LoadedModel& model, const std::string& folder,
                        const ExportOptions& options) {
  MS_CHECK(options.dtype == DType::kF32 || options.dtype == DType::kBF16, "export in f32 or bf16");
  MS_RETURN_IF_ERROR(check_export_weights(model, options.weights));
  Result<Json> config = config_of(model, options.dtype);
  if (!config.ok()) return config.status().with_context("export");
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicDir> target, AtomicDir::create(folder));
  const std::string& out = target->path();
  MS_RETURN_IF_ERROR(
      write_file_atomically(join_path(out, "config.json"), json_text(*config, 2) + "\n"));
  const std::string generation =
      model.generation_config_json.empty()
          ? json_text(make_generation_config(model.config, model.generation), 2) + "\n"
          : model.generation_config_json;
  MS_RETURN_IF_ERROR(write_file_atomically(join_path(out, "generation_config.json"), generation));
  MS_RETURN_IF_ERROR(write_tokenizer(model, out));
  MS_RETURN_IF_ERROR(write_weights(model, out, options));
  return target->commit();
}

}  // namespace mainspring
