#include "mainspring/io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "mainspring/io/mapped_file.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/io/write_all.h"

namespace mainspring {
namespace {

TEST(AtomicFile, ReplacesTheOldFileAtCommit) {
  const TestDir dir;
  dir.write("a", "old");
  auto file = AtomicFile::create(dir.file("a")).value();
  ASSERT_TRUE(file->append("ne").ok());
  ASSERT_TRUE(file->append("w").ok());
  EXPECT_EQ(dir.read("a"), "old");
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(dir.read("a"), "new");
  EXPECT_EQ(dir.count(), 1);
}

TEST(AtomicFile, WithoutCommitLeavesNothing) {
  const TestDir dir;
  dir.write("a", "old");
  AtomicFile::create(dir.file("a")).value()->append("new").ok();
  EXPECT_EQ(dir.read("a"), "old");
  EXPECT_EQ(dir.count(), 1);
}

TEST(AtomicFile, AMissingFolderIsNamed) {
  const TestDir dir;
  const Status status = write_file_atomically(dir.file("none/a"), "x");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find(dir.file("none/a")), std::string::npos);
}

TEST(WriteAll, AFullDiskIsResourceExhausted) {
  const int fd = ::open("/dev/full", O_WRONLY);  // refuses every write with ENOSPC
  ASSERT_GE(fd, 0);
  const Status status = write_all(fd, "x", 1, "out/a");
  ::close(fd);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "out/a: cannot write: No space left on device");
}

TEST(AtomicDir, AppearsWhole) {
  const TestDir dir;
  auto folder = AtomicDir::create(dir.file("out/")).value();
  ASSERT_TRUE(write_file_atomically(join_path(folder->path(), "a"), "1").ok());
  ASSERT_TRUE(make_directories(join_path(folder->path(), "b/c")).ok());
  ASSERT_TRUE(write_file_atomically(join_path(folder->path(), "b/c/d"), "2").ok());
  EXPECT_FALSE(dir.has("out"));
  ASSERT_TRUE(folder->commit().ok());
  EXPECT_EQ(dir.read("out/a"), "1");
  EXPECT_EQ(dir.read("out/b/c/d"), "2");
  EXPECT_EQ(dir.count(), 1);
}

TEST(AtomicDir, WithoutCommitLeavesNothing) {
  const TestDir dir;
  {
    const auto folder = AtomicDir::create(dir.file("out")).value();
    ASSERT_TRUE(write_file_atomically(join_path(folder->path(), "a"), "1").ok());
  }
  EXPECT_EQ(dir.count(), 0);
}

TEST(AtomicDir, RefusesATargetThatExistsBeforeOrAtCommit) {
  const TestDir dir;
  dir.write("out/a", "1");
  EXPECT_EQ(AtomicDir::create(dir.file("out")).status().code(), StatusCode::kAlreadyExists);
  const auto folder = AtomicDir::create(dir.file("late")).value();
  std::filesystem::create_directory(dir.file("late"));
  EXPECT_EQ(folder->commit().code(), StatusCode::kAlreadyExists);
}

TEST(RemoveTemporaries, SweepsWhatACrashLeft) {
  const TestDir dir;
  dir.write("keep", "1");
  dir.write(".tmp-1-0-step/a", "2");
  dir.write(".tmp-1-1-file", "3");
  EXPECT_EQ(remove_temporaries(dir.path()).value(), 2);
  EXPECT_EQ(dir.count(), 1);
  EXPECT_EQ(remove_temporaries(dir.file("none")).status().code(), StatusCode::kNotFound);
}

TEST(RemoveTree, OfNothingIsFine) {
  const TestDir dir;
  EXPECT_TRUE(remove_tree(dir.file("none")).ok());
}

}  // namespace
}  // namespace mainspring
