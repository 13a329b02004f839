#include "mainspring/cli/cmd_inspect.h"

#include <unistd.h>

#include <cstdio>
#include <memory>

#include "mainspring/ckpt/checkpoint.h"
#include "mainspring/cli/exit_code.h"
#include "mainspring/exec/cpu/cpu_executor.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/models/config.h"
#include "mainspring/train/setup.h"

namespace mainspring::cli {
namespace {

struct InspectFlags {
  std::string target;
  std::vector<std::string> sets;
  int64_t rows = 3;
  bool json = false;
  bool digest = false;
};

// A text with the control characters made visible, newlines kept after a mark.
std::string visible(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\n')
      out += "\xE2\x86\xB5\n";
    else
      out += c;
  }
  return out;
}

// Token by token, what is learned marked.
void print_pieces(const std::vector<std::string>& pieces, const std::vector<uint8_t>& mask,
                  bool colour) {
  for (size_t t = 0; t < pieces.size(); ++t) {
    const bool learned = mask[t] != 0;
    if (colour)
      std::printf("%s%s\033[0m", learned ? "\033[30;42m" : "\033[2m", visible(pieces[t]).c_str());
    else
      std::printf("%s%s%s", learned ? "[" : "", visible(pieces[t]).c_str(), learned ? "]" : "");
  }
}

void print_row(const DescribedRow& row, bool colour) {
  std::string sizes = std::to_string(row.row.tokens.size());
  if (row.row.is_pair()) sizes += " and " + std::to_string(row.row.rejected.size());
  std::printf("%s:%lld  %s tokens%s\n", row.file.c_str(), static_cast<long long>(row.line),
              sizes.c_str(),
              row.use == RowUse::kUsed      ? ""
              : row.use == RowUse::kTooLong ? "  LEFT OUT: too long"
                                            : "  LEFT OUT: nothing to learn");
  if (row.row.is_pair()) std::printf("chosen: ");
  print_pieces(row.pieces, row.row.mask, colour);
  if (row.row.is_pair()) {
    std::printf("\nrejected: ");
    print_pieces(row.rejected_pieces, row.row.rejected_mask, colour);
  }
  std::printf("\n\n");
}

void print_row_json(const DescribedRow& row) {
  Json json;
  json["file"] = row.file;
  json["line"] = row.line;
  json["used"] = row.use == RowUse::kUsed;
  json["tokens"] = row.row.tokens;
  json["mask"] = row.row.mask;
  json["pieces"] = row.pieces;
  if (row.row.is_pair()) {
    json["rejected"] = row.row.rejected;
    json["rejected_mask"] = row.row.rejected_mask;
    json["rejected_pieces"] = row.rejected_pieces;
  }
  std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

// The first windows of the training order, and what the folders hold.
Status inspect_shards(const Recipe& recipe, const LoadedModel& model, const ModelText& text,
                      const InspectFlags& flags) {
  MS_ASSIGN_OR_RETURN(const auto loader, open_shards(recipe, text, model.config));
  MS_ASSIGN_OR_RETURN(const std::vector<Datum> datums, loader->next(flags.rows));
  for (const Datum& datum : datums) {
    if (flags.json) {
      std::printf("%s\n",
                  Json{{"tokens", datum.tokens}, {"targets", datum.targets}}.dump().c_str());
      continue;
    }
    std::printf("%zu tokens\n", datum.tokens.size());
    if (text.tokenizer == nullptr) continue;
    MS_ASSIGN_OR_RETURN(const std::string shown, text.tokenizer->decode(datum.tokens));
    std::printf("%s\n\n", visible(shown).c_str());
  }
  if (flags.json) return {};
  for (const SourceReport& report : loader->report()) {
    std::printf("%s: %lld windows of %lld tokens (%lld held out)\n", report.name.c_str(),
                static_cast<long long>(report.num_rows),
                static_cast<long long>(recipe.data.max_tokens),
                static_cast<long long>(report.num_held_out));
  }
  return {};
}

Status inspect_data(const InspectFlags& flags) {
  MS_ASSIGN_OR_RETURN(const Recipe recipe, load_recipe(flags.target, flags.sets));
  MS_ASSIGN_OR_RETURN(const auto model, load_recipe_model(recipe));
  MS_ASSIGN_OR_RETURN(const ModelText text, make_model_text(*model));
  if (recipe.data.format == "shards") return inspect_shards(recipe, *model, text, flags);
  MS_ASSIGN_OR_RETURN(const auto encoder, make_encoder(recipe, text));
  MS_ASSIGN_OR_RETURN(const auto loader, DataLoader::open(data_options(recipe), encoder));
  MS_ASSIGN_OR_RETURN(const auto rows, loader->describe_next(flags.rows));
  for (const DescribedRow& row : rows) {
    if (flags.json)
      print_row_json(row);
    else
      print_row(row, isatty(STDOUT_FILENO) != 0);
  }
  if (flags.json) return {};
  MS_ASSIGN_OR_RETURN(const DataLoader::Survey survey, loader->survey());
  for (const SourceReport& report : survey.sources) std::printf("%s\n", describe(report).c_str());
  std::printf("%lld tokens, %lld learned; longest row %lld tokens\n",
              static_cast<long long>(survey.num_tokens), static_cast<long long>(survey.num_learned),
              static_cast<long long>(survey.longest_tokens));
  return {};
}

Status inspect_model(const InspectFlags& flags) {
  MS_ASSIGN_OR_RETURN(const auto model, load_model(flags.target));
  const ModelConfig& c = model->config;
  std::printf("%s  %s, %.1fM parameters, %.1f MiB stored\n", model->path.c_str(), c.family.c_str(),
              static_cast<double>(model->num_parameters) / 1e6,
              static_cast<double>(model->size_bytes) / (1 << 20));
  std::printf("d %lld  layers %lld  h %lld  kv %lld  c %lld  f %lld  v %lld  context %lld  %s\n",
              static_cast<long long>(c.d), static_cast<long long>(c.layers),
              static_cast<long long>(c.query_heads), static_cast<long long>(c.kv_heads),
              static_cast<long long>(c.head_width), static_cast<long long>(c.ffn),
              static_cast<long long>(c.vocabulary), static_cast<long long>(c.context_length),
              c.tied_embeddings ? "tied" : "untied");
  for (const auto& [name, tensor] : model->weights) {
    std::printf("%-56s %s\n", name.c_str(),
                ValueType{tensor.dtype, {tensor.shape}}.to_string().c_str());
  }
  return {};
}

Status inspect_plan(const InspectFlags& flags) {
  MS_ASSIGN_OR_RETURN(const Recipe recipe, load_recipe(flags.target, flags.sets));
  MS_ASSIGN_OR_RETURN(auto executor, cpu::make_cpu_executor({}));
  MS_ASSIGN_OR_RETURN(TrainSetup setup, set_up(recipe, *executor));
  MS_ASSIGN_OR_RETURN(const PlanReport report, setup.engine->plan(setup.id, "cross_entropy"));
  double flops = 0;
  for (const PlanStep& step : report.steps) {
    std::printf("%10.1f MFLOP %9.2f MiB  %s\n", step.flops / 1e6, step.bytes / (1 << 20),
                step.text.c_str());
    flops += step.flops;
  }
  std::printf(
      "%zu steps, %.2f GFLOP; arena %.1f MiB, scratch %.1f MiB, packed weights %.1f MiB; held now "
      "%.1f MiB\n",
      report.steps.size(), flops / 1e9, static_cast<double>(report.arena_bytes) / (1 << 20),
      static_cast<double>(report.scratch_bytes) / (1 << 20),
      static_cast<double>(report.packed_bytes) / (1 << 20),
      static_cast<double>(setup.engine->current_bytes()) / (1 << 20));
  for (const auto& [pass, ms] : report.pass_ms)
    std::printf("pass %-20s %.2f ms\n", pass.c_str(), ms);
  return {};
}

// Of a run, of its checkpoints folder, or one checkpoint.
Result<NewestCheckpoint> find_checkpoint(const std::string& target) {
  if (is_regular_file(join_path(target, "manifest.json"))) {
    NewestCheckpoint found;
    MS_ASSIGN_OR_RETURN(found.checkpoint, load_checkpoint(target));
    return found;
  }
  if (!is_directory(target)) {
    return not_found(target + ": no such folder; expected a run folder or a checkpoint in one");
  }
  const std::string of_run = join_path(target, "checkpoints");
  return load_newest_checkpoint(is_directory(of_run) ? of_run : target);
}

Status inspect_checkpoint(const InspectFlags& flags) {
  MS_ASSIGN_OR_RETURN(const NewestCheckpoint newest, find_checkpoint(flags.target));
  if (!newest.checkpoint.has_value()) return not_found(flags.target + ": no checkpoint");
  const Checkpoint& checkpoint = *newest.checkpoint;
  if (flags.digest) {
    std::printf("%s\n", checkpoint.manifest.digest.c_str());
    return {};
  }
  for (const std::string& rejected : newest.rejected)
    std::printf("not used: %s\n", rejected.c_str());
  std::printf("%s  step %lld  digest %s\n", checkpoint.path.c_str(),
              static_cast<long long>(checkpoint.state.step), checkpoint.manifest.digest.c_str());
  for (const Manifest::File& file : checkpoint.manifest.files) {
    std::printf("%-32s %12lld bytes  xxh3 %s\n", file.name.c_str(),
                static_cast<long long>(file.size_bytes), file.xxh3.c_str());
  }
  std::printf("next sample %llu, %zu tensors\n",
              static_cast<unsigned long long>(checkpoint.state.data.next_sample),
              checkpoint.manifest.tensors.size());
  return {};
}

}  // namespace

void add_inspect(CommandRegistry& registry) {
  auto flags = std::make_shared<InspectFlags>();
  const auto command = [&](const char* name, const char* help,
                           Status (*run)(const InspectFlags&)) -> Flags& {
    return registry.add(std::string("inspect ") + name, help,
                        [flags, run] { return exit_code("inspect", run(*flags)); });
  };
  Flags& data = command("data", "show rows with what is learned of them", inspect_data);
  data.positional("recipe", &flags->target, true, "recipe file");
  data.texts("set", &flags->sets, "override a key: a.b=value");
  data.integer("rows", &flags->rows, 1, "rows to show, in training order");
  data.toggle("json", &flags->json, "one JSON object per row");
  command("model", "show a model's sizes and tensors", inspect_model)
      .positional("model", &flags->target, true, "Hugging Face folder or .gguf file");
  Flags& plan = command("plan", "show the plan of a training step", inspect_plan);
  plan.positional("recipe", &flags->target, true, "recipe file");
  plan.texts("set", &flags->sets, "override a key: a.b=value");
  Flags& checkpoint =
      command("checkpoint", "show a checkpoint, or a run's newest whole one", inspect_checkpoint);
  checkpoint.positional("run", &flags->target, true, "run folder, or one checkpoint in it");
  checkpoint.toggle("digest", &flags->digest,
                    "print the digest of the logical state and nothing else");
}

}  // namespace mainspring::cli
