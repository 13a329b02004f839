#include "mainspring/io/mapped_file.h"

#include <gtest/gtest.h>

#include "mainspring/io/test_dir.h"

namespace mainspring {
namespace {

TEST(MappedFile, ShowsTheFilesBytes) {
  const TestDir dir;
  const auto file = MappedFile::open(dir.write("a", "abc"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->text(), "abc");
  EXPECT_EQ((*file)->bytes().size(), 3u);
}

TEST(MappedFile, AnEmptyFileIsAnEmptySpan) {
  const TestDir dir;
  const auto file = MappedFile::open(dir.write("a", ""));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->bytes().empty());
}

TEST(MappedFile, OutlivesTheFilesName) {
  const TestDir dir;
  const auto file = MappedFile::open(dir.write("a", "abc")).value();
  std::filesystem::remove(dir.file("a"));
  EXPECT_EQ(file->text(), "abc");
}

TEST(MappedFile, ErrorsNamePathAndReason) {
  const TestDir dir;
  const Status missing = MappedFile::open(dir.file("none")).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), dir.file("none") + ": cannot open: No such file or directory");
  const Status folder = MappedFile::open(dir.path()).status();
  EXPECT_EQ(folder.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(folder.message(), dir.path() + ": is a folder, expected a file");
  EXPECT_EQ(MappedFile::open("/dev/null").status().code(), StatusCode::kInvalidArgument);
}

TEST(ReadTextFile, RefusesMoreThanTheLimit) {
  const TestDir dir;
  EXPECT_EQ(read_text_file(dir.write("a", "abcd"), 4).value(), "abcd");
  EXPECT_EQ(read_text_file(dir.file("a"), 3).status().code(), StatusCode::kInvalidArgument);
}

TEST(JoinPath, PutsOneSlashBetween) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("/", "b"), "/b");
  EXPECT_EQ(join_path("", "b"), "b");
}

}  // namespace
}  // namespace mainspring
