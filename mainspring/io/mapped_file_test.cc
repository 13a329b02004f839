#include "mainspring/io/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

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

/// Whether this process has the page (the page cache may have it all the same).
bool is_resident(const void* page) {
  const auto index = reinterpret_cast<uintptr_t>(page) / static_cast<uintptr_t>(::getpagesize());
  uint64_t entry = 0;
  const int pagemap = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::pread(pagemap, &entry, sizeof(entry), static_cast<off_t>(8 * index)), 8);
  ::close(pagemap);
  return (entry >> 63) != 0;
}

TEST(MappedFile, PagesLetGoComeBackFromTheFile) {
  const TestDir dir;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto file = MappedFile::open(dir.write("a", std::string(4 * page, 'x'))).value();
  const uint8_t* bytes = file->bytes().data();
  const auto read_all = [&] {
    size_t count = 0;
    for (uint8_t byte : file->bytes()) count += byte == 'x';
    return count;
  };
  ASSERT_EQ(read_all(), 4 * page);
  ASSERT_TRUE(is_resident(bytes + page));
  MappedFile::let_go(bytes + 10, 3 * page);  // whole pages only
  EXPECT_TRUE(is_resident(bytes));
  EXPECT_FALSE(is_resident(bytes + page));
  EXPECT_EQ(read_all(), 4 * page);
}

TEST(MappedFile, OtherMemoryIsNotLetGo) {
  std::vector<uint8_t> memory(1 << 20, 7);
  MappedFile::let_go(memory.data(), memory.size());
  EXPECT_EQ(memory[1 << 19], 7);
  const TestDir dir;
  const auto file = MappedFile::open(dir.write("a", "abc")).value();
  MappedFile::let_go(file->bytes().data(), size_t{1} << 20);  // beyond the file's end
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
