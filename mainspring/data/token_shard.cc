#include "mainspring/data/token_shard.h"

#include <cstring>

#include "mainspring/io/atomic_file.h"

namespace mainspring {
namespace {

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t token_bytes;
  uint64_t num_tokens;
  uint64_t num_documents;
  uint64_t checksum_high;
  uint64_t checksum_low;
  uint64_t reserved[2];
};
static_assert(sizeof(Header) == 64);

constexpr char kMagic[8] = {'M', 'S', 'T', 'O', 'K', 'E', 'N', 'S'};
constexpr uint32_t kVersion = 1;

uint64_t padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

std::string_view bytes_of(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

Status broken(const std::string& path, const std::string& what) {
  return data_loss(path + ": not a whole token shard: " + what);
}

}  // namespace

void ShardWriter::add(const std::vector<int32_t>& document) {
  tokens_.insert(tokens_.end(), document.begin(), document.end());
  ends_.push_back(tokens_.size());
}

Result<Digest128> ShardWriter::write(const std::string& path, int64_t vocabulary) const {
  const bool narrow = vocabulary <= 65536;
  std::string tokens;
  if (narrow) {
    const std::vector<uint16_t> values(tokens_.begin(), tokens_.end());
    tokens = bytes_of(values.data(), values.size() * 2);
  } else {
    tokens = bytes_of(tokens_.data(), tokens_.size() * 4);
  }
  tokens.resize(padded(tokens.size()), '\0');
  Checksum128 sum;
  sum.update(tokens.data(), tokens.size());
  sum.update(ends_.data(), ends_.size() * 8);
  const Digest128 digest = sum.digest();
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.token_bytes = narrow ? 2 : 4;
  header.num_tokens = tokens_.size();
  header.num_documents = ends_.size();
  header.checksum_high = digest.high;
  header.checksum_low = digest.low;
  MS_ASSIGN_OR_RETURN(const auto file, AtomicFile::create(path));
  MS_RETURN_IF_ERROR(file->append(bytes_of(&header, sizeof(header))));
  MS_RETURN_IF_ERROR(file->append(tokens));
  MS_RETURN_IF_ERROR(file->append(bytes_of(ends_.data(), ends_.size() * 8)));
  MS_RETURN_IF_ERROR(file->commit());
  return digest;
}

Result<std::shared_ptr<const TokenShard>> TokenShard::open(const std::string& path) {
  std::shared_ptr<TokenShard> shard(new TokenShard());
  MS_ASSIGN_OR_RETURN(shard->file_, MappedFile::open(path));
  const std::span<const uint8_t> bytes = shard->file_->bytes();
  Header header;
  if (bytes.size() < sizeof(header)) return broken(path, "it ends in its header");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0)
    return broken(path, "its first bytes");
  if (header.version != kVersion || (header.token_bytes != 2 && header.token_bytes != 4)) {
    return broken(path, "version " + std::to_string(header.version) + ", expected 1");
  }
  constexpr uint64_t kMost = uint64_t{1} << 56;
  if (header.num_tokens > kMost || header.num_documents > kMost) return broken(path, "its counts");
  const uint64_t token_bytes = padded(header.num_tokens * header.token_bytes);
  const uint64_t expected = sizeof(header) + token_bytes + header.num_documents * 8;
  if (bytes.size() != expected) {
    return broken(path, "expected " + std::to_string(expected) + " bytes, got " +
                            std::to_string(bytes.size()));
  }
  shard->num_tokens_ = static_cast<int64_t>(header.num_tokens);
  shard->token_bytes_ = static_cast<int>(header.token_bytes);
  shard->checksum_ = {header.checksum_high, header.checksum_low};
  shard->ends_ = {reinterpret_cast<const uint64_t*>(bytes.data() + sizeof(header) + token_bytes),
                  static_cast<size_t>(header.num_documents)};
  uint64_t last = 0;
  for (const uint64_t end : shard->ends_) {
    if (end <= last || end > header.num_tokens) return broken(path, "its documents' ends");
    last = end;
  }
  if (last != header.num_tokens) return broken(path, "its documents' ends");
  return std::shared_ptr<const TokenShard>(std::move(shard));
}

void TokenShard::read(int64_t begin, int64_t end, std::vector<int32_t>& out) const {
  const uint8_t* tokens = file_->bytes().data() + sizeof(Header);
  const auto count = static_cast<size_t>(end - begin);
  if (token_bytes_ == 2) {
    const auto* first = reinterpret_cast<const uint16_t*>(tokens) + begin;
    out.insert(out.end(), first, first + count);
  } else {
    const auto* first = reinterpret_cast<const int32_t*>(tokens) + begin;
    out.insert(out.end(), first, first + count);
  }
}

Status TokenShard::verify() const {
  const std::span<const uint8_t> bytes = file_->bytes();
  const Digest128 found = checksum128(bytes.data() + sizeof(Header), bytes.size() - sizeof(Header));
  if (found == checksum_) return {};
  return data_loss(file_->path() + ": checksum is " + found.hex() + ", expected " +
                   checksum_.hex());
}

}  // namespace mainspring
