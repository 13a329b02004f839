// `mainspring eval` on SmolLM2 against transformers' log-likelihoods, choices and generations.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "mainspring/cli/cmd_eval.h"
#include "mainspring/io/test_dir.h"
#include "tests/support/golden_files.h"
#include "tests/support/smollm2.h"

namespace mainspring {
namespace {

TEST(SmolLM2Eval, OutcomesEqualTransformers) {
  const Json golden = test::read_json("tests/golden/smollm2/eval_golden.json");
  const TestDir dir;
  cli::EvalFlags flags;
  flags.model.model = test::smollm2_path();
  flags.model.dtype = "f32";
  flags.tasks = test::source_path("tests/golden/smollm2/eval_tasks.jsonl");
  flags.out = dir.file("outcomes.jsonl");
  ASSERT_EQ(cli::run_eval(flags), 0);
  std::ifstream in(flags.out);
  std::string line;
  // The sum of n log-probabilities, each within 2e-5 of transformers' relative to logits of
  // magnitude 20.
  const auto near = [](double got, double expected) {
    EXPECT_NEAR(got, expected, 1e-3 + 1e-5 * std::abs(expected));
  };
  for (const Json& expected : golden["rows"]) {
    ASSERT_TRUE(std::getline(in, line));
    SCOPED_TRACE(line);
    const Json got = parse_json(line, "outcome").value();
    if (expected.contains("loglikelihood")) {
      near(got["loglikelihood"].get<double>(), expected["loglikelihood"].get<double>());
      EXPECT_EQ(got["tokens"], expected["tokens"]);
      EXPECT_EQ(got["bytes"], expected["bytes"]);
    } else if (expected.contains("loglikelihoods")) {
      ASSERT_EQ(got["loglikelihoods"].size(), expected["loglikelihoods"].size());
      for (size_t i = 0; i < expected["loglikelihoods"].size(); ++i) {
        near(got["loglikelihoods"][i].get<double>(), expected["loglikelihoods"][i].get<double>());
      }
      EXPECT_EQ(got["choice"], expected["choice"]);
      EXPECT_EQ(got["choice_norm"], expected["choice_norm"]);
    } else {
      EXPECT_EQ(got["text"], expected["text"]);
      EXPECT_EQ(got["exact_match"], expected["exact_match"]);
    }
  }
  EXPECT_FALSE(std::getline(in, line));
}

}  // namespace
}  // namespace mainspring
