// A batch that grows over the first steps: the same samples in the same order, cut differently.
#include "tests/e2e/tiny_run.h"

namespace mainspring {
namespace {

const std::vector<std::string> kRamp{"train.steps=8", "train.batch_size=6",
                                     "train.batch_ramp_from=2", "train.batch_ramp_steps=4"};

std::vector<uint64_t> joined(const std::vector<std::vector<uint64_t>>& batches) {
  std::vector<uint64_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

using BatchRamp = TinyRun;

TEST_F(BatchRamp, CutsTheSameStreamOfSamples) {
  ASSERT_TRUE(run("ramp", kRamp).ok());
  std::vector<size_t> sizes;
  for (const auto& batch : samples_) sizes.push_back(batch.size());
  EXPECT_EQ(sizes, (std::vector<size_t>{2, 3, 4, 5, 6, 6, 6, 6}));
  EXPECT_NE(said_.find("8 steps of 6 sequences (from 2, rising over 4 steps)"), std::string::npos)
      << said_;
  const std::vector<uint64_t> ramped = joined(samples_);
  ASSERT_TRUE(run("flat", {"train.steps=8", "train.batch_size=6"}).ok());
  std::vector<uint64_t> flat = joined(samples_);
  flat.resize(ramped.size());
  EXPECT_EQ(ramped, flat);
  EXPECT_NE(text("ramp/metrics.jsonl").find("\"sequences\":3"), std::string::npos);
}

TEST_F(BatchRamp, ResumesInItsMiddleWithTheSameBits) {
  expect_resumes("ramp",
                 {"train.batch_size=9", "train.batch_ramp_from=1", "train.batch_ramp_steps=15"});
}

TEST_F(BatchRamp, CountsTokensWhereTheBatchDoes) {
  ASSERT_TRUE(run("a", {"train.steps=3", "train.batch_tokens=90", "train.batch_ramp_from=15",
                        "train.batch_ramp_steps=2"})
                  .ok());
  // Rows have 11 to 15 tokens to learn from: 15 tokens are 1 or 2 rows, 52 are 4 or 5, 90 6 to 9.
  ASSERT_EQ(samples_.size(), 3u);
  EXPECT_LE(samples_[0].size(), 2u);
  EXPECT_GE(samples_[1].size(), 4u);
  EXPECT_LE(samples_[1].size(), 5u);
  EXPECT_GE(samples_[2].size(), 6u);
}

TEST_F(BatchRamp, ImpossibleRampsAreRefusedByTheirKeys) {
  EXPECT_NE(refusal({"train.batch_ramp_from=2"}).find("belong together"), std::string::npos);
  EXPECT_NE(refusal({"train.batch_ramp_from=5", "train.batch_ramp_steps=2"})
                .find("train.batch_ramp_from: expected at most train.batch_size (4), got 5"),
            std::string::npos);
  EXPECT_NE(refusal({"train.batch_ramp_from=2", "train.batch_ramp_steps=21"})
                .find("train.batch_ramp_steps: expected at most train.steps (20), got 21"),
            std::string::npos);
}

}  // namespace
}  // namespace mainspring
