// Resident memory stays flat over 500 steps and 100 saves.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "mainspring/io/test_dir.h"
#include "mainspring/train/trainer.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Memory, IsFlatOverFiveHundredStepsAndAHundredSaves) {
  const TestDir folder;
  const std::string& dir = folder.path();
  std::ofstream rows(dir + "/rows.jsonl");
  for (int i = 0; i < 32; ++i) rows << "{\"tokens\": [1, 2, 3, " << i << ", 5, 6, 7, 8]}\n";
  rows.close();
  std::ofstream(dir + "/recipe.toml")
      << "[model]\npath = \"" << test::source_path("tests/golden/tiny/llama_gqa")
      << "\"\n[data]\nfiles = [\"" << dir
      << "/rows.jsonl\"]\nmax_tokens = 64\nformat = \"tokens\"\n[tune]\nmode = "
         "\"full\"\n[train]\nsteps = 500\n"
      << "batch_size = 2\n[checkpoint]\nevery = 5\n";
  const auto recipe = load_recipe(dir + "/recipe.toml", {}).value();
  const auto executor = test::make_executor();
  int64_t asked = 0;
  int64_t after_100_steps = 0;
  TrainOptions options{.run_dir = dir + "/run",
                       .resume = false,
                       .dry_run = false,
                       .should_stop =
                           [&] {
                             if (++asked == 100) after_100_steps = resident_bytes();
                             return false;
                           },
                       .facts = {},
                       .say = {}};
  EXPECT_EQ(run_training(recipe, *executor, options).value().steps_done, 500);
  EXPECT_LT(resident_bytes() - after_100_steps, int64_t{16} << 20);
}

}  // namespace
}  // namespace mainspring
