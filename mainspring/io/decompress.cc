#include "mainspring/io/decompress.h"

#define ZLIB_CONST
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "mainspring/base/check.h"

namespace mainspring {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr int kMaxWindowLog = 27;  // 128 MiB: the zstd program's own limit without --long

/// What both have: the source's name, how many bytes came, and the piece that is filled.
class Stream : public Decompressor {
 public:
  explicit Stream(std::string source) : source_(std::move(source)), piece_(kPieceBytes) {}

 protected:
  Status damaged(std::string_view kind, uint64_t at, std::string_view why) const {
    return data_loss(source_ + ": byte " + std::to_string(at) + ": damaged " + std::string(kind) +
                     " data (" + std::string(why) + ")");
  }
  Status cut(std::string_view kind) const {
    return data_loss(source_ + ": the file is cut: it ends within its " + std::string(kind) +
                     " data after " + std::to_string(taken_) + " bytes");
  }

  std::string source_;
  std::vector<char> piece_;
  uint64_t taken_ = 0;  // compressed bytes
};

class Gzip final : public Stream {
 public:
  explicit Gzip(std::string source) : Stream(std::move(source)) {
    // 16 + 15: a gzip header and the largest window.
    MS_CHECK(inflateInit2(&zlib_, 16 + 15) == Z_OK, "inflateInit2");
  }
  ~Gzip() override { inflateEnd(&zlib_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  Status push(std::string_view compressed, const Use& use) override {
    MS_CHECK(compressed.size() <= std::numeric_limits<uInt>::max(), "pieces below 4 GiB");
    zlib_.next_in = reinterpret_cast<const Bytef*>(compressed.data());
    zlib_.avail_in = static_cast<uInt>(compressed.size());
    const uint64_t before = taken_;
    while (zlib_.avail_in > 0 || has_more_) {
      if (is_between_ && zlib_.avail_in > 0) {
        inflateReset(&zlib_);
        is_between_ = false;
      }
      zlib_.next_out = reinterpret_cast<Bytef*>(piece_.data());
      zlib_.avail_out = static_cast<uInt>(piece_.size());
      const int result = inflate(&zlib_, Z_NO_FLUSH);
      taken_ = before + compressed.size() - zlib_.avail_in;
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        return damaged("gzip", taken_, zlib_.msg != nullptr ? zlib_.msg : "unknown");
      }
      const size_t made = piece_.size() - zlib_.avail_out;
      has_more_ = zlib_.avail_out == 0 && result != Z_STREAM_END;
      if (made > 0) MS_RETURN_IF_ERROR(use({piece_.data(), made}));
      is_between_ = result == Z_STREAM_END;
    }
    return Status();
  }

  Status finish() override { return is_between_ ? Status() : cut("gzip"); }

 private:
  z_stream zlib_ = {};
  bool is_between_ = false;  // a member ended; the next may begin
  bool has_more_ = false;    // the piece was filled to the brim
};

class Zstd final : public Stream {
 public:
  explicit Zstd(std::string source) : Stream(std::move(source)), context_(ZSTD_createDCtx()) {
    MS_CHECK(context_ != nullptr, "ZSTD_createDCtx");
    const size_t set = ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kMaxWindowLog);
    MS_CHECK(ZSTD_isError(set) == 0, ZSTD_getErrorName(set));
  }
  ~Zstd() override { ZSTD_freeDCtx(context_); }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;

  Status push(std::string_view compressed, const Use& use) override {
    ZSTD_inBuffer in{compressed.data(), compressed.size(), 0};
    const uint64_t before = taken_;
    bool has_more = false;
    while (in.pos < in.size || has_more) {
      ZSTD_outBuffer out{piece_.data(), piece_.size(), 0};
      const size_t left = ZSTD_decompressStream(context_, &out, &in);
      taken_ = before + in.pos;
      if (ZSTD_isError(left) != 0) return refuse(left);
      has_more = out.pos == out.size && left != 0;
      is_between_ = left == 0;
      if (out.pos > 0) MS_RETURN_IF_ERROR(use({piece_.data(), out.pos}));
    }
    return Status();
  }

  Status finish() override { return is_between_ ? Status() : cut("zstd"); }

 private:
  Status refuse(size_t error) const {
    if (ZSTD_getErrorCode(error) == ZSTD_error_frameParameter_windowTooLarge) {
      return unimplemented(source_ +
                           ": its zstd window is larger than 128 MiB; compress it again "
                           "without --long");
    }
    return damaged("zstd", taken_, ZSTD_getErrorName(error));
  }

  ZSTD_DCtx* context_;
  bool is_between_ = false;
};

}  // namespace

std::string_view compression_name(Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return "none";
    case Compression::kGzip:
      return "gzip";
    case Compression::kZstd:
      return "zstd";
  }
  return "";
}

Compression compression_of(std::string_view head) {
  using namespace std::string_view_literals;
  if (head.starts_with("\x1f\x8b"sv)) return Compression::kGzip;
  if (head.starts_with("\x28\xb5\x2f\xfd"sv)) return Compression::kZstd;
  return Compression::kNone;
}

std::unique_ptr<Decompressor> Decompressor::create(Compression compression, std::string source) {
  MS_CHECK(compression != Compression::kNone, "nothing to decompress");
  if (compression == Compression::kGzip) return std::make_unique<Gzip>(std::move(source));
  return std::make_unique<Zstd>(std::move(source));
}

}  // namespace mainspring
