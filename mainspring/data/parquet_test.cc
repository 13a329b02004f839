// Parquet files that pyarrow wrote (tests/golden/parquet) give the rows of the JSONL beside them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "mainspring/data/data_loader.h"
#include "mainspring/data/documents.h"
#include "mainspring/data/row_file.h"
#include "mainspring/data/shard_build.h"
#include "mainspring/data/shard_set.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/text/byte_tokenizer.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

std::string golden(const std::string& name) {
  return test::source_path("tests/golden/parquet/" + name);
}

std::shared_ptr<const RowList> open_rows(const std::string& path,
                                         std::vector<std::string> columns = {}) {
  ReadOptions options;
  options.columns = std::move(columns);
  auto rows = RowList::open({path}, options);
  EXPECT_TRUE(rows.ok()) << rows.status().to_string();
  return rows.ok() ? *rows : nullptr;
}

TEST(Parquet, EachCodecGivesTheRowsOfTheJsonlFileBesideIt) {
  for (const char* name : {"tokens_zstd", "chat_snappy", "text_gzip"}) {
    const auto rows = open_rows(golden(std::string(name) + ".parquet"));
    const auto lines = open_rows(golden(std::string(name) + ".jsonl"));
    ASSERT_EQ(rows->num_rows(), lines->num_rows()) << name;
    for (const int64_t i : {rows->num_rows() - 1, int64_t{0}, rows->num_rows() / 2}) {
      EXPECT_EQ(rows->read(i, {})->text, lines->read(i, {})->text);
      EXPECT_EQ(rows->read(i, {})->where(),
                golden(std::string(name) + ".parquet") + ":" + std::to_string(i + 1));
    }
    EXPECT_EQ(rows->digest(), lines->digest()) << name;
  }
}

TEST(Parquet, NullFieldsAreLeftOutAndOtherTypesKeepTheirValues) {
  const auto rows = open_rows(golden("mixed_plain.parquet"));
  const auto lines = open_rows(golden("mixed_plain.jsonl"));
  ASSERT_EQ(rows->num_rows(), 3);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(*parse_json(rows->read(i, {})->text, "row"),
              *parse_json(lines->read(i, {})->text, "line"))
        << rows->read(i, {})->text;
  }
}

TEST(Parquet, OnlyTheColumnsAskedForAreRead) {
  const auto rows = open_rows(golden("tokens_wide.parquet"), {"mask", "tokens", "text"});
  EXPECT_EQ(rows->digest(), open_rows(golden("tokens_zstd.jsonl"))->digest());
  ReadOptions options;
  options.columns = {"messages", "text"};
  const auto none = RowList::open({golden("tokens_wide.parquet")}, options);
  EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(none.status().message().find("has the columns tokens, mask, embedding, id; expected at "
                                         "least one of messages, text"),
            std::string::npos)
      << none.status().message();
}

TEST(Parquet, ALoaderDrawsAndResumesAsFromJsonl) {
  const auto open = [](const std::string& path) {
    DataOptions options;
    options.sources = {{"", {path}, 0.0}};
    options.seed = 5;
    options.held_out_fraction = 0.1;
    return DataLoader::open(options,
                            std::make_shared<RowEncoder>(nullptr, nullptr, RowEncoderOptions{}))
        .value();
  };
  auto parquet = open(golden("tokens_wide.parquet"));
  auto jsonl = open(golden("tokens_zstd.jsonl"));
  ASSERT_TRUE(jsonl->next(33).ok());
  ASSERT_TRUE(parquet->restore(jsonl->state()).ok()) << "the rows are the same rows";
  const auto a = parquet->next(60).value();
  const auto b = jsonl->next(60).value();
  for (size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(a[i].tokens, b[i].tokens);
    EXPECT_EQ(a[i].weights, b[i].weights);
  }
}

TEST(Parquet, DamageAndValuesWithoutAFormAreNamedWithTheirRow) {
  const TestDir dir;
  std::string bytes = read_text_file(golden("text_gzip.parquet")).value();
  const auto status_of = [&](const std::string& text) {
    const std::string path = dir.path() + "/x.parquet";
    std::ofstream(path, std::ios::binary) << text;
    return RowList::open({path}, {}).status();
  };
  EXPECT_EQ(status_of(bytes.substr(0, bytes.size() - 9)).code(), StatusCode::kDataLoss);
  std::string damaged = bytes;
  for (size_t i = 2000; i < 2200; ++i) damaged[i] = static_cast<char>(damaged[i] ^ 0x5a);
  const Status page = status_of(damaged);
  EXPECT_EQ(page.code(), StatusCode::kDataLoss);
  EXPECT_NE(page.message().find("x.parquet:"), std::string::npos) << page.message();
  const Status nan = RowList::open({golden("nan.parquet")}, {}).status();
  EXPECT_NE(nan.message().find("nan.parquet:1: ratio: NaN has no form in JSON"), std::string::npos)
      << nan.message();
  const Status codec = RowList::open({golden("brotli.parquet")}, {}).status();
  EXPECT_EQ(codec.code(), StatusCode::kDataLoss);
  EXPECT_NE(codec.message().find("brotli"), std::string::npos) << codec.message();
}

TEST(Parquet, NeverCrashesOnACutFile) {
  const TestDir dir;
  const std::string bytes = read_text_file(golden("chat_snappy.parquet")).value();
  const std::string path = dir.path() + "/x.parquet";
  for (size_t size = 4; size < bytes.size(); size += 13) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes.substr(0, size);
    EXPECT_FALSE(RowList::open({path}, {}).ok()) << size;
  }
}

TEST(Parquet, ABuildMakesTheShardsOfTheSameJsonlWhateverThePieces) {
  const TestDir dir;
  const auto build = [&](const std::string& input, const std::string& out, int64_t piece_bytes) {
    ShardBuildOptions options;
    options.inputs = {input};
    options.out = dir.path() + "/" + out;
    options.tokenizer =
        Tokenizer::from_json(byte_tokenizer_json(), {.eos = kByteEndOfText}).value();
    options.tokenizer_name = "bytes";
    options.held_out = 0.1;
    options.piece_bytes = piece_bytes;
    options.num_threads = 2;
    const auto index = build_shards(options);
    EXPECT_TRUE(index.ok()) << index.status().to_string();
    return index.ok() ? *index : ShardIndex{};
  };
  const ShardIndex rows = build(golden("text_gzip.jsonl"), "jsonl", 1 << 30);
  const ShardIndex whole = build(golden("text_gzip.parquet"), "whole", 1 << 30);
  EXPECT_EQ(whole.digest(), rows.digest());
  const ShardIndex cut = build(golden("text_gzip.parquet"), "cut", 4000);
  EXPECT_GT(cut.train.size(), 2u);
  EXPECT_EQ(cut.num_documents, rows.num_documents);
  EXPECT_EQ(ShardIndex::tokens_of(cut.train), ShardIndex::tokens_of(rows.train));
  EXPECT_EQ(ShardIndex::tokens_of(cut.held_out), ShardIndex::tokens_of(rows.held_out));
}

TEST(Parquet, ABuildNamesAMissingColumnAndANullText) {
  const TestDir dir;
  ShardBuildOptions options;
  options.out = dir.path() + "/out";
  options.tokenizer = Tokenizer::from_json(byte_tokenizer_json(), {.eos = kByteEndOfText}).value();
  options.inputs = {golden("tokens_wide.parquet")};
  const Status column = build_shards(options).status();
  EXPECT_NE(column.message().find("has no column \"text\", but tokens, mask, embedding, id"),
            std::string::npos)
      << column.message();
  EXPECT_FALSE(std::filesystem::exists(options.out)) << "before any work";
  options.inputs = {golden("text_null.parquet")};
  const Status null = build_shards(options).status();
  EXPECT_NE(null.message().find("text_null.parquet:2: expected an object with a string \"text\""),
            std::string::npos)
      << null.message();
}

}  // namespace
}  // namespace mainspring
