// Rule 10: leaves of a fixed number of datums add up like a binary counter, whoever computed them.
#include <gtest/gtest.h>

#include <cstring>

#include "mainspring/engine/engine.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/train/exactness_checks.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

using Gradients = std::map<std::string, std::vector<float>>;

Gradients add(Gradients left, const Gradients& right) {
  for (auto& [name, values] : left) {
    for (size_t i = 0; i < values.size(); ++i) values[i] += right.at(name)[i];
  }
  return left;
}

bool same_bits(const Gradients& a, const Gradients& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, values] : a) {
    const auto& other = b.at(name);
    if (std::memcmp(values.data(), other.data(), values.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

/// The tied model with full weights: its embedding has two uses, which meet when a leaf ends.
class GradientLeavesTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 11; ++i) {
      datums_.push_back(make_random_datum(model_->config.vocabulary, 7 + 3 * i, 40 + i));
    }
  }

  struct Side {
    std::unique_ptr<Engine> engine;
    ModelId id;
  };
  Side side(int64_t leaf, int64_t micro_batch_rows = 1024) {
    Side out;
    out.engine = Engine::create(model_, *executor_,
                                {.gradient_leaf = leaf,
                                 .max_micro_batch_rows = micro_batch_rows,
                                 .max_sequence_tokens = 64})
                     .value();
    out.id = out.engine->add_full().value();
    return out;
  }
  std::span<const Datum> datums(size_t begin, size_t end) const {
    return std::span<const Datum>(datums_).subspan(begin, end - begin);
  }
  void pass(Side& side, size_t begin, size_t end) {
    ASSERT_TRUE(side.engine->forward_backward(side.id, datums(begin, end), "cross_entropy").ok());
  }
  static Gradients gradients(const Side& side) {
    Gradients out;
    const auto tensors = side.engine->gradients(side.id).value();
    for (const auto& [name, tensor] : tensors) {
      const auto* values = static_cast<const float*>(tensor.data);
      out[name].assign(values, values + tensor.size_bytes / 4);
    }
    return out;
  }
  Gradients leaf(size_t begin, size_t end) {
    Side alone = side(0);
    pass(alone, begin, end);
    return gradients(alone);
  }
  /// The weights after a step from the gradients accumulated so far.
  static Gradients stepped(Side& side) {
    EXPECT_TRUE(side.engine->optim_step(side.id, {.lr = 0.01f, .normaliser = 11.0}).ok());
    Gradients out;
    const auto state = side.engine->state(side.id).value();
    for (const auto& [name, tensor] : state.tensors) {
      const auto* values = static_cast<const float*>(tensor.data);
      out[name].assign(values, values + tensor.size_bytes / 4);
    }
    return out;
  }

  std::shared_ptr<const LoadedModel> model_ =
      load_model(test::source_path("tests/golden/tiny/llama_tied")).value();
  std::unique_ptr<Executor> executor_ = test::make_executor();
  std::vector<Datum> datums_;
};

TEST_F(GradientLeavesTest, LeavesAddUpLikeABinaryCounter) {
  Side side = this->side(2);
  pass(side, 0, 11);  // leaves of 2, 2, 2, 2, 2, 1
  const Gradients four = add(add(leaf(0, 2), leaf(2, 4)), add(leaf(4, 6), leaf(6, 8)));
  const Gradients expected = add(four, add(leaf(8, 10), leaf(10, 11)));
  EXPECT_TRUE(same_bits(gradients(side), expected));
  EXPECT_FALSE(same_bits(expected, leaf(0, 11))) << "a tree that changes nothing tests nothing";
}

TEST_F(GradientLeavesTest, CallsAndMicroBatchesChangeNoBitOfTheStep) {
  Side whole = side(3);
  pass(whole, 0, 11);
  const Gradients expected = stepped(whole);
  Side parts = side(3, 32);
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 1}, {1, 7}, {7, 9}, {9, 11}}) {
    pass(parts, begin, end);
  }
  EXPECT_TRUE(same_bits(stepped(parts), expected));
  // The next step begins with empty leaves.
  pass(whole, 0, 4);
  pass(parts, 0, 4);
  EXPECT_TRUE(same_bits(stepped(parts), stepped(whole)));
}

TEST_F(GradientLeavesTest, TheStepUsesTheSumOfTheLeaves) {
  Side leaves = side(2);
  pass(leaves, 0, 4);
  Side one = side(0);
  pass(one, 0, 4);
  EXPECT_FALSE(same_bits(gradients(leaves), gradients(one)));
  EXPECT_FALSE(same_bits(stepped(leaves), stepped(one)));
  Side enough = side(4);
  pass(enough, 0, 4);
  Side again = side(0);
  pass(again, 0, 4);
  EXPECT_TRUE(same_bits(stepped(enough), stepped(again))) << "one leaf is one leaf";
}

TEST_F(GradientLeavesTest, RanksThatOwnAlignedRunsOfLeavesAddUpToOne) {
  Side one = side(2);
  pass(one, 0, 8);
  Side first = side(2);
  pass(first, 0, 4);
  Side second = side(2);
  pass(second, 4, 8);
  EXPECT_TRUE(same_bits(gradients(one), add(gradients(first), gradients(second))));
}

TEST_F(GradientLeavesTest, ForgottenGradientsLeaveNoLeaf) {
  Side side = this->side(2);
  pass(side, 0, 5);
  side.engine->zero_grad(side.id);
  pass(side, 0, 4);
  EXPECT_TRUE(same_bits(gradients(side), add(leaf(0, 2), leaf(2, 4))));
}

}  // namespace
}  // namespace mainspring
