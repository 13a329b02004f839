#include "mainspring/data/row_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "mainspring/io/test_compress.h"

namespace mainspring {
namespace {

class RowFileTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/rows-" + std::to_string(::getpid()) + "-" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(dir_);
    options_.activity = std::make_shared<Activity>();
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string put(const std::string& name, const std::string& text) {
    const std::string path = dir_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::vector<std::string> rows_of(const RowList& list) {
    std::vector<std::string> out;
    for (int64_t i = 0; i < list.num_rows(); ++i) {
      const auto row = list.read(i, options_);
      out.push_back(row.ok() ? row->text + "@" + std::to_string(row->line)
                             : row.status().to_string());
    }
    return out;
  }
  std::vector<std::string> rows_of(const std::vector<std::string>& paths) {
    const auto list = RowList::open(paths, options_);
    if (!list.ok()) return {list.status().to_string()};
    return rows_of(**list);
  }
  using Rows = std::vector<std::string>;

  std::string dir_;
  ReadOptions options_;
};

TEST_F(RowFileTest, BlankLinesCarriageReturnsAndAMissingLastNewlineAreFine) {
  EXPECT_EQ(rows_of({put("a", "{1}\n\n  \t\n{2}\r\n\r\n{3}")}), (Rows{"{1}@1", "{2}@4", "{3}@6"}));
}

TEST_F(RowFileTest, AByteOrderMarkIsNotPartOfTheFirstRow) {
  EXPECT_EQ(rows_of({put("a", "\xEF\xBB\xBF{1}\n{2}\n")}), (Rows{"{1}@1", "{2}@2"}));
}

TEST_F(RowFileTest, AnyRowOfABigFileIsFoundThroughTheSparseIndex) {
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    text += "{" + std::to_string(i) + std::string(i % 700 == 0 ? 150000 : i % 50, 'x') + "}\n";
    if (i % 97 == 0) text += "\n";
  }
  const auto list = RowList::open({put("a", text)}, options_);
  ASSERT_TRUE(list.ok());
  ASSERT_EQ((*list)->num_rows(), 5000);
  for (const int64_t i : {0, 1, 31, 32, 33, 699, 700, 701, 1400, 4999}) {
    const auto row = (*list)->read(i, options_);
    ASSERT_TRUE(row.ok());
    EXPECT_EQ(row->text.substr(0, std::to_string(i).size() + 1), "{" + std::to_string(i));
    EXPECT_EQ(row->line, i + 1 + (i + 96) / 97);
  }
}

TEST_F(RowFileTest, ACompressedFileHasTheRowsAndTheDigestOfThePlainOne) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "{" + std::to_string(i * 7919) + "}\n";
  const auto plain = RowList::open({put("plain", text)}, options_);
  ASSERT_TRUE(plain.ok());
  for (const std::string& bytes : {gzip_of(text), zstd_of(text)}) {
    const auto list = RowList::open({put("packed.jsonl", bytes)}, options_);  // told by its bytes
    ASSERT_TRUE(list.ok()) << list.status().to_string();
    EXPECT_EQ((*list)->digest().hex(), (*plain)->digest().hex());
    EXPECT_EQ(rows_of(**list), rows_of(**plain));
  }
}

TEST_F(RowFileTest, ACutOrDamagedCompressedFileIsDataLossWithItsName) {
  for (std::string bytes : {gzip_of("{1}\n{2}\n"), zstd_of("{1}\n{2}\n")}) {
    const auto cut =
        RowList::open({put("cut.jsonl.gz", bytes.substr(0, bytes.size() - 3))}, options_);
    EXPECT_EQ(cut.status().code(), StatusCode::kDataLoss);
    EXPECT_NE(cut.status().message().find("cut.jsonl.gz: the file is cut"), std::string::npos);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);  // of the checksum (gzip: the length)
    const auto damaged = RowList::open({put("bad", bytes)}, options_);
    EXPECT_EQ(damaged.status().code(), StatusCode::kDataLoss);
    EXPECT_NE(damaged.status().message().find("damaged"), std::string::npos);
  }
}

TEST_F(RowFileTest, APipeMayCarryCompressedRows) {
  const std::string path = dir_ + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path, std::ios::binary) << gzip_of("{1}\n{2}\n"); });
  EXPECT_EQ(rows_of({path}), (Rows{"{1}@1", "{2}@2"}));
  writer.join();
}

TEST_F(RowFileTest, CuttingASourceIntoFilesChangesNeitherRowsNorDigest) {
  const auto whole = RowList::open({put("whole", "{1}\n{2}\n{3}")}, options_);
  const auto parts =
      RowList::open({put("a", "{1}\n"), put("b", "{2}"), put("c", "{3}\n")}, options_);
  ASSERT_TRUE(whole.ok() && parts.ok());
  EXPECT_EQ((*whole)->digest().hex(), (*parts)->digest().hex());
  EXPECT_EQ((*parts)->num_rows(), 3);
  EXPECT_EQ((*parts)->read(1, options_)->where(), dir_ + "/b:1");
  const auto other = RowList::open({put("d", "{1}\n{2}\n{4}\n")}, options_);
  EXPECT_NE((*whole)->digest().hex(), (*other)->digest().hex());
}

TEST_F(RowFileTest, FilesWithoutRowsMissingFilesAndFoldersAreRefusedByName) {
  const auto empty = RowList::open({put("empty", "\n \n")}, options_);
  EXPECT_EQ(empty.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(empty.status().message().find("empty: has no rows"), std::string::npos);
  EXPECT_EQ(RowList::open({dir_ + "/missing"}, options_).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(RowList::open({dir_}, options_).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(RowFileTest, ADeviceWithoutAnEndIsRefused) {
  for (const char* path : {"/dev/zero", "/dev/urandom"}) {
    const auto list = RowList::open({path}, options_);
    ASSERT_EQ(list.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(list.status().message(),
              std::string(path) + ": is a device without an end; expected a JSONL file");
  }
}

TEST_F(RowFileTest, TheNullDeviceHasNoRows) {
  Checksum128 digest;
  const auto file = RowFile::open("/dev/null", options_, digest);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->num_rows(), 0);
}

/// Puts `fd` in the place of standard input for a scope.
class StandardInput {
 public:
  explicit StandardInput(int fd) : saved_(::dup(STDIN_FILENO)) { ::dup2(fd, STDIN_FILENO); }
  ~StandardInput() {
    ::dup2(saved_, STDIN_FILENO);
    ::close(saved_);
  }

 private:
  int saved_;
};

TEST_F(RowFileTest, StandardInputMayBeASocket) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ASSERT_EQ(::write(ends[1], "{1}\n{2}", 7), 7);
  ::close(ends[1]);
  Checksum128 digest;
  const StandardInput input(ends[0]);
  const auto file = RowFile::standard_input(options_, digest);
  ::close(ends[0]);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ((*file)->num_rows(), 2);
  EXPECT_EQ((*file)->read(1, options_)->text, "{2}");
}

TEST_F(RowFileTest, StandardInputMayBeATerminal) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(master, 0);
  ASSERT_EQ(::grantpt(master), 0);
  ASSERT_EQ(::unlockpt(master), 0);
  const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  const char typed[] = {'{', '1', '}', '\n', 4};  // 4: Ctrl-D, the end
  ASSERT_EQ(::write(master, typed, sizeof(typed)), 5);
  Checksum128 digest;
  const StandardInput input(terminal);
  const auto file = RowFile::standard_input(options_, digest);
  ::close(terminal);
  ::close(master);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ((*file)->num_rows(), 1);
}

TEST_F(RowFileTest, AFileThatShrankIsDataLoss) {
  const std::string path = put("a", "{1}\n{2}\n");
  const auto list = RowList::open({path}, options_);
  std::filesystem::resize_file(path, 4);
  EXPECT_EQ((*list)->read(1, options_).status().code(), StatusCode::kDataLoss);
}

TEST_F(RowFileTest, APipeIsReadToItsEndAndThenBehavesLikeAFile) {
  const std::string path = dir_ + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << "{1}\n{2}\n"; });
  EXPECT_EQ(rows_of({path}), (Rows{"{1}@1", "{2}@2"}));
  writer.join();
}

TEST_F(RowFileTest, APipeThatGivesNothingIsNamedWithinItsDeadline) {
  const std::string path = dir_ + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  options_.stall_timeout_s = 0.05;
  const auto list = RowList::open({path}, options_);
  EXPECT_EQ(list.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(list.status().message().find(path), std::string::npos);
}

TEST_F(RowFileTest, RandomBytesNeverCrashAndEveryRowReadsBack) {
  uint64_t random = 1;
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 300; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      text.push_back("\n\n\r \t{}\xEF\xBB\xBF\0x"[random >> 60 & 15 ? random >> 40 & 11 : 0]);
    }
    const auto list = RowList::open({put("a", text)}, options_);
    if (!list.ok()) continue;
    for (const std::string& row : rows_of(**list)) {
      EXPECT_EQ(row.find("data loss"), std::string::npos) << row;
    }
  }
}

}  // namespace
}  // namespace mainspring
