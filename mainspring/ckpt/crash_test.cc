// A save is stopped at every single call it makes to the disk, and by kill -9 at random moments.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "mainspring/ckpt/fake_file_ops.h"
#include "mainspring/ckpt/test_content.h"
#include "mainspring/ckpt/writer.h"

namespace mainspring {
namespace {

using Fault = FaultyFileOps::Fault;

class CheckpointCrashTest : public CheckpointTest {
 protected:
  CheckpointWriterOptions options(FileOps* ops) const {
    CheckpointWriterOptions options;
    options.checkpoints_dir = dir_;
    options.piece_bytes = 256;
    options.keep_last = 1;  // so that removal of old ones is among the calls
    options.file_ops = ops;
    return options;
  }

  /// Saves step 1, then step 2 with the fault, then step 3 by a new writer. Returns whether step
  /// 2's save ran through without meeting the fault.
  bool save_with_fault(Fault fault, int64_t at) {
    const std::string first = dir_ + "-first";  // step 1, saved once and copied for each fault
    if (!std::filesystem::exists(first)) {
      CheckpointWriter writer(options(&sound_));
      EXPECT_TRUE(writer.start(content_of(1)).ok());
      EXPECT_TRUE(writer.wait().ok());
      std::filesystem::rename(dir_, first);
    }
    std::filesystem::remove_all(dir_);
    std::filesystem::copy(first, dir_, std::filesystem::copy_options::recursive);
    FaultyFileOps ops;
    ops.fault = fault;
    ops.fault_at = at;
    Status status;
    {
      CheckpointWriter writer(options(&ops));
      EXPECT_TRUE(writer.start(content_of(2)).ok());
      writer.note_next_loss(2.5);
      status = writer.wait();
    }
    // What a resumed run finds.
    const auto found = load_newest_checkpoint(dir_);
    EXPECT_TRUE(found.ok()) << "fault at call " << at << ": " << found.status().to_string();
    if (!found.ok() || !found->checkpoint) {
      ADD_FAILURE() << "nothing to resume from after a fault at call " << at;
      return false;
    }
    EXPECT_TRUE(found->rejected.empty()) << "a half-written checkpoint shows after call " << at;
    EXPECT_TRUE(is_consistent(*found->checkpoint));
    const int64_t step = found->checkpoint->state.step;
    EXPECT_TRUE(step == 1 || step == 2);
    if (status.ok()) {
      EXPECT_EQ(step, 2) << "success was reported";
    }
    // The next save works and leaves nothing of the failed one.
    CheckpointWriter writer(options(&sound_));
    EXPECT_TRUE(writer.start(content_of(3)).ok());
    EXPECT_TRUE(writer.wait().ok());
    EXPECT_EQ(names(), (std::vector<std::string>{"step-000003"})) << "after a fault at call " << at;
    return ops.num_calls <= at;
  }

  void TearDown() override {
    std::filesystem::remove_all(dir_ + "-first");
    CheckpointTest::TearDown();
  }

  FaultyFileOps sound_;  // without a fault

  void stop_at_every_call(Fault fault) {
    int64_t at = 0;
    while (!save_with_fault(fault, at) && at < 200 && !HasFailure()) ++at;
    EXPECT_GT(at, 25) << "a save makes more calls than that";
    EXPECT_LT(at, 200);
  }
};

TEST_F(CheckpointCrashTest, ACrashAtAnyCallLeavesTheOldOrTheNewCheckpoint) {
  stop_at_every_call(Fault::kCrash);
}

TEST_F(CheckpointCrashTest, AFullDiskFromAnyCallOnCorruptsNothing) {
  stop_at_every_call(Fault::kFull);
}

TEST_F(CheckpointCrashTest, AnySingleFailedCallCorruptsNothing) {
  stop_at_every_call(Fault::kFailOnce);
}

/// What the next test's child process does: saves step after step until it is killed.
void save_for_ever(const std::string& dir) {
  CheckpointWriterOptions options;
  options.checkpoints_dir = dir;
  options.piece_bytes = 4096;
  CheckpointWriter writer(options);
  const auto newest = load_newest_checkpoint(dir);
  int64_t step = newest.ok() && newest->checkpoint ? newest->checkpoint->state.step : 0;
  while (true) {
    ASSERT_TRUE(writer.start(content_of(++step, 20000)).ok());
    writer.wait_before_mutation();
    ASSERT_TRUE(writer.wait().ok());
  }
}

TEST_F(CheckpointCrashTest, KilledAtRandomMomentsTheNewestCheckpointIsAlwaysWhole) {
  if (const char* dir = std::getenv("MS_KILL_TEST_DIR")) return save_for_ever(dir);
  int64_t last_step = 0;
  for (int round = 0; round < 12; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("MS_KILL_TEST_DIR", dir_.c_str(), 1);
      ::execl("/proc/self/exe", "ckpt_test",
              "--gtest_filter=*KilledAtRandomMomentsTheNewestCheckpointIsAlwaysWhole", nullptr);
      ::_exit(127);
    }
    ASSERT_GT(child, 0);
    // Past its first finished save, then anywhere in the saves that follow.
    const auto has_saved = [&] {
      const auto entries = list_checkpoints(dir_);
      return !entries.empty() && entries.back().step > last_step;
    };
    for (int i = 0; i < 20000 && !has_saved(); ++i) ::usleep(1000);
    ::usleep(7919 * round % 20000);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the victim ended by itself";
    const auto found = load_newest_checkpoint(dir_);
    ASSERT_TRUE(found.ok()) << found.status().to_string();
    EXPECT_TRUE(found->rejected.empty());
    ASSERT_TRUE(found->checkpoint.has_value());
    EXPECT_TRUE(is_consistent(*found->checkpoint));
    EXPECT_GT(found->checkpoint->state.step, last_step) << "a finished save is never lost";
    last_step = found->checkpoint->state.step;
  }
}

}  // namespace
}  // namespace mainspring
