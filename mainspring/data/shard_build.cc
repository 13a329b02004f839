#include "mainspring/data/shard_build.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <initializer_list>

#include "mainspring/base/thread_pool.h"
#include "mainspring/data/build_identity.h"
#include "mainspring/data/dedupe.h"
#include "mainspring/data/documents.h"
#include "mainspring/data/shard_set.h"
#include "mainspring/data/token_shard.h"
#include "mainspring/io/atomic_file.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"

namespace mainspring {
namespace {

// Documents in memory at once, and of them those that a thread takes at a time.
constexpr size_t kBatchBytes = size_t{4} << 20;
constexpr int64_t kRun = 8;

enum class Fate : uint8_t { kTrain, kHeldOut, kEmpty, kExact, kNear };

/// What the scan knows of one document; written as it lies.
struct Scanned {
  Digest128 text;
  uint64_t is_empty = 0;
  MinHash hashes{};
};
static_assert(std::is_trivially_copyable_v<Scanned>);

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

std::string numbered(const char* stem, size_t piece, const char* ending) {
  char name[48];
  std::snprintf(name, sizeof(name), "%s-%06zu%s", stem, piece, ending);
  return name;
}

Json options_json(const ShardBuildOptions& o, const std::string& tokenizer_id) {
  return {{"field", o.field},
          {"tokenizer_id", tokenizer_id},
          {"held_out", o.held_out},
          {"keep_exact_duplicates", o.exact_duplicates},
          {"near_threshold", o.near_threshold},
          {"piece_bytes", o.piece_bytes}};
}

class Build {
 public:
  explicit Build(const ShardBuildOptions& options)
      : options_(options), pool_(std::max(1, options.num_threads)) {}

  Result<ShardIndex> run();

 private:
  Status check_options() const;
  Status open();
  std::string find_begun(std::initializer_list<std::string_view> endings) const;
  Status check_no_pieces() const;
  Result<ShardIndex> verify_finished();
  Status damaged(const Status& status) const;
  Status scan_piece(size_t piece);
  Result<std::vector<Scanned>> read_scan(size_t piece) const;
  Status decide();
  Status tokenize_piece(size_t piece);
  Result<Json> write_part(const ShardWriter& shard, const std::string& name) const;
  Status collect(ShardIndex& index) const;

  std::string out(const std::string& name) const { return join_path(options_.out, name); }
  std::string work(const std::string& name) const { return join_path(out("work"), name); }
  Status stopped() const {
    if (options_.should_stop && options_.should_stop())
      return unavailable(options_.out + ": stopped; the same command goes on from here");
    return {};
  }
  Status for_each_piece(const std::string& name, const std::function<Status(size_t)>& step);
  /// Makes something of each document of the piece, on all threads, and takes it in their order.
  template <typename Made, typename Make, typename Take>
  Status for_each_made(size_t piece, const Make& make, const Take& take);
  /// Where a document of the piece lies, found by reading the piece again.
  std::string place_text(size_t piece, size_t document) const;

  const ShardBuildOptions& options_;
  ThreadPool pool_;
  std::vector<InputFile> files_;
  std::vector<InputPiece> pieces_;
  std::string tokenizer_id_;
  std::string built_with_;
  std::vector<std::vector<Fate>> fates_;  // per piece, document
  ShardIndex counts_;
};

Status Build::check_options() const {
  const auto in_range = [](double x, double high) { return x >= 0 && x < high; };
  if (!in_range(options_.held_out, 1)) {
    return invalid_argument("held-out share: expected [0, 1), got " +
                            std::to_string(options_.held_out));
  }
  if (!in_range(options_.near_threshold, 1.0000001)) {
    return invalid_argument("near-duplicate threshold: expected 0 to 1, got " +
                            std::to_string(options_.near_threshold));
  }
  if (options_.piece_bytes < 1) return invalid_argument("bytes of a piece: expected 1 or more");
  if (!options_.tokenizer->eos_token().has_value()) {
    return invalid_argument(options_.tokenizer_name +
                            ": the tokenizer names no end-of-text token to put between documents");
  }
  return {};
}

// The folder is new, or holds the beginning or the end of this very build. Nothing is written to
// one that holds another.
Status Build::open() {
  FetchOptions fetch;
  fetch.should_stop = options_.should_stop;
  fetch.on_fetch = [&](const std::string& url, int64_t done, int64_t total) {
    if (options_.on_progress) options_.on_progress("fetch " + url, done, total);
  };
  MS_ASSIGN_OR_RETURN(InputList list,
                      list_input_files(options_.inputs, options_.out, options_.field, fetch));
  files_ = std::move(list.files);
  counts_.num_skipped_files = list.num_skipped;
  counts_.first_skipped_file = list.first_skipped;
  pieces_ = cut_into_pieces(files_, options_.piece_bytes);
  MS_ASSIGN_OR_RETURN(const std::string json, options_.tokenizer->to_json());
  tokenizer_id_ = checksum128(json.data(), json.size()).hex();
  const Json identity = build_identity(options_json(options_, tokenizer_id_), files_);
  built_with_ = json_text(identity);
  const std::string path = work("build.json");
  if (is_regular_file(out(kShardIndexName))) {
    MS_ASSIGN_OR_RETURN(const ShardIndex index, read_shard_index(options_.out));
    MS_ASSIGN_OR_RETURN(
        const Json before,
        parse_json(index.built_with.empty() ? "null" : index.built_with, out(kShardIndexName)));
    return check_same_build(options_.out, before, identity);
  }
  if (is_regular_file(path)) {
    MS_ASSIGN_OR_RETURN(const Json before, read_json_file(path));
    const Status same = check_same_build(options_.out, before, identity);
    if (same.ok() || !find_begun({".done", ".mss"}).empty()) return same;
    // Stopped before a token was made, as by a bad row that is mended now: nothing is lost.
    MS_RETURN_IF_ERROR(remove_tree(out("work")));
  }
  MS_RETURN_IF_ERROR(check_no_pieces());
  MS_RETURN_IF_ERROR(make_directories(out("work")));
  return write_file_atomically(path, built_with_);
}

// A file of a build that was begun: one that ends so, "" if there is none.
std::string Build::find_begun(std::initializer_list<std::string_view> endings) const {
  std::error_code error;  // no folder holds no pieces
  for (const std::string& folder : {out("work"), options_.out}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      const std::string ending = entry.path().extension().string();
      if (std::find(endings.begin(), endings.end(), ending) != endings.end())
        return entry.path().string();
    }
  }
  return "";
}

// Pieces without the record of their build could be of any.
Status Build::check_no_pieces() const {
  const std::string begun = find_begun({".scan", ".done"});
  if (begun.empty()) return {};
  return failed_precondition(begun +
                             ": is of an unknown build, work/build.json is missing; give another "
                             "folder or remove " +
                             options_.out);
}

// Every shard of the finished build is read: damage is an error, not a finished build.
Result<ShardIndex> Build::verify_finished() {
  const auto finished = ShardSet::open(options_.out);
  MS_RETURN_IF_ERROR(damaged(finished.status()));
  const ShardSet& set = **finished;
  const ShardIndex& index = set.index();
  const auto num_train = static_cast<int64_t>(index.train.size());
  const int64_t count = num_train + static_cast<int64_t>(index.held_out.size());
  std::vector<Status> statuses(static_cast<size_t>(count));
  pool_.run(count, [&](int64_t i, int) {
    Status& status = statuses[static_cast<size_t>(i)];
    status = stopped();
    if (!status.ok()) return;
    const bool is_train = i < num_train;
    const auto shard = set.shard(is_train ? ShardSplit::kTrain : ShardSplit::kHeldOut,
                                 static_cast<size_t>(is_train ? i : i - num_train));
    status = shard.ok() ? (*shard)->verify() : shard.status();
  });
  for (const Status& status : statuses) MS_RETURN_IF_ERROR(damaged(status));
  return index;
}

Status Build::damaged(const Status& status) const {
  if (status.ok() || status.code() == StatusCode::kUnavailable) return status;
  return Status(status.code(), std::string(status.message()) +
                                   "; to build the shards anew, remove " + out(kShardIndexName));
}

// One piece after the other, so that a stop loses one at most; the threads share its documents.
Status Build::for_each_piece(const std::string& name, const std::function<Status(size_t)>& step) {
  int64_t total = 0;
  for (const InputPiece& piece : pieces_) total += piece.size_bytes;
  int64_t done = 0;
  for (size_t piece = 0; piece < pieces_.size(); ++piece) {
    MS_RETURN_IF_ERROR(stopped());
    MS_RETURN_IF_ERROR(step(piece));
    done += pieces_[piece].size_bytes;
    if (options_.on_progress) options_.on_progress(name, done, total);
  }
  return {};
}

template <typename Made, typename Make, typename Take>
Status Build::for_each_made(size_t piece, const Make& make, const Take& take) {
  std::vector<std::string> texts;
  std::vector<Result<Made>> made;
  size_t size_bytes = 0;
  size_t first = 0;  // document of the piece
  const auto flush = [&]() -> Status {
    made.assign(texts.size(), Result<Made>(unavailable("not made")));
    const auto count = static_cast<int64_t>(texts.size());
    pool_.run((count + kRun - 1) / kRun, [&](int64_t task, int) {
      if (!stopped().ok()) return;  // asked again below
      const int64_t end = std::min(count, (task + 1) * kRun);
      for (int64_t i = task * kRun; i < end; ++i) {
        const auto place = static_cast<size_t>(i);
        made[place] = make(first + place, std::string_view(texts[place]));
      }
    });
    MS_RETURN_IF_ERROR(stopped());
    for (size_t i = 0; i < made.size(); ++i) {
      if (!made[i].ok()) return made[i].status().with_context(place_text(piece, first + i));
      MS_RETURN_IF_ERROR(take(first + i, std::move(*made[i])));
    }
    first += texts.size();
    texts.clear();
    size_bytes = 0;
    return {};
  };
  const auto add = [&](std::string_view text, const DocumentPlace&) -> Status {
    texts.emplace_back(text);
    size_bytes += text.size();
    return size_bytes < kBatchBytes ? Status() : flush();
  };
  MS_RETURN_IF_ERROR(for_each_document(files_, pieces_[piece], options_.field, add));
  return flush();
}

std::string Build::place_text(size_t piece, size_t document) const {
  size_t index = 0;
  std::string text;
  const auto look = [&](std::string_view, const DocumentPlace& place) -> Status {
    if (index++ == document) text = place.text();
    return {};
  };
  const Status status = for_each_document(files_, pieces_[piece], options_.field, look);
  return status.ok() ? text : std::string(status.message());
}

Status Build::scan_piece(size_t piece) {
  if (read_scan(piece).ok()) return {};
  std::string bytes;
  const auto make = [&](size_t, std::string_view text) -> Result<Scanned> {
    Scanned scanned;
    scanned.text = checksum128(text.data(), text.size());
    scanned.is_empty = is_blank(text) ? 1 : 0;
    if (options_.near_threshold > 0) scanned.hashes = min_hash(text);
    return scanned;
  };
  const auto take = [&](size_t, const Scanned& scanned) -> Status {
    bytes.append(reinterpret_cast<const char*>(&scanned), sizeof(scanned));
    return {};
  };
  MS_RETURN_IF_ERROR(for_each_made<Scanned>(piece, make, take));
  const Digest128 sum = checksum128(bytes.data(), bytes.size());
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof(sum));
  return write_file_atomically(work(numbered("piece", piece, ".scan")), bytes);
}

Result<std::vector<Scanned>> Build::read_scan(size_t piece) const {
  const std::string path = work(numbered("piece", piece, ".scan"));
  MS_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  Digest128 sum;
  if (bytes.size() < sizeof(sum) || (bytes.size() - sizeof(sum)) % sizeof(Scanned) != 0) {
    return data_loss(path + ": is not whole");
  }
  const size_t size = bytes.size() - sizeof(sum);
  std::memcpy(&sum, bytes.data() + size, sizeof(sum));
  if (checksum128(bytes.data(), size) != sum) return data_loss(path + ": checksum differs");
  std::vector<Scanned> documents(size / sizeof(Scanned));
  std::memcpy(documents.data(), bytes.data(), size);
  return documents;
}

Status Build::decide() {
  Deduplicator duplicates(options_.near_threshold);
  fates_.resize(pieces_.size());
  const auto limit = static_cast<uint64_t>(options_.held_out * 0x1p64);
  for (size_t piece = 0; piece < pieces_.size(); ++piece) {
    MS_ASSIGN_OR_RETURN(const std::vector<Scanned> documents, read_scan(piece));
    for (const Scanned& document : documents) {
      ++counts_.num_documents;
      Fate fate = document.text.high < limit ? Fate::kHeldOut : Fate::kTrain;
      if (document.is_empty != 0) {
        fate = Fate::kEmpty;
        ++counts_.num_empty;
      } else {
        const Duplicate duplicate = duplicates.add(document.text, &document.hashes);
        if (duplicate == Duplicate::kExact && !options_.exact_duplicates) {
          fate = Fate::kExact;
          ++counts_.num_exact;
        } else if (duplicate == Duplicate::kNear) {
          fate = Fate::kNear;
          ++counts_.num_near;
        }
      }
      fates_[piece].push_back(fate);
    }
    counts_.num_bytes += pieces_[piece].size_bytes;
  }
  return {};
}

// null for a shard without a document.
Result<Json> Build::write_part(const ShardWriter& shard, const std::string& name) const {
  if (shard.num_documents() == 0) return Json(nullptr);
  MS_ASSIGN_OR_RETURN(const Digest128 sum,
                      shard.write(out(name), options_.tokenizer->vocab_size()));
  return Json{{"file", name},
              {"tokens", shard.num_tokens()},
              {"documents", shard.num_documents()},
              {"checksum", sum.hex()}};
}

Status Build::tokenize_piece(size_t piece) {
  const std::string marker = work(numbered("piece", piece, ".done"));
  if (is_regular_file(marker)) return {};  // it came after its shards
  const int32_t end = *options_.tokenizer->eos_token();
  ShardWriter train;
  ShardWriter held_out;
  const std::vector<Fate>& fates = fates_[piece];
  const auto is_kept = [&](size_t document) {
    return fates[document] == Fate::kTrain || fates[document] == Fate::kHeldOut;
  };
  const auto make = [&](size_t document, std::string_view text) -> Result<std::vector<int32_t>> {
    if (document >= fates.size()) return data_loss("was changed while it was read");
    if (!is_kept(document)) return std::vector<int32_t>();
    return options_.tokenizer->encode(text,
                                      {.add_special_tokens = false, .parse_special_tokens = false});
  };
  const auto take = [&](size_t document, std::vector<int32_t> tokens) -> Status {
    if (!is_kept(document)) return {};
    tokens.push_back(end);
    (fates[document] == Fate::kTrain ? train : held_out).add(tokens);
    return {};
  };
  MS_RETURN_IF_ERROR(for_each_made<std::vector<int32_t>>(piece, make, take));
  Json done;
  MS_ASSIGN_OR_RETURN(done["train"], write_part(train, numbered("train", piece, ".mss")));
  MS_ASSIGN_OR_RETURN(done["held_out"], write_part(held_out, numbered("held", piece, ".mss")));
  return write_file_atomically(marker, json_text(done));
}

Status Build::collect(ShardIndex& index) const {
  index = counts_;
  index.tokenizer = options_.tokenizer_name;
  index.tokenizer_id = tokenizer_id_;
  index.vocabulary = options_.tokenizer->vocab_size();
  index.end_token = *options_.tokenizer->eos_token();
  index.built_with = built_with_;
  for (size_t piece = 0; piece < pieces_.size(); ++piece) {
    const std::string path = work(numbered("piece", piece, ".done"));
    MS_ASSIGN_OR_RETURN(const Json root, read_json_file(path));
    for (const auto& [key, shards] :
         {std::pair{"train", &index.train}, std::pair{"held_out", &index.held_out}}) {
      if (!root.contains(key) || root[key].is_null()) continue;
      MS_ASSIGN_OR_RETURN(const JsonObject shard, JsonObject::from(root[key], path, key));
      ShardEntry& entry = shards->emplace_back();
      MS_ASSIGN_OR_RETURN(entry.file, shard.get_string("file"));
      MS_ASSIGN_OR_RETURN(entry.num_tokens, shard.get_int("tokens"));
      MS_ASSIGN_OR_RETURN(entry.num_documents, shard.get_int("documents"));
      MS_ASSIGN_OR_RETURN(entry.checksum, shard.get_string("checksum"));
    }
  }
  if (index.train.empty()) {
    return invalid_argument(
        "no document is left to train on: " + std::to_string(index.num_documents) + " read, " +
        std::to_string(index.num_empty) + " empty, " +
        std::to_string(index.num_exact + index.num_near) + " duplicates");
  }
  return {};
}

Result<ShardIndex> Build::run() {
  MS_RETURN_IF_ERROR(check_options());
  MS_RETURN_IF_ERROR(open());
  if (is_regular_file(out(kShardIndexName))) return verify_finished();
  for (const std::string& folder : {options_.out, out("work")}) {
    MS_RETURN_IF_ERROR(remove_temporaries(folder).status());
  }
  MS_RETURN_IF_ERROR(for_each_piece("scan", [&](size_t piece) { return scan_piece(piece); }));
  MS_RETURN_IF_ERROR(decide());
  MS_RETURN_IF_ERROR(
      for_each_piece("tokenize", [&](size_t piece) { return tokenize_piece(piece); }));
  ShardIndex index;
  MS_RETURN_IF_ERROR(collect(index));
  MS_RETURN_IF_ERROR(write_shard_index(options_.out, index));
  for (size_t piece = 0; piece < pieces_.size(); ++piece) {  // build.json stays: it names the build
    for (const char* ending : {".scan", ".done"}) {
      MS_RETURN_IF_ERROR(remove_tree(work(numbered("piece", piece, ending))));
    }
  }
  return index;
}

}  // namespace

Result<ShardIndex> build_shards(const ShardBuildOptions& options) { return Build(options).run(); }

}  // namespace mainspring
