// Shard index: what a folder of token shards holds, in one file that is written last.
//
// The one idea: index.json counts every shard, so a folder of any size opens by reading one file;
// shards are mapped when something of them is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/base/status.h"

namespace mainspring {

inline constexpr const char* kShardIndexName = "index.json";

struct ShardEntry {
  std::string file;  // in the folder
  int64_t num_tokens = 0;
  int64_t num_documents = 0;
  std::string checksum;  // of tokens and ends, 32 hex digits
};

struct ShardIndex {
  std::vector<ShardEntry> train;
  std::vector<ShardEntry> held_out;
  std::string tokenizer;     // what it was, for people
  std::string tokenizer_id;  // checksum of its tokenizer.json
  int64_t vocabulary = 0;
  int32_t end_token = -1;  // after each document
  // Of the input.
  int64_t num_documents = 0;
  int64_t num_bytes = 0;
  int64_t num_empty = 0;  // left out, as are:
  int64_t num_exact = 0;
  int64_t num_near = 0;
  int64_t num_skipped_files = 0;   // of kinds that are not read, in the folders given
  std::string first_skipped_file;  // by path; empty if there is none
  std::string built_with;          // inputs and options, as JSON text

  static int64_t tokens_of(const std::vector<ShardEntry>& shards);
  /// Names the content: every shard's checksum, in order.
  std::string digest() const;
};

Status write_shard_index(const std::string& folder, const ShardIndex& index);

/// Errors: not found if the folder has no index.json (its build has not ended); invalid argument
/// with the field for one that was not written by a build.
Result<ShardIndex> read_shard_index(const std::string& folder);

}  // namespace mainspring
