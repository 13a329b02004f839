#include "mainspring/sample/kv_pool.h"

#include <gtest/gtest.h>

#include <numeric>

#include "mainspring/sample/fake_executor.h"

namespace mainspring {
namespace {

std::vector<int32_t> page_tokens(int32_t first) {
  std::vector<int32_t> tokens(kPageTokens);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class KvPoolTest : public ::testing::Test {
 protected:
  std::unique_ptr<KvPool> make_pool(int32_t num_pages) {
    auto pool = KvPool::create(
        executor_, {.dtype = DType::kF32, .layers = 2, .row_elements = 4, .num_pages = num_pages});
    return std::move(pool).value();
  }
  fake::FakeExecutor executor_;
};

TEST_F(KvPoolTest, GivesEachPageOnceAndThenRefuses) {
  const auto pool = make_pool(3);
  EXPECT_EQ(pool->num_free(), 3);
  std::vector<int32_t> pages = {pool->allocate(), pool->allocate(), pool->allocate()};
  std::sort(pages.begin(), pages.end());
  EXPECT_EQ(pages, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(pool->allocate(), -1);
  pool->release(1);
  EXPECT_EQ(pool->allocate(), 1);
}

TEST_F(KvPoolTest, RefusesACacheWithoutPages) {
  const auto pool = KvPool::create(executor_, {.layers = 1, .row_elements = 1, .num_pages = 0});
  EXPECT_EQ(pool.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(KvPoolTest, APublishedPageIsFoundByItsTokensUnderTheSameParentOnly) {
  const auto pool = make_pool(4);
  const KvPool::Prefix root = KvPool::root(5);
  const auto first = pool->publish(root, page_tokens(0), pool->allocate());
  const auto second = pool->publish(first.prefix, page_tokens(64), pool->allocate());

  const auto found = pool->find(root, page_tokens(0));
  EXPECT_EQ(found.page, first.page);
  EXPECT_EQ(found.prefix, first.prefix);
  EXPECT_EQ(pool->find(found.prefix, page_tokens(64)).page, second.page);

  EXPECT_EQ(pool->find(root, page_tokens(64)).page, -1);            // right tokens, wrong place
  EXPECT_EQ(pool->find(root, page_tokens(1)).page, -1);             // wrong tokens
  EXPECT_EQ(pool->find(KvPool::root(6), page_tokens(0)).page, -1);  // other weights
}

TEST_F(KvPoolTest, AnIdlePageCountsAsFreeStaysFindableAndIsForgottenWhenNeeded) {
  const auto pool = make_pool(2);
  const KvPool::Prefix root = KvPool::root(1);
  const auto kept = pool->publish(root, page_tokens(0), pool->allocate());
  pool->release(kept.page);
  EXPECT_EQ(pool->num_free(), 2);

  const auto found = pool->find(root, page_tokens(0));  // held again: 1 free
  EXPECT_EQ(found.page, kept.page);
  EXPECT_EQ(pool->num_free(), 1);
  pool->release(found.page);

  EXPECT_NE(pool->allocate(), kept.page);  // an empty page is used first
  EXPECT_EQ(pool->allocate(), kept.page);
  EXPECT_EQ(pool->find(root, page_tokens(0)).page, -1);
}

TEST_F(KvPoolTest, TheLeastRecentlyReleasedPageIsForgottenFirst) {
  const auto pool = make_pool(2);
  const KvPool::Prefix root = KvPool::root(1);
  const auto a = pool->publish(root, page_tokens(0), pool->allocate());
  const auto b = pool->publish(root, page_tokens(7), pool->allocate());
  pool->release(b.page);
  pool->release(a.page);
  EXPECT_EQ(pool->allocate(), b.page);
  EXPECT_EQ(pool->find(root, page_tokens(7)).page, -1);
  EXPECT_EQ(pool->find(root, page_tokens(0)).page, a.page);
}

TEST_F(KvPoolTest, PublishingAnEqualPageGivesTheKnownOneAndFreesTheOther) {
  const auto pool = make_pool(3);
  const KvPool::Prefix root = KvPool::root(1);
  const auto known = pool->publish(root, page_tokens(0), pool->allocate());
  const auto same = pool->publish(root, page_tokens(0), pool->allocate());
  EXPECT_EQ(same.page, known.page);
  EXPECT_EQ(same.prefix, known.prefix);
  EXPECT_EQ(pool->num_free(), 2);
  pool->release(known.page);
  EXPECT_EQ(pool->num_free(), 2);  // still held by the second publisher
  pool->release(same.page);
  EXPECT_EQ(pool->num_free(), 3);
}

TEST_F(KvPoolTest, AfterForgetAllNothingIsFoundAndHeldPagesStayHeld) {
  const auto pool = make_pool(2);
  const KvPool::Prefix root = KvPool::root(1);
  const auto held = pool->publish(root, page_tokens(0), pool->allocate());
  const auto idle = pool->publish(held.prefix, page_tokens(0), pool->allocate());
  pool->release(idle.page);
  pool->forget_all();
  EXPECT_EQ(pool->find(root, page_tokens(0)).page, -1);
  EXPECT_EQ(pool->num_free(), 1);
  pool->release(held.page);
  EXPECT_EQ(pool->num_free(), 2);
}

TEST_F(KvPoolTest, CopiesAPageInEveryLayer) {
  const auto pool = make_pool(2);
  const KvView view = pool->view();
  ASSERT_EQ(view.keys.size(), 2u);
  for (void* base : {view.keys[0], view.keys[1], view.values[0], view.values[1]}) {
    auto* rows = static_cast<float*>(base);
    std::iota(rows, rows + kPageTokens * 4, 1.0f);
  }
  pool->copy_page(0, 1);
  for (void* base : {view.keys[0], view.keys[1], view.values[0], view.values[1]}) {
    const auto* copy = static_cast<const float*>(base) + kPageTokens * 4;
    EXPECT_EQ(copy[0], 1.0f);
    EXPECT_EQ(copy[kPageTokens * 4 - 1], static_cast<float>(kPageTokens * 4));
  }
}

}  // namespace
}  // namespace mainspring
