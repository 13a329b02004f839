// Decompressor: gzip and zstd streams, told by their first bytes. The one door to zlib and libzstd.
//
// The one idea: bytes are pushed in and plain ones come out through a callback in pieces of bounded
// size, so memory does not grow with the file; a stream that ends early is an error and never a
// shorter file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "mainspring/base/status.h"

namespace mainspring {

enum class Compression { kNone, kGzip, kZstd };

/// "gzip", "zstd".
std::string_view compression_name(Compression compression);

/// By the magic bytes at the head of a file; kCompressionMagicBytes of them decide.
inline constexpr size_t kCompressionMagicBytes = 4;
Compression compression_of(std::string_view head);

/// Several members (gzip) or frames (zstd) one after another are one stream. Threads: one.
class Decompressor {
 public:
  using Use = std::function<Status(std::string_view plain)>;

  /// `source` heads errors. Precondition: not kNone.
  static std::unique_ptr<Decompressor> create(Compression compression, std::string source);
  virtual ~Decompressor() = default;

  /// Decompresses the next bytes and calls `use` with what they give, at most 256 KiB at a time.
  /// Memory: gzip under 1 MiB; zstd at most 128 MiB, as the frame's window asks. Errors: data loss
  /// for bytes that are damaged; unimplemented for a zstd window above 128 MiB; those of `use`.
  virtual Status push(std::string_view compressed, const Use& use) = 0;
  /// No further bytes come. Errors: data loss if the stream is cut.
  virtual Status finish() = 0;
};

}  // namespace mainspring
