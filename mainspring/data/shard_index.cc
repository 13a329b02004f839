#include "mainspring/data/shard_index.h"

#include "mainspring/io/atomic_file.h"
#include "mainspring/io/checksum.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"

namespace mainspring {
namespace {

constexpr int64_t kFormat = 1;

Json entries_json(const std::vector<ShardEntry>& shards) {
  Json list = Json::array();
  for (const ShardEntry& shard : shards) {
    list.push_back({{"file", shard.file},
                    {"tokens", shard.num_tokens},
                    {"documents", shard.num_documents},
                    {"checksum", shard.checksum}});
  }
  return list;
}

Status read_entries(const JsonObject& object, const std::string& key,
                    std::vector<ShardEntry>& shards) {
  const Json* list = object.find(key);
  if (list == nullptr || !list->is_array()) {
    return invalid_argument(object.where(key) + ": expected a list of shards");
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string place = object.where(key + "[" + std::to_string(i) + "]");
    MS_ASSIGN_OR_RETURN(const JsonObject item, JsonObject::from((*list)[i], place));
    ShardEntry shard;
    MS_ASSIGN_OR_RETURN(shard.file, item.get_string("file"));
    MS_ASSIGN_OR_RETURN(shard.num_tokens, item.get_int("tokens"));
    MS_ASSIGN_OR_RETURN(shard.num_documents, item.get_int("documents"));
    MS_ASSIGN_OR_RETURN(shard.checksum, item.get_string("checksum"));
    if (shard.num_tokens < 1 || shard.file.find('/') != std::string::npos) {
      return invalid_argument(place + ": expected a file of this folder with tokens");
    }
    shards.push_back(std::move(shard));
  }
  return {};
}

}  // namespace

int64_t ShardIndex::tokens_of(const std::vector<ShardEntry>& shards) {
  int64_t tokens = 0;
  for (const ShardEntry& shard : shards) tokens += shard.num_tokens;
  return tokens;
}

std::string ShardIndex::digest() const {
  Checksum128 sum;
  for (const auto* shards : {&train, &held_out}) {
    for (const ShardEntry& shard : *shards)
      sum.update(shard.checksum.data(), shard.checksum.size());
    sum.update("|", 1);
  }
  return sum.digest().hex();
}

Status write_shard_index(const std::string& folder, const ShardIndex& index) {
  MS_ASSIGN_OR_RETURN(const Json built_with, parse_json(index.built_with, "built_with"));
  const Json json = {{"format", kFormat},
                     {"digest", index.digest()},
                     {"tokenizer", index.tokenizer},
                     {"tokenizer_id", index.tokenizer_id},
                     {"vocabulary", index.vocabulary},
                     {"end_token", index.end_token},
                     {"input",
                      {{"documents", index.num_documents},
                       {"bytes", index.num_bytes},
                       {"empty", index.num_empty},
                       {"exact_duplicates", index.num_exact},
                       {"near_duplicates", index.num_near},
                       {"skipped_files", index.num_skipped_files},
                       {"first_skipped_file", index.first_skipped_file}}},
                     {"train", entries_json(index.train)},
                     {"held_out", entries_json(index.held_out)},
                     {"built_with", built_with}};
  return write_file_atomically(join_path(folder, kShardIndexName), json_text(json, 1) + "\n");
}

Result<ShardIndex> read_shard_index(const std::string& folder) {
  const std::string path = join_path(folder, kShardIndexName);
  if (!is_regular_file(path)) {
    return not_found(folder + ": no " + std::string(kShardIndexName) +
                     ": not a folder of token shards, or its build has not ended (mainspring data "
                     "build goes on where it stopped)");
  }
  MS_ASSIGN_OR_RETURN(const Json root, read_json_file(path));
  MS_ASSIGN_OR_RETURN(const JsonObject json, JsonObject::from(root, path));
  ShardIndex index;
  MS_ASSIGN_OR_RETURN(const int64_t format, json.get_int("format"));
  if (format != kFormat) {
    return invalid_argument(path + ": format " + std::to_string(format) + ", expected 1");
  }
  MS_ASSIGN_OR_RETURN(index.tokenizer, json.get_string("tokenizer"));
  MS_ASSIGN_OR_RETURN(index.tokenizer_id, json.get_string("tokenizer_id"));
  MS_ASSIGN_OR_RETURN(index.vocabulary, json.get_int("vocabulary"));
  MS_ASSIGN_OR_RETURN(const int64_t end_token, json.get_int("end_token"));
  index.end_token = static_cast<int32_t>(end_token);
  MS_ASSIGN_OR_RETURN(const JsonObject input, json.get_object("input"));
  MS_ASSIGN_OR_RETURN(index.num_documents, input.get_int("documents"));
  MS_ASSIGN_OR_RETURN(index.num_bytes, input.get_int("bytes"));
  MS_ASSIGN_OR_RETURN(index.num_empty, input.get_int("empty"));
  MS_ASSIGN_OR_RETURN(index.num_exact, input.get_int("exact_duplicates"));
  MS_ASSIGN_OR_RETURN(index.num_near, input.get_int("near_duplicates"));
  MS_ASSIGN_OR_RETURN(index.num_skipped_files, input.get_int_or("skipped_files", 0));
  MS_ASSIGN_OR_RETURN(index.first_skipped_file, input.get_string_or("first_skipped_file", ""));
  MS_RETURN_IF_ERROR(read_entries(json, "train", index.train));
  MS_RETURN_IF_ERROR(read_entries(json, "held_out", index.held_out));
  if (const Json* built_with = json.find("built_with")) index.built_with = json_text(*built_with);
  return index;
}

}  // namespace mainspring
