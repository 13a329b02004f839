#include "mainspring/cli/cmd_bench.h"

#include <gtest/gtest.h>

#include "mainspring/io/test_dir.h"

namespace mainspring::cli {
namespace {

TEST(BenchCommandTest, TheScriptIsThatOfTheNearestFolderAbove) {
  const TestDir dir;
  dir.write("clone/bench/run", "x");
  dir.write("clone/build/deep/file", "x");
  EXPECT_EQ(find_bench_script(dir.file("clone/build/deep")), dir.file("clone/bench/run"));
  EXPECT_EQ(find_bench_script(dir.file("clone")), dir.file("clone/bench/run"));
  dir.write("clone/build/bench/run", "x");
  EXPECT_EQ(find_bench_script(dir.file("clone/build/deep")), dir.file("clone/build/bench/run"));
  EXPECT_EQ(find_bench_script(dir.path()), "");
}

}  // namespace
}  // namespace mainspring::cli
