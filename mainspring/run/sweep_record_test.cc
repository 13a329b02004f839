#include "mainspring/run/sweep_record.h"

#include <gtest/gtest.h>

#include <fstream>

#include "mainspring/io/json.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/run/sweep_page.h"

namespace mainspring {
namespace {

SweepPoint point_of(const std::string& lr, SweepState state, double loss) {
  SweepPoint point;
  point.name = "lr=" + lr;
  point.folder = "points/lr-" + lr;
  point.values = {lr};
  point.state = state;
  point.eval_loss = loss;
  point.steps = 10;
  return point;
}

SweepRecord three_points() {
  SweepRecord sweep;
  sweep.title = "rates";
  sweep.recipe = "r.toml";
  sweep.metric = find_sweep_metric("eval_loss").value();
  sweep.state = "finished";
  sweep.axes = {{.keys = {"optim.lr"},
                 .title = "lr",
                 .labels = {"0.1", "0.2", "0.4"},
                 .numbers = {0.1, 0.2, 0.4}}};
  sweep.points = {point_of("0.1", SweepState::kFailed, 1.0),
                  point_of("0.2", SweepState::kFinished, 3.0),
                  point_of("0.4", SweepState::kFinished, 2.0)};
  sweep.points[0].error = "3 steps in a row, \"bad\"";
  for (size_t i = 0; i < 3; ++i) sweep.points[i].at = {i};
  return sweep;
}

TEST(SweepRecord, FinishedPointsComeBestFirstAndFailedOnesBehindThem) {
  SweepRecord sweep = three_points();
  EXPECT_EQ(ranked(sweep), (std::vector<size_t>{2, 1, 0}));
  sweep.points[2].eval_loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(ranked(sweep), (std::vector<size_t>{1, 2, 0}));
  sweep.points[2].state = SweepState::kWaiting;
  EXPECT_EQ(ranked(sweep), (std::vector<size_t>{1, 0, 2}));
}

TEST(SweepRecord, ARateIsBestWhereItIsHighest) {
  SweepRecord sweep = three_points();
  sweep.metric = find_sweep_metric("tokens_per_s").value();
  sweep.points[1].tokens_per_s = 200;
  sweep.points[2].tokens_per_s = 100;
  EXPECT_EQ(ranked(sweep), (std::vector<size_t>{1, 2, 0}));
}

TEST(SweepRecord, AnUnknownMetricNamesTheNearest) {
  const auto metric = find_sweep_metric("eval_los");
  ASSERT_FALSE(metric.ok());
  EXPECT_NE(metric.status().message().find("nearest is \"eval_loss\""), std::string::npos);
}

TEST(SweepRecord, ThePointIsWhatItsRunFolderTells) {
  const TestDir dir;
  std::ofstream metrics(dir.path() + "/metrics.jsonl");
  for (int step = 1; step <= 20; ++step) {
    metrics << "{\"step\": " << step << ", \"loss\": " << 10 - 0.25 * step
            << ", \"tokens_per_s\": " << 100 * step << ", \"seconds\": {\"data\": 0.5, "
            << "\"forward_backward\": 1.5}, \"applied\": " << (step == 7 ? "false" : "true")
            << "}\n";
  }
  metrics << "{\"step\": 21, \"lo";  // a kill's
  metrics.close();
  std::ofstream(dir.path() + "/evals.jsonl")
      << "{\"step\": 0, \"loss\": 9}\n{\"step\": 10, \"loss\": 5}\n{\"step\": 20, \"loss\": 6}\n";
  SweepPoint point;
  ASSERT_TRUE(read_sweep_point(dir.path(), point).ok());
  EXPECT_EQ(point.steps, 20);
  EXPECT_EQ(point.steps_not_applied, 1);
  EXPECT_EQ(point.eval_loss, 6);
  EXPECT_EQ(point.best_eval_loss, 5);
  EXPECT_EQ(point.train_loss, 10 - 0.25 * 19.5);  // of the last two of twenty
  EXPECT_EQ(point.seconds, 40);
  EXPECT_EQ(point.losses.size(), 20u);
  ASSERT_TRUE(read_sweep_point(dir.path() + "/none", point).ok());
  EXPECT_EQ(point.steps, 0);
}

TEST(SweepRecord, TheTableSaysWhyAPointFailed) {
  const std::string text = sweep_text(three_points());
  EXPECT_LT(text.find("1     lr=0.4"), text.find("2     lr=0.2"));
  EXPECT_NE(text.find("lr=0.1 failed: 3 steps in a row"), std::string::npos);
  const Json json = sweep_json(three_points());
  EXPECT_EQ(json["points"][0]["values"]["optim.lr"], 0.4);
  EXPECT_EQ(json["points"][2]["state"], "failed");
}

TEST(SweepRecord, ACsvCellWithCommasAndQuotesIsOneCell) {
  const std::string csv = sweep_csv(three_points());
  EXPECT_EQ(csv.substr(0, csv.find("\r\n")),
            "point,optim.lr,state,steps,steps_not_applied,eval_loss,best_eval_loss,train_loss,"
            "tokens_per_s,seconds,error");
  EXPECT_NE(csv.find("lr=0.4,0.4,finished,10,0,2.0,,,,0.0,\r\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\"3 steps in a row, \"\"bad\"\"\"\r\n"), std::string::npos) << csv;
}

TEST(SweepPage, NeedsNothingFromElsewhereAndMarkupStaysText) {
  SweepRecord sweep = three_points();
  sweep.title = "<img onerror=x>";
  sweep.points[0].error = "</script><script>alert(1)</script>";
  const std::string page = sweep_page(sweep);
  for (const char* text : {"http://", "https://", "src=", "@import", "url(", "//cdn"}) {
    EXPECT_EQ(page.find(text), std::string::npos) << text;
  }
  EXPECT_EQ(page.find("<img onerror"), std::string::npos);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  const std::string open = "id=\"run-data\">";
  const size_t begin = page.find(open) + open.size();
  const Json json = Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(json["points"][0]["name"], "lr=0.4");
  EXPECT_EQ(json["points"][2]["error"], "</script><script>alert(1)</script>");
}

}  // namespace
}  // namespace mainspring
