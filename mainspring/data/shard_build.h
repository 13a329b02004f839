// Shard build: text to a folder of token shards, in parallel and from where an earlier build
// stopped.
//
// The one idea: every piece of the input becomes at most one training and one held-out shard, each
// step's result of a piece is one file that appears whole, and a step that finds its file goes on
// to the next. So threads and kills change nothing of the result; index.json comes last. Steps:
//   1. scan      a checksum and a MinHash of every document     work/piece-N.scan
//   2. decide    which documents repeat earlier ones            in memory, in input order
//   3. tokenize  the others, with the end token after each      train-N.mss, held-N.mss,
//   work/piece-N.done
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/data/shard_index.h"
#include "mainspring/text/tokenizer.h"

namespace mainspring {

struct ShardBuildOptions {
  std::vector<std::string> inputs;  // files, folders and URLs (documents.h)
  std::string out;                  // folder to make, or to go on with
  std::string field = "text";       // of a row
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string tokenizer_name;     // for people
  double held_out = 0.0;          // share of documents, chosen by their text's checksum, in [0, 1)
  bool exact_duplicates = false;  // keep them
  double near_threshold = 0.0;    // leave out documents so similar to an earlier one; 0: keep them
  int64_t piece_bytes = int64_t{32} << 20;  // of input that become a shard
  int num_threads = 1;                      // changes no bit
  /// Bytes of input that a step ("fetch <url>", "scan", "tokenize") has gone through, of all; from
  /// any thread, one at a time.
  std::function<void(const std::string& step, int64_t done, int64_t total)> on_progress;
  std::function<bool()> should_stop;  // asked between documents
};

/// Builds, or checks every shard if the folder holds these inputs' finished build. Errors: invalid
/// argument for options out of range, a tokenizer without an end-of-text token, input that cannot
/// be read as documents (with its place), or none left; failed precondition if the folder holds
/// other inputs' or options' build, naming what differs (nothing is written then); data loss or not
/// found naming a shard of a finished build that is damaged or gone; unavailable if should_stop
/// said so; the system's.
Result<ShardIndex> build_shards(const ShardBuildOptions& options);

}  // namespace mainspring
