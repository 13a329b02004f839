#include "mainspring/io/checksum.h"

#include <xxhash.h>

namespace mainspring {
namespace {

Digest128 from_xxh(const XXH128_hash_t& hash) { return {hash.high64, hash.low64}; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string Digest128::hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint64_t half : {high, low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(half >> shift) & 15];
  }
  return text;
}

Result<Digest128> Digest128::parse(std::string_view text) {
  Digest128 digest;
  if (text.size() != 32)
    return invalid_argument("a checksum has 32 hex digits, got " + std::to_string(text.size()));
  for (size_t i = 0; i < text.size(); ++i) {
    const int value = hex_value(text[i]);
    if (value < 0)
      return invalid_argument("a checksum has hex digits only, got '" + std::string(text) + "'");
    uint64_t& half = i < 16 ? digest.high : digest.low;
    half = half << 4 | static_cast<uint64_t>(value);
  }
  return digest;
}

Digest128 checksum128(const void* data, size_t size) { return from_xxh(XXH3_128bits(data, size)); }

struct Checksum128::State {
  XXH3_state_t* xxh = nullptr;
};

Checksum128::Checksum128() : state_(std::make_unique<State>()) {
  state_->xxh = XXH3_createState();
  MS_CHECK(state_->xxh != nullptr, "out of memory");
  XXH3_128bits_reset(state_->xxh);
}

Checksum128::~Checksum128() { XXH3_freeState(state_->xxh); }

void Checksum128::update(const void* data, size_t size) {
  XXH3_128bits_update(state_->xxh, data, size);
}

Digest128 Checksum128::digest() const { return from_xxh(XXH3_128bits_digest(state_->xxh)); }

}  // namespace mainspring
