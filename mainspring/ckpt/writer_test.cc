#include "mainspring/ckpt/writer.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "mainspring/ckpt/fake_file_ops.h"
#include "mainspring/ckpt/test_content.h"

namespace mainspring {
namespace {

class CheckpointWriterTest : public CheckpointTest {
 protected:
  CheckpointWriterOptions options(FileOps* ops = nullptr) const {
    CheckpointWriterOptions options;
    options.checkpoints_dir = dir_;
    options.file_ops = ops;
    return options;
  }
  static Status save(CheckpointWriter& writer, CheckpointContent content) {
    MS_RETURN_IF_ERROR(writer.start(std::move(content)));
    return writer.wait();
  }
  using Names = std::vector<std::string>;
};

TEST_F(CheckpointWriterTest, WhatWasSavedIsLoadedAndTheReportAgreesWithTheManifest) {
  CheckpointWriter writer(options());
  ASSERT_TRUE(save(writer, content_of(12)).ok());
  const auto reports = writer.take_reports();
  ASSERT_EQ(reports.size(), 1u);
  const auto loaded = load_checkpoint(dir_ + "/step-000012");
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_TRUE(is_consistent(*loaded));
  EXPECT_EQ(reports[0].digest, loaded->manifest.digest);
  EXPECT_EQ(reports[0].path, dir_ + "/step-000012");
  EXPECT_TRUE(writer.take_reports().empty());
  EXPECT_EQ(names(), (Names{"step-000012"}));
}

TEST_F(CheckpointWriterTest, WritesAreInPiecesAndNothingIsCopied) {
  FaultyFileOps ops;
  CheckpointWriterOptions small = options(&ops);
  small.piece_bytes = 4096;
  CheckpointWriter writer(small);
  ASSERT_TRUE(save(writer, content_of(1, 10000)).ok());
  EXPECT_LE(ops.largest_write, 4096);
  EXPECT_TRUE(is_consistent(*load_checkpoint(dir_ + "/step-000001")));
}

/// Holds the writer's thread at the first call that begins with `at`, until it is let go.
struct Gate {
  explicit Gate(std::string call) : at(std::move(call)) {}
  void pass(const std::string& call) {
    std::unique_lock<std::mutex> lock(mutex);
    if (call.rfind(at, 0) != 0) return;
    reached = true;
    changed.notify_all();
    changed.wait(lock, [this] { return open; });
  }
  void wait_reached() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return reached; });
  }
  void let_go() {
    const std::lock_guard<std::mutex> lock(mutex);
    open = true;
    changed.notify_all();
  }
  std::string at;
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  bool open = false;
};

TEST_F(CheckpointWriterTest, TensorsMayChangeAsSoonAsTheyHaveBeenReadAndTheSaveDoesNotSeeIt) {
  Gate gate("sync ");
  FaultyFileOps ops;
  ops.before = [&gate](const std::string& call) { gate.pass(call); };
  CheckpointWriter writer(options(&ops));
  CheckpointContent content = content_of(5);
  StoredTensor& live = content.files[0].tensors["layer.weight"];
  auto* values = const_cast<float*>(static_cast<const float*>(live.data));
  const std::shared_ptr<const void> owner = live.owner;
  ASSERT_TRUE(writer.start(content).ok());
  writer.wait_before_mutation();  // returns although the save hangs in its first sync
  EXPECT_TRUE(writer.busy());
  values[0] = 99.0f;
  gate.let_go();
  ASSERT_TRUE(writer.wait().ok());
  EXPECT_FALSE(writer.busy());
  EXPECT_TRUE(is_consistent(*load_checkpoint(dir_ + "/step-000005")));
}

TEST_F(CheckpointWriterTest, TheTensorsOwnersAreHeldOnlyWhileTheyAreRead) {
  CheckpointWriter writer(options());
  CheckpointContent content = content_of(5);
  const std::weak_ptr<const void> owner = content.files[0].tensors["layer.weight"].owner;
  ASSERT_TRUE(writer.start(std::move(content)).ok());
  writer.wait_before_mutation();
  EXPECT_TRUE(owner.expired());
}

TEST_F(CheckpointWriterTest, AFailedSaveIsReportedOnceAndTheNextOneWorks) {
  FaultyFileOps ops;
  CheckpointWriter writer(options(&ops));
  ASSERT_TRUE(save(writer, content_of(1)).ok());
  ops.fault = FaultyFileOps::Fault::kFull;
  ops.fault_at = ops.num_calls + 4;
  ASSERT_TRUE(writer.start(content_of(2)).ok());
  writer.wait_before_mutation();
  const Status failed = writer.wait();
  EXPECT_EQ(failed.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(failed.message().rfind("checkpoint of step 2: ", 0), 0u) << failed.message();
  EXPECT_TRUE(writer.wait().ok());
  EXPECT_EQ(names(), (Names{"step-000001"})) << "the old one is kept and nothing is left behind";
  ops.fault = FaultyFileOps::Fault::kNone;
  ASSERT_TRUE(save(writer, content_of(3)).ok());
  EXPECT_EQ(writer.take_reports().size(), 3u);
}

TEST_F(CheckpointWriterTest, TheNewestAndTheBestAreKept) {
  CheckpointWriterOptions two = options();
  two.keep_last = 2;
  two.keep_best = 1;
  CheckpointWriter writer(two);
  const double losses[] = {3.0, 1.0, 2.0, 2.5, 2.2};
  for (int step = 1; step <= 5; ++step) {
    CheckpointContent content = content_of(step);
    content.state.eval_loss = losses[step - 1];
    ASSERT_TRUE(save(writer, std::move(content)).ok());
  }
  EXPECT_EQ(names(), (Names{"step-000002", "step-000004", "step-000005"}));
  EXPECT_EQ(writer.take_reports()[4].removed, (Names{dir_ + "/step-000003"}));
}

TEST_F(CheckpointWriterTest, ACorruptCheckpointOfTheSameOrALaterStepIsReplaced) {
  CheckpointWriter writer(options());
  ASSERT_TRUE(save(writer, content_of(10)).ok());
  ASSERT_TRUE(save(writer, content_of(20)).ok());
  ASSERT_TRUE(save(writer, content_of(30)).ok());
  std::filesystem::resize_file(dir_ + "/step-000020/model.safetensors", 10);
  std::filesystem::resize_file(dir_ + "/step-000030/model.safetensors", 10);
  // The run goes on from step 10 and comes by step 20 again.
  CheckpointWriter again(options());
  ASSERT_TRUE(save(again, content_of(20)).ok());
  EXPECT_EQ(names(), (Names{"step-000010", "step-000020"}));
  EXPECT_TRUE(is_consistent(*load_newest_checkpoint(dir_)->checkpoint));
}

TEST_F(CheckpointWriterTest, TheNextStepsLossIsPutBesideItsCheckpoint) {
  CheckpointWriter writer(options());
  ASSERT_TRUE(writer.start(content_of(4)).ok());
  writer.note_next_loss(0.1 + 0.2);
  ASSERT_TRUE(writer.wait().ok());
  EXPECT_EQ(load_checkpoint(dir_ + "/step-000004")->next_loss_sum, 0.1 + 0.2);
  ASSERT_TRUE(save(writer, content_of(8)).ok());
  EXPECT_FALSE(load_checkpoint(dir_ + "/step-000008")->next_loss_sum.has_value());
}

TEST_F(CheckpointWriterTest, DestroyingTheWriterFinishesTheSave) {
  {
    CheckpointWriter writer(options());
    ASSERT_TRUE(writer.start(content_of(6)).ok());
    writer.note_next_loss(1.5);
  }
  const auto loaded = load_checkpoint(dir_ + "/step-000006");
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->next_loss_sum, 1.5);
}

TEST_F(CheckpointWriterTest, ContentThatCannotBeWrittenIsRefusedAtOnce) {
  CheckpointWriter writer(options());
  const auto refused = [&](CheckpointContent content) {
    return writer.start(std::move(content)).code() == StatusCode::kInvalidArgument;
  };
  CheckpointContent content = content_of(1);
  content.files[1].file_name = "model.safetensors";
  EXPECT_TRUE(refused(content)) << "a name twice";
  content = content_of(1);
  content.files[0].file_name = "../model.safetensors";
  EXPECT_TRUE(refused(content));
  content = content_of(1);
  content.texts["manifest.json"] = "{}";
  EXPECT_TRUE(refused(content));
  content = content_of(1);
  content.files[0].tensors["norm.weight"].size_bytes = 8;
  EXPECT_TRUE(refused(content)) << "bytes and shape differ";
  content = content_of(1);
  content.files[0].tensors["norm.weight"].dtype = DType::kQ8_0;
  EXPECT_TRUE(refused(content));
  EXPECT_TRUE(refused(CheckpointContent{}));
  EXPECT_TRUE(refused(content_of(-1)));
}

TEST_F(CheckpointWriterTest, ASaveThatHangsIsGivenUpAndNeverAppears) {
  auto gate = std::make_shared<Gate>("write ");
  auto ops = std::make_shared<FaultyFileOps>();
  ops->before = [gate](const std::string& call) { gate->pass(call); };
  CheckpointWriterOptions hanging = options(ops.get());
  hanging.stall_timeout_s = 0.05;
  {
    CheckpointWriter writer(hanging);
    ASSERT_TRUE(writer.start(content_of(1)).ok());
    gate->wait_reached();
    writer.wait_before_mutation();
    const Status stalled = writer.wait();
    EXPECT_EQ(stalled.code(), StatusCode::kDeadlineExceeded);
    EXPECT_NE(stalled.message().find(dir_), std::string::npos);
    EXPECT_EQ(writer.start(content_of(2)).code(), StatusCode::kDeadlineExceeded);
    gate->let_go();
    while (writer.busy()) std::this_thread::yield();  // the thread sees that it was given up
  }
  EXPECT_TRUE(list_checkpoints(dir_).empty());
}

}  // namespace
}  // namespace mainspring
