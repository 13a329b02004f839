// Compressed bytes, for tests of reading them. For tests only.
#pragma once

#include <zlib.h>
#include <zstd.h>

#include <string>

#include "mainspring/base/check.h"

namespace mainspring {

/// One gzip member.
inline std::string gzip_of(const std::string& plain) {
  z_stream stream = {};
  MS_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflate");
  std::string out(deflateBound(&stream, plain.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  MS_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// One zstd frame with a checksum.
inline std::string zstd_of(const std::string& plain) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string out(ZSTD_compressBound(plain.size()), '\0');
  const size_t size = ZSTD_compress2(context, out.data(), out.size(), plain.data(), plain.size());
  MS_CHECK(ZSTD_isError(size) == 0, ZSTD_getErrorName(size));
  ZSTD_freeCCtx(context);
  out.resize(size);
  return out;
}

}  // namespace mainspring
