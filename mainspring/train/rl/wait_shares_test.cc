#include "mainspring/train/rl/wait_shares.h"

#include <gtest/gtest.h>

#include <numeric>

namespace mainspring {
namespace {

size_t place(RlActivity activity) { return static_cast<size_t>(activity); }

// Until the clock has moved.
void spend(WaitShares& shares, RlActivity activity) {
  const double before = shares.seconds()[place(activity)];
  while (shares.seconds()[place(activity)] == before) {
  }
}

TEST(WaitShares, AddUpToOneAndGoToTheInnermostScope) {
  WaitShares shares;
  {
    const WaitShares::Scope outer(shares, RlActivity::kLearner);
    spend(shares, RlActivity::kLearner);
    {
      const WaitShares::Scope inner(shares, RlActivity::kRecords);
      spend(shares, RlActivity::kRecords);
    }
    spend(shares, RlActivity::kLearner);
  }
  spend(shares, RlActivity::kIdle);
  const auto parts = shares.shares();
  EXPECT_NEAR(std::accumulate(parts.begin(), parts.end(), 0.0), 1.0, 1e-12);
  for (const RlActivity used : {RlActivity::kLearner, RlActivity::kRecords, RlActivity::kIdle}) {
    EXPECT_GT(parts[place(used)], 0.0);
  }
  EXPECT_EQ(parts[place(RlActivity::kGeneration)], 0.0);
}

TEST(WaitShares, ARenamedScopeGoesToItsNewName) {
  WaitShares shares;
  {
    WaitShares::Scope scope(shares, RlActivity::kEnvironment);
    scope.rename(RlActivity::kReward);
    spend(shares, RlActivity::kReward);
  }
  EXPECT_GT(shares.seconds()[place(RlActivity::kReward)], 0.0);
}

}  // namespace
}  // namespace mainspring
