// Token shard: one file of token numbers with the borders of its documents, read where it lies.
//
// The one idea: a header, the tokens of all documents one after another (2 bytes each if the
// vocabulary allows, else 4), and the documents' ends; sizes and checksums are in the header, which
// is written with the rest and appears with it by one rename. Little-endian. Not for several files:
// shard_set.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/checksum.h"
#include "mainspring/io/mapped_file.h"

namespace mainspring {

/// Documents on their way into a shard. Memory: 4 bytes a token.
class ShardWriter {
 public:
  void add(const std::vector<int32_t>& document);
  int64_t num_tokens() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t num_documents() const { return static_cast<int64_t>(ends_.size()); }

  /// Writes the file atomically; `vocabulary` decides the width of a token. Returns the checksum of
  /// tokens and ends. Errors: the system's.
  Result<Digest128> write(const std::string& path, int64_t vocabulary) const;

 private:
  std::vector<int32_t> tokens_;
  std::vector<uint64_t> ends_;
};

/// A mapped shard. Threads: immutable once opened.
class TokenShard {
 public:
  /// Maps the file and checks its header and sizes; reads no token. Errors: not found; data loss
  /// for a broken header, sizes that do not fit, or ends that do not rise.
  static Result<std::shared_ptr<const TokenShard>> open(const std::string& path);

  int64_t num_tokens() const { return num_tokens_; }
  int64_t num_documents() const { return static_cast<int64_t>(ends_.size()); }
  /// Where each document ends, as a token's place.
  std::span<const uint64_t> ends() const { return ends_; }
  /// Of tokens and ends, as the header says.
  const Digest128& checksum() const { return checksum_; }
  /// Tokens [begin, end), appended to `out`.
  void read(int64_t begin, int64_t end, std::vector<int32_t>& out) const;
  /// Reads everything. Errors: data loss if the checksum is not the header's.
  Status verify() const;

 private:
  TokenShard() = default;

  std::shared_ptr<const MappedFile> file_;
  int64_t num_tokens_ = 0;
  int token_bytes_ = 4;
  Digest128 checksum_;
  std::span<const uint64_t> ends_;
};

}  // namespace mainspring
