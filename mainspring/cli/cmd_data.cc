#include "mainspring/cli/cmd_data.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>

#include "mainspring/cli/exit_code.h"
#include "mainspring/cli/interrupt.h"
#include "mainspring/data/shard_build.h"
#include "mainspring/data/shard_set.h"
#include "mainspring/models/model_text.h"
#include "mainspring/models/random_model.h"
#include "mainspring/run/byte_progress.h"
#include "mainspring/run/progress.h"

namespace mainspring::cli {
namespace {

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const std::string& path) {
  LoadedModel named;
  named.path = path;
  MS_ASSIGN_OR_RETURN(named.tokenizer, read_tokenizer_source(path));
  MS_ASSIGN_OR_RETURN(const ModelText text, make_model_text(named));
  return text.tokenizer;
}

int count_of_threads(int64_t asked) {
  if (asked > 0) return static_cast<int>(asked);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

void print_index(const std::string& folder, const ShardIndex& index) {
  const auto count = [](int64_t n) { return format_count(static_cast<double>(n)); };
  const auto split = [&](const char* name, const std::vector<ShardEntry>& shards) {
    int64_t documents = 0;
    for (const ShardEntry& shard : shards) documents += shard.num_documents;
    std::printf("%s: %s tokens of %s in %s\n", name, count(ShardIndex::tokens_of(shards)).c_str(),
                format_counted(documents, "document").c_str(),
                format_counted(static_cast<int64_t>(shards.size()), "shard").c_str());
  };
  split("train", index.train);
  split("held out", index.held_out);
  std::printf("left out of %s: %lld empty, %lld exact and %lld near duplicates\n",
              format_counted(index.num_documents, "document").c_str(),
              static_cast<long long>(index.num_empty), static_cast<long long>(index.num_exact),
              static_cast<long long>(index.num_near));
  if (index.num_skipped_files > 0) {
    std::printf(
        "skipped: %s of another kind than .txt, .md, .jsonl (plain, .gz or .zst) and .parquet, "
        "first "
        "%s\n",
        format_counted(index.num_skipped_files, "file").c_str(), index.first_skipped_file.c_str());
  }
  std::printf("%s: digest %s, tokenizer %s\n", folder.c_str(), index.digest().c_str(),
              index.tokenizer.c_str());
}

Status build(const DataBuildFlags& flags, int& signal) {
  if (flags.inputs.empty()) {
    return invalid_argument(
        "--in is missing: text, JSONL or Parquet files, their URLs, or folders");
  }
  ShardBuildOptions options;
  options.inputs = flags.inputs;
  options.out = flags.out;
  options.field = flags.field;
  options.tokenizer_name = flags.tokenizer.empty() ? "bytes" : flags.tokenizer;
  MS_ASSIGN_OR_RETURN(options.tokenizer, load_tokenizer(flags.tokenizer));
  options.held_out = flags.held_out;
  options.exact_duplicates = flags.keep_duplicates;
  options.near_threshold = flags.near;
  options.piece_bytes = flags.piece_mib << 20;
  options.num_threads = count_of_threads(flags.threads);
  Interrupt interrupt(true);
  options.should_stop = [&] { return interrupt.pending() != 0; };
  ByteProgress progress;
  options.on_progress = [&](const std::string& step, int64_t done, int64_t total) {
    progress.update(step, done, total);
  };
  const auto index = build_shards(options);
  progress.end_line();
  signal = interrupt.pending();
  MS_RETURN_IF_ERROR(index.status());
  print_index(flags.out, *index);
  return {};
}

Status verify(const std::string& folder) {
  MS_ASSIGN_OR_RETURN(const auto set, ShardSet::open(folder));
  MS_RETURN_IF_ERROR(set->verify());
  print_index(folder, set->index());
  return {};
}

}  // namespace

int run_data_build(const DataBuildFlags& flags) {
  int signal = 0;
  const int code = exit_code("data build", build(flags, signal));
  return code != 0 && signal != 0 ? 128 + signal : code;
}

void add_data(CommandRegistry& registry) {
  auto flags = std::make_shared<DataBuildFlags>();
  Flags& f = registry.add("data build", "make token shards for pre-training from text",
                          [flags] { return run_data_build(*flags); });
  f.texts("in", &flags->inputs,
          "file (.jsonl and Parquet: a row is a document; else the file is), plain or gzip or "
          "zstd, its "
          "s3://, gs:// or http(s):// URL, or folder of files; may be repeated");
  f.required_text("out", &flags->out, "folder to make; a stopped build goes on there");
  f.text("tokenizer", &flags->tokenizer,
         "tokenizer.json, its folder or a .gguf file; empty: one token per byte");
  f.text("field", &flags->field, "text of a row");
  f.number("held-out", &flags->held_out, "share of documents held out, by their text's checksum");
  f.toggle("keep-duplicates", &flags->keep_duplicates, "keep documents with equal text");
  f.number("near-duplicates", &flags->near,
           "leave out documents so similar to an earlier one (0.8: four of five runs of five words "
           "in common); 0: keep them");
  f.integer("piece-mib", &flags->piece_mib, 1, "MiB of input that become a shard");
  f.integer("threads", &flags->threads, 0, "0: all cores; changes no bit");
  auto folder = std::make_shared<std::string>();
  registry
      .add("data verify", "read every shard of a folder and compare checksums",
           [folder] { return exit_code("data verify", verify(*folder)); })
      .positional("folder", folder.get(), true, "made by data build");
}

}  // namespace mainspring::cli
