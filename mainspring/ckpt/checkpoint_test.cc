#include "mainspring/ckpt/checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>

#include "mainspring/ckpt/test_content.h"
#include "mainspring/ckpt/writer.h"
#include "mainspring/io/safetensors.h"

namespace mainspring {
namespace {

class LoadCheckpointTest : public CheckpointTest {
 protected:
  void save(const CheckpointContent& content) {
    CheckpointWriter writer({.checkpoints_dir = dir_});
    ASSERT_TRUE(writer.start(content).ok());
    ASSERT_TRUE(writer.wait().ok());
  }
  void flip_byte(const std::string& path, int64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(offset);
    file.put(byte);
  }
  std::string digest_of(const CheckpointContent& content) {
    std::filesystem::remove_all(dir_);
    save(content);
    return load_newest_checkpoint(dir_)->checkpoint->manifest.digest;
  }
};

TEST_F(LoadCheckpointTest, StateComesBackExactly) {
  CheckpointContent content = content_of(3);
  content.state.seed = 0xffffffffffffffffu;
  content.state.eval_loss = 0.1;
  content.state.extra["note"] = "a \"quoted\"\nline";
  save(content);
  const TrainState state = load_checkpoint(dir_ + "/step-000003")->state;
  EXPECT_EQ(state.seed, content.state.seed);
  EXPECT_EQ(state.data, content.state.data);
  EXPECT_EQ(state.extra, content.state.extra);
  EXPECT_EQ(state.eval_loss, 0.1);
}

TEST_F(LoadCheckpointTest, TheModelFileIsPlainSafetensorsUnderItsOwnNames) {
  CheckpointContent content = content_of(3);
  content.files[0].metadata["note"] = "x";
  save(content);
  const auto file = open_safetensors(dir_ + "/step-000003/model.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(file->tensors.size(), 2u);
  EXPECT_EQ(file->tensors.at("layer.weight").shape, (std::vector<int64_t>{100}));
  EXPECT_EQ(file->metadata.at("format"), "pt");
  EXPECT_EQ(file->metadata.at("note"), "x");
}

TEST_F(LoadCheckpointTest, NarrowAndWideElementsShareAFile) {
  CheckpointContent content = content_of(3);
  static const uint16_t halves[3] = {1, 2, 3};
  StoredTensor odd;
  odd.dtype = DType::kBF16;
  odd.shape = {3};
  odd.data = halves;
  odd.size_bytes = 6;
  content.files[0].tensors["a.first_by_name"] = odd;
  save(content);
  const auto loaded = load_checkpoint(dir_ + "/step-000003");
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  const StoredTensor& back = loaded->files[0].tensors.at("a.first_by_name");
  EXPECT_EQ(back.dtype, DType::kBF16);
  EXPECT_EQ(static_cast<const uint16_t*>(back.data)[2], 3);
}

TEST_F(LoadCheckpointTest, ACorruptNewestOneIsNamedAndTheOneBeforeItUsed) {
  save(content_of(1));
  save(content_of(2));
  flip_byte(dir_ + "/step-000002/optimizer.safetensors", 300);
  const auto newest = load_newest_checkpoint(dir_);
  ASSERT_TRUE(newest.ok());
  EXPECT_EQ(newest->checkpoint->state.step, 1);
  EXPECT_TRUE(is_consistent(*newest->checkpoint));
  ASSERT_EQ(newest->rejected.size(), 1u);
  EXPECT_NE(
      newest->rejected[0].find("step-000002/optimizer.safetensors: checksum differs: expected "),
      std::string::npos)
      << newest->rejected[0];
}

TEST_F(LoadCheckpointTest, AnyDamagedMissingOrShortFileIsDataLoss) {
  for (const std::string name : {"manifest.json", "state.json", "model.safetensors",
                                 "optimizer.safetensors", "config.json"}) {
    const std::string path = dir_ + "/step-000001/" + name;
    std::filesystem::remove_all(dir_);
    save(content_of(1));
    flip_byte(path, 1);
    EXPECT_EQ(load_checkpoint(dir_ + "/step-000001").status().code(), StatusCode::kDataLoss)
        << name;
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    EXPECT_EQ(load_checkpoint(dir_ + "/step-000001").status().code(), StatusCode::kDataLoss)
        << name;
    std::filesystem::remove(path);
    const Status missing = load_checkpoint(dir_ + "/step-000001").status();
    EXPECT_EQ(missing.code(), StatusCode::kDataLoss) << name;
    EXPECT_NE(missing.message().find(name), std::string::npos) << missing.message();
  }
}

TEST_F(LoadCheckpointTest, IfAllAreCorruptAllAreNamed) {
  save(content_of(1));
  save(content_of(2));
  for (const char* step : {"/step-000001", "/step-000002"})
    flip_byte(dir_ + step + "/model.safetensors", 300);
  const Status status = load_newest_checkpoint(dir_).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("step-000001"), std::string::npos);
  EXPECT_NE(status.message().find("step-000002"), std::string::npos);
}

TEST_F(LoadCheckpointTest, AFolderWithoutCheckpointsHasNone) {
  EXPECT_FALSE(load_newest_checkpoint(dir_)->checkpoint.has_value());
  EXPECT_EQ(load_checkpoint(dir_ + "/step-000001").status().code(), StatusCode::kNotFound);
  std::filesystem::create_directories(dir_ + "/.tmp-step-000003");
  std::filesystem::create_directories(dir_ + "/step-x");
  EXPECT_FALSE(load_newest_checkpoint(dir_)->checkpoint.has_value());
}

TEST_F(LoadCheckpointTest, TheDigestIsOfTheLogicalState) {
  const CheckpointContent content = content_of(1);
  const std::string digest = digest_of(content);
  EXPECT_EQ(digest_of(content), digest);

  CheckpointContent layout =
      content;  // the same tensors in other files, an eval loss, another text
  layout.files[0].file_name = "model-00001.safetensors";
  CheckpointFile second{"model-00002.safetensors", "model", {}, {}};
  second.tensors.insert(layout.files[0].tensors.extract("norm.weight"));
  layout.files.push_back(second);
  layout.state.eval_loss = 2.0;
  layout.texts["config.json"] = "{ }";
  EXPECT_EQ(digest_of(layout), digest);

  CheckpointContent value = content;
  value.files[0].tensors["norm.weight"] = filled("norm.weight", 3, 1.0000001f);
  EXPECT_NE(digest_of(value), digest);
  CheckpointContent name = content;
  name.files[0].tensors["other"] = name.files[0].tensors["norm.weight"];
  name.files[0].tensors.erase("norm.weight");
  EXPECT_NE(digest_of(name), digest);
  CheckpointContent cursor = content;
  cursor.state.data.cursors[1] += 1;
  EXPECT_NE(digest_of(cursor), digest);
  CheckpointContent seed = content;
  seed.state.seed += 1;
  EXPECT_NE(digest_of(seed), digest);
}

}  // namespace
}  // namespace mainspring
