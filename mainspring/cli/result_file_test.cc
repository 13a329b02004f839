#include "mainspring/cli/result_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "mainspring/io/mapped_file.h"

namespace mainspring::cli {
namespace {

MadeWith made_with() { return {{"model", "a"}, {"temperature", "1"}}; }

class ResultFileTest : public ::testing::Test {
 protected:
  ResultFileTest() {
    std::string pattern = ::testing::TempDir() + "results-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/out.jsonl";
  }
  ~ResultFileTest() override { std::filesystem::remove_all(folder_); }

  static std::string read(const std::string& path) { return read_text_file(path).value(); }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }

  std::string folder_;
  std::string path_;
};

TEST_F(ResultFileTest, RowsAppearUnderTheNameAtCommit) {
  write(path_, "old\n");
  auto file = ResultFile::open(path_, false, made_with);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  ASSERT_TRUE((*file)->append("{\"a\":1}").ok());
  ASSERT_TRUE((*file)->append("{\"a\":2}").ok());
  EXPECT_EQ(read(path_), "old\n");
  EXPECT_EQ(read(path_ + ".partial"), "{\"a\":1}\n{\"a\":2}\n");
  ASSERT_TRUE((*file)->commit().ok());
  EXPECT_EQ(read(path_), "{\"a\":1}\n{\"a\":2}\n");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
}

TEST_F(ResultFileTest, RowsOfAnInterruptedRunAreNotOverwrittenUnasked) {
  write(path_ + ".partial", "one\ntwo\n");
  const auto file = ResultFile::open(path_, false, made_with);
  EXPECT_EQ(file.status().code(), StatusCode::kAlreadyExists);
  EXPECT_NE(file.status().message().find("holds 2 finished rows"), std::string::npos);
  EXPECT_EQ(read(path_ + ".partial"), "one\ntwo\n");
}

TEST_F(ResultFileTest, ResumingKeepsWholeRowsAndDropsABrokenLastOne) {
  write(path_ + ".partial", "one\ntwo\nthr");
  write(path_ + ".partial.json", "{\"model\": \"a\", \"temperature\": \"1\"}");
  auto file = ResultFile::open(path_, true, made_with);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->kept_rows(), (std::vector<std::string>{"one", "two"}));
  ASSERT_TRUE((*file)->append("three").ok());
  ASSERT_TRUE((*file)->commit().ok());
  EXPECT_EQ(read(path_), "one\ntwo\nthree\n");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial.json"));
}

TEST_F(ResultFileTest, ResumingWithSomethingElseIsRefusedByName) {
  {
    auto file = ResultFile::open(path_, false, made_with);
    ASSERT_TRUE(file.ok() && (*file)->append("one").ok());
  }
  const auto other = ResultFile::open(
      path_, true, [] { return MadeWith{{"model", "a"}, {"temperature", "0.5"}}; });
  EXPECT_EQ(other.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(other.status().message().find("made with temperature 1, this run has 0.5"),
            std::string::npos)
      << other.status().to_string();
  EXPECT_TRUE(ResultFile::open(path_, true, made_with).ok());
  std::filesystem::remove(path_ + ".partial.json");
  EXPECT_NE(ResultFile::open(path_, true, made_with).status().message().find("is not known"),
            std::string::npos);
  EXPECT_EQ(read(path_ + ".partial"), "one\n");
}

TEST_F(ResultFileTest, ALinkIsFollowedNotReplaced) {
  const std::string real = folder_ + "/real.jsonl";
  write(real, "old\n");
  std::filesystem::create_symlink("real.jsonl", path_);
  auto file = ResultFile::open(path_, false, made_with);
  ASSERT_TRUE(file.ok() && (*file)->append("new").ok() && (*file)->commit().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(read(real), "new\n");
}

TEST_F(ResultFileTest, ANameOfStandardOutputIsWrittenDirectly) {
  std::filesystem::create_symlink("/proc/self/fd/1", path_);
  testing::internal::CaptureStdout();  // makes it a regular file
  auto file = ResultFile::open(path_, false, made_with);
  ASSERT_TRUE(file.ok() && (*file)->append("row").ok() && (*file)->commit().ok());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "row\n");
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
}

TEST_F(ResultFileTest, AFinishedFileIsToldFromAnInterruptedOne) {
  EXPECT_FALSE(ResultFile::is_finished(path_));
  write(path_, "row\n");
  EXPECT_TRUE(ResultFile::is_finished(path_));
  write(path_ + ".partial", "row\n");
  EXPECT_FALSE(ResultFile::is_finished(path_));
  EXPECT_FALSE(ResultFile::is_finished("-"));
}

TEST_F(ResultFileTest, ARunThatWroteNothingLeavesNothing) {
  {
    ASSERT_TRUE(ResultFile::open(path_, false, made_with).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(ResultFileTest, AFolderAndAMissingFolderAreRefused) {
  EXPECT_EQ(ResultFile::open(folder_, false, [] { return MadeWith(); }).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ResultFile::open(folder_ + "/none/out.jsonl", false, [] { return MadeWith(); })
                .status()
                .code(),
            StatusCode::kNotFound);
}

TEST_F(ResultFileTest, ADeviceIsWrittenDirectly) {
  auto file = ResultFile::open("/dev/null", false, [] { return MadeWith(); });
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->append("row").ok());
  EXPECT_TRUE((*file)->commit().ok());
}

}  // namespace
}  // namespace mainspring::cli
