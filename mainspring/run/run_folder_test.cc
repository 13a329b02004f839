#include "mainspring/run/run_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "mainspring/io/json.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/run-" + std::to_string(::getpid()) + "-" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  Result<std::unique_ptr<RunFolder>> open(bool resume = false) {
    RunFolderOptions options;
    options.dir = dir_;
    options.resume = resume;
    options.now_ns = [this] { return now_ns_; };
    return RunFolder::open(options);
  }
  std::string all(const std::string& name) {
    std::ifstream in(dir_ + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<Json> lines(const std::string& name) {
    std::ifstream in(dir_ + "/" + name);
    std::vector<Json> out;
    for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
    return out;
  }
  static StepMetrics step(int64_t number) {
    StepMetrics metrics;
    metrics.step = number;
    metrics.loss_sum = 40.0 / static_cast<double>(number);
    metrics.token_count = 10;
    metrics.loss = metrics.loss_sum / 10;
    metrics.lr = 1e-4;
    metrics.grad_norm = 0.5;
    metrics.tokens_per_s = 100;
    metrics.mfu_formula = "6 N tokens / s / peak";
    metrics.seconds = {{"data", 0.25}, {"forward_backward", 0.5}};
    return metrics;
  }

  std::string dir_;
  int64_t now_ns_ = 1'700'000'000'000'000'000;
};

TEST_F(RunFolderTest, ARunThatIsThereIsRefusedWithoutResumeAndSaysHowToGoOn) {
  {
    auto run = open();
    ASSERT_TRUE(run.ok()) << run.status().to_string();
    ASSERT_TRUE((*run)->write_info({}).ok());
  }
  const auto again = open();
  EXPECT_EQ(again.status().code(), StatusCode::kAlreadyExists);
  EXPECT_NE(again.status().message().find("--resume"), std::string::npos);
  EXPECT_TRUE(open(/*resume=*/true).ok());
}

TEST_F(RunFolderTest, AnEmptyFolderIsTakenAndAFileIsRefused) {
  fs::create_directories(dir_);
  EXPECT_TRUE(open().ok());
  fs::remove_all(dir_);
  std::ofstream(dir_) << "x";
  EXPECT_EQ(open().status().code(), StatusCode::kInvalidArgument);
}

TEST_F(RunFolderTest, ResumingARunThatIsNotThereNamesTheNearestBesideIt) {
  const std::string parent = dir_;
  fs::create_directories(parent + "/no-run");
  dir_ = parent + "/sft-1";
  ASSERT_TRUE(open().ok());
  for (const std::string wrong : {"/stf-1", "/stf-1/", "/no-rum"}) {
    dir_ = parent + wrong;
    const auto run = open(/*resume=*/true);
    EXPECT_EQ(run.status().code(), StatusCode::kNotFound);
    EXPECT_NE(run.status().message().find("the nearest beside it is " + parent + "/sft-1"),
              std::string::npos)
        << run.status().to_string();
    EXPECT_FALSE(fs::exists(dir_));
  }
  fs::remove_all(parent + "/sft-1");
  EXPECT_NE(open(/*resume=*/true).status().message().find("without --resume"), std::string::npos);
  dir_ = parent + "/no-run";  // a folder without a checkpoint, or anything: from step 0
  EXPECT_TRUE(open(/*resume=*/true).ok());
  dir_ = parent;
}

TEST_F(RunFolderTest, ACheckRefusesWhatOpenWouldAndLeavesNothing) {
  EXPECT_TRUE(check_run_folder(dir_ + "/a/b", false).ok());
  EXPECT_FALSE(fs::exists(dir_));
  EXPECT_EQ(check_run_folder(dir_, true).code(), StatusCode::kNotFound);
  fs::create_directories(dir_);
  std::ofstream(dir_ + "/sweep.json") << "{}";
  EXPECT_EQ(check_run_folder(dir_, false).code(), StatusCode::kFailedPrecondition);
  fs::remove_all(dir_);
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(check_run_folder(dir_, false).code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(check_run_folder(dir_, true).ok());
  std::ofstream(dir_ + "/file") << "x";
  EXPECT_FALSE(check_run_folder(dir_ + "/file/run", false).ok());
  EXPECT_FALSE(check_run_folder("/proc/run", false).ok());
}

TEST_F(RunFolderTest, TheRecipeOfARunReadsBack) {
  EXPECT_TRUE(read_run_recipe(dir_).value().empty());
  {
    const auto run = open().value();
    RunInfo info;
    info.recipe = {{"train.steps", "20", "default"}, {"data.files", "[\"a\"]", "--set"}};
    ASSERT_TRUE(run->write_info(info).ok());
  }
  const auto recipe = read_run_recipe(dir_).value();
  ASSERT_EQ(recipe.size(), 2u);
  EXPECT_EQ(recipe[0].key, "train.steps");
  EXPECT_EQ(recipe[0].json, "20");
  EXPECT_EQ(recipe[1].json, "[\"a\"]");
  EXPECT_EQ(recipe[1].origin, "--set");
  std::ofstream(dir_ + "/run.json") << "{\"recipe\": 3}";
  EXPECT_EQ(read_run_recipe(dir_).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(RunFolderTest, ASecondWriterIsRefusedWhileTheFirstLives) {
  auto run = open();
  ASSERT_TRUE(run.ok());
  const auto second = open(/*resume=*/true);
  EXPECT_EQ(second.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(second.status().message().find(std::to_string(::getpid())), std::string::npos);
  run->reset();
  EXPECT_TRUE(open(/*resume=*/true).ok());
}

TEST_F(RunFolderTest, AStepLineHasEveryField) {
  auto run = open();
  ASSERT_TRUE((*run)->append_metrics(step(1)).ok());
  const Json line = lines("metrics.jsonl").at(0);
  for (const char* key :
       {"step", "loss", "loss_sum", "token_count", "lr", "grad_norm", "tokens_per_s", "mfu",
        "mfu_peak_flops", "mfu_formula", "seconds", "peak_bytes"}) {
    EXPECT_TRUE(line.contains(key)) << key;
  }
  EXPECT_EQ(line["loss"].get<double>(), 4.0);
  EXPECT_EQ(line["seconds"]["forward_backward"].get<double>(), 0.5);
}

TEST_F(RunFolderTest, NumbersThatAreNotFiniteAreNull) {
  auto run = open();
  StepMetrics metrics = step(1);
  metrics.loss = NAN;
  metrics.grad_norm = INFINITY;
  metrics.applied = false;
  ASSERT_TRUE((*run)->append_metrics(metrics).ok());
  EXPECT_TRUE(lines("metrics.jsonl")[0]["loss"].is_null());
  EXPECT_TRUE(lines("metrics.jsonl")[0]["grad_norm"].is_null());
}

TEST_F(RunFolderTest, AfterAResumeEachStepIsThereOnce) {
  {
    auto run = open();
    for (int i = 1; i <= 5; ++i) ASSERT_TRUE((*run)->append_metrics(step(i)).ok());
    ASSERT_TRUE((*run)->append_eval({2, 1.0, 10.0, 10.0}).ok());
    ASSERT_TRUE((*run)->append_eval({4, 0.5, 5.0, 10.0}).ok());
    ASSERT_TRUE((*run)->append_sample({2, "train", "a", {{"x", true, {}}}}).ok());
    ASSERT_TRUE((*run)->append_sample({4, "train", "b", {{"x", true, {}}}}).ok());
  }
  std::ofstream(dir_ + "/metrics.jsonl", std::ios::app) << "{\"step\":6,\"lo";  // the kill
  auto run = open(/*resume=*/true);
  ASSERT_TRUE(run.ok()) << run.status().to_string();
  ASSERT_TRUE((*run)->truncate_after_step(3).ok());
  for (int i = 4; i <= 6; ++i) ASSERT_TRUE((*run)->append_metrics(step(i)).ok());
  const auto metrics = lines("metrics.jsonl");
  ASSERT_EQ(metrics.size(), 6u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(metrics[i]["step"].get<int>(), i + 1);
  EXPECT_EQ(lines("evals.jsonl").size(), 1u);
  EXPECT_TRUE(fs::exists(dir_ + "/samples/step-000002.jsonl"));
  EXPECT_FALSE(fs::exists(dir_ + "/samples/step-000004.jsonl"));
}

TEST_F(RunFolderTest, ResumingFromStepZeroStartsTheMetricsAfresh) {
  {
    auto run = open();
    for (int i = 1; i <= 3; ++i) ASSERT_TRUE((*run)->append_metrics(step(i)).ok());
  }
  auto run = open(/*resume=*/true);
  ASSERT_TRUE((*run)->truncate_after_step(0).ok());
  ASSERT_TRUE((*run)->append_metrics(step(1)).ok());
  EXPECT_EQ(lines("metrics.jsonl").size(), 1u);
}

TEST_F(RunFolderTest, RunJsonKeepsOriginsAndTheFormerOneOnResume) {
  RunInfo info;
  info.title = "sft_lora";
  info.recipe = {{"train.steps", "100", "--set"}, {"data.files", "[\"a.jsonl\"]", "recipe.toml:3"}};
  info.seeds = {{"run", 18446744073709551615u}};
  {
    auto run = open();
    ASSERT_TRUE((*run)->write_info(info).ok());
  }
  Json json = Json::parse(all("run.json"));
  EXPECT_EQ(json["recipe"]["train.steps"]["value"].get<int>(), 100);
  EXPECT_EQ(json["recipe"]["train.steps"]["origin"], "--set");
  EXPECT_EQ(json["recipe"]["data.files"]["value"][0], "a.jsonl");
  EXPECT_EQ(json["seeds"]["run"].get<uint64_t>(), 18446744073709551615u);
  EXPECT_EQ(json["started"], "2023-11-14T22:13:20Z");

  auto run = open(/*resume=*/true);
  now_ns_ += 3'600'000'000'000;
  info.recipe[0].json = "200";
  ASSERT_TRUE((*run)->write_info(info).ok());
  json = Json::parse(all("run.json"));
  EXPECT_EQ(json["recipe"]["train.steps"]["value"].get<int>(), 200);
  EXPECT_EQ(json["started"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(json["resumed"], "2023-11-14T23:13:20Z");
  EXPECT_EQ(Json::parse(all("run.1.json"))["recipe"]["train.steps"]["value"].get<int>(), 100);
}

TEST_F(RunFolderTest, ThePageIsRewrittenOnlyWhenItsIntervalHasPassed) {
  auto run = open();
  ASSERT_TRUE((*run)->append_metrics(step(1)).ok());
  const std::string first = all("report.html");
  EXPECT_NE(first.find("run-data"), std::string::npos);
  now_ns_ += 9'000'000'000;
  ASSERT_TRUE((*run)->append_metrics(step(2)).ok());
  EXPECT_EQ(all("report.html"), first);
  now_ns_ += 2'000'000'000;
  ASSERT_TRUE((*run)->append_metrics(step(3)).ok());
  EXPECT_NE(all("report.html"), first);
}

TEST_F(RunFolderTest, AResumedRunsPageShowsTheStepsFromBefore) {
  {
    auto run = open();
    for (int i = 1; i <= 3; ++i) ASSERT_TRUE((*run)->append_metrics(step(i)).ok());
    ASSERT_TRUE((*run)->append_event({"start", 0, "hello-event", {}}).ok());
  }
  auto run = open(/*resume=*/true);
  ASSERT_TRUE((*run)->truncate_after_step(2).ok());
  ASSERT_TRUE((*run)->append_metrics(step(3)).ok());
  ASSERT_TRUE((*run)->write_report("finished").ok());
  const std::string page = all("report.html");
  EXPECT_NE(page.find("\"steps\":[1,2,3]"), std::string::npos);
  EXPECT_NE(page.find("hello-event"), std::string::npos);
}

TEST(FolderName, ATitleBecomesTheNameOfOneVisibleFolder) {
  EXPECT_EQ(folder_name("sft_lora-2.1"), "sft_lora-2.1");
  EXPECT_EQ(folder_name("../esc"), "esc");
  EXPECT_EQ(folder_name("a/b c"), "a-b-c");
  EXPECT_EQ(folder_name("/etc/x"), "etc-x");
  EXPECT_EQ(folder_name("stra\xC3\x9F"
                        "e"),
            "stra-e");
  EXPECT_EQ(folder_name(".hidden"), "hidden");
  EXPECT_EQ(folder_name(".."), "run");
  EXPECT_EQ(folder_name(""), "run");
  EXPECT_EQ(folder_name(std::string(300, 'x')).size(), 100u);
}

}  // namespace
}  // namespace mainspring
