// Small checkpoint contents for the tests of ckpt/.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/ckpt/checkpoint.h"

namespace mainspring {

/// A tensor of `count` floats that are all `value`.
inline StoredTensor filled(const std::string& name, int64_t count, float value) {
  auto values = std::make_shared<std::vector<float>>(count, value);
  StoredTensor tensor;
  tensor.name = name;
  tensor.shape = {count};
  tensor.data = values->data();
  tensor.size_bytes = count * 4;
  tensor.owner = values;
  return tensor;
}

/// Two files whose numbers all name the step.
inline CheckpointContent content_of(int64_t step, int64_t count = 100) {
  CheckpointContent content;
  content.state.step = step;
  content.state.seed = 7;
  content.state.data = {static_cast<uint64_t>(4 * step), {3 * step, step}, 0xfedcba9876543210u};
  content.state.extra = {{"skipped", "0"}};
  const auto value = static_cast<float>(step);
  CheckpointFile model{"model.safetensors", "model", {}, {}};
  model.tensors["layer.weight"] = filled("layer.weight", count, value);
  model.tensors["norm.weight"] = filled("norm.weight", 3, value);
  CheckpointFile optimizer{"optimizer.safetensors", "optimizer", {}, {}};
  optimizer.tensors["adam_m/layer.weight"] = filled("adam_m/layer.weight", count, value);
  content.files = {model, optimizer};
  content.texts = {{"config.json", "{}\n"}};
  return content;
}

/// Whether every number in the checkpoint is its step.
inline bool is_consistent(const Checkpoint& checkpoint) {
  if (checkpoint.files.size() != 2) return false;
  for (const CheckpointFile& file : checkpoint.files) {
    for (const auto& [name, tensor] : file.tensors) {
      const auto* values = static_cast<const float*>(tensor.data);
      for (int64_t i = 0; i < tensor.num_elements(); ++i) {
        if (values[i] != static_cast<float>(checkpoint.state.step)) return false;
      }
    }
  }
  return checkpoint.state.data.next_sample == static_cast<uint64_t>(4 * checkpoint.state.step);
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/ckpt-" + std::to_string(::getpid()) + "-" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  /// Names in the folder, hidden ones included.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      out.push_back(entry.path().filename().string());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  std::string dir_;
};

}  // namespace mainspring
