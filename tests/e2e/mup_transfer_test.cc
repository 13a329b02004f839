// muP's promise: the learning rate that is best for a narrow model is best for a wide one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>

#include "mainspring/io/test_dir.h"
#include "mainspring/train/trainer.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

constexpr int64_t kWidths[] = {32, 512};
// Base-2 logarithms of the rates.
constexpr int kFirstRate = -10;
constexpr int kLastRate = -4;

class MupTransfer : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream rows(dir_ + "/rows.jsonl");
    for (int i = 0; i < 256; ++i) {
      const int a = i * 37 % 101;
      const int b = i * 53 % 97;
      rows << "{\"text\": \"" << a << " plus " << b << " is " << a + b << ", less " << b << " is "
           << a << ".\"}\n";
    }
    std::ofstream(dir_ + "/recipe.toml")
        << "seed = 5\n[model]\nfamily = \"llama\"\nlayers = 2\nhidden = 32\nheads = 4\nhead_dim = "
           "8\ncontext = 64\ninit_std = 0.1\n[data]\nfiles = [\""
        << dir_ << "/rows.jsonl\"]\nmax_tokens = 64\nheld_out = 0.2\n[tune]\nmode = \"full\"\n"
        << "[train]\nsteps = 60\nbatch_size = 8\n[optim]\nschedule = \"linear\"\nwarmup_steps = "
           "5\nbeta2 = 0.95\n";
  }

  /// Held-out loss at the end.
  double loss_of(int64_t width, int rate, bool mup) {
    const std::string name = std::to_string(width) + "_" + std::to_string(rate) + (mup ? "m" : "s");
    const auto recipe = load_recipe(
        dir_ + "/recipe.toml",
        {"model.hidden=" + std::to_string(width), "model.heads=" + std::to_string(width / 8),
         "optim.lr=" + std::to_string(std::ldexp(1.0, rate)),
         "model.mup_base_hidden=" + std::string(mup ? "32" : "0")});
    const auto executor = test::make_executor();
    return run_training(*recipe, *executor,
                        {.run_dir = dir_ + "/" + name,
                         .resume = false,
                         .dry_run = false,
                         .should_stop = {},
                         .before_step = {},
                         .facts = {},
                         .say = {}})
        .value()
        .last_eval_loss;
  }

  /// The exponents of the best rates, by width.
  std::vector<int> best_rates(bool mup) {
    std::vector<int> best;
    for (const int64_t width : kWidths) {
      std::map<double, int> by_loss;
      std::printf("%s %4lld:", mup ? "muP     " : "standard", static_cast<long long>(width));
      for (int rate = kFirstRate; rate <= kLastRate; ++rate) {
        const double loss = loss_of(width, rate, mup);
        std::printf("  2^%d %.3f", rate, loss);
        by_loss[loss] = rate;
      }
      std::printf("\n");
      best.push_back(by_loss.begin()->second);
    }
    return best;
  }

  const TestDir folder_;
  const std::string dir_ = folder_.path();
};

TEST_F(MupTransfer, TheBestRateIsTheSameAtEveryWidthAndFallsWithout) {
  const std::vector<int> mup = best_rates(true);
  const std::vector<int> standard = best_rates(false);
  // The grid's own steps are factors of two: one step is within its resolution.
  EXPECT_LE(std::abs(mup[1] - mup[0]), 1);
  EXPECT_LE(standard[1], standard[0] - 2);
}

}  // namespace
}  // namespace mainspring
