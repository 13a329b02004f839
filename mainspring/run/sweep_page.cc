#include "mainspring/run/sweep_page.h"

#include "mainspring/io/json.h"
#include "mainspring/run/page_assets.h"
#include "mainspring/run/page_frame.h"

namespace mainspring {
namespace {

constexpr double kRefreshS = 10.0;

Json axis_json(const SweepAxis& axis) {
  return {{"title", axis.title},
          {"keys", axis.keys},
          {"labels", axis.labels},
          {"numbers", axis.numbers}};
}

Json point_json(const SweepPoint& point) {
  Json evals = Json::array();
  for (const EvalMetrics& eval : point.evals) evals.push_back({eval.step, page_number(eval.loss)});
  return {{"name", point.name},
          {"folder", point.folder},
          {"at", point.at},
          {"state", std::string(sweep_state_name(point.state))},
          {"error", point.error},
          {"steps", point.steps},
          {"steps_not_applied", point.steps_not_applied},
          {"eval_loss", page_number(point.eval_loss)},
          {"best_eval_loss", page_number(point.best_eval_loss)},
          {"train_loss", page_number(point.train_loss)},
          {"tokens_per_s", page_number(point.tokens_per_s)},
          {"seconds", page_number(point.seconds)},
          {"losses", page_curve(point.losses)},
          {"evals", std::move(evals)}};
}

}  // namespace

std::string sweep_page(const SweepRecord& sweep) {
  Json data;
  data["title"] = sweep.title;
  data["recipe"] = sweep.recipe;
  data["metric"] = {{"key", sweep.metric.key},
                    {"title", sweep.metric.title},
                    {"higher_is_better", sweep.metric.higher_is_better}};
  data["state"] = sweep.state;
  data["eta_s"] = sweep.eta_s;
  data["written_ms"] = sweep.now_ns / 1000000;
  data["refresh_s"] = kRefreshS;
  data["axes"] = Json::array();
  for (const SweepAxis& axis : sweep.axes) data["axes"].push_back(axis_json(axis));
  data["points"] = Json::array();
  for (const size_t i : ranked(sweep)) data["points"].push_back(point_json(sweep.points[i]));
  return framed_page(
      {.title = sweep.title + " · sweep · Mainspring",
       .without_script = sweep.title +
                         ": the plots and the table need JavaScript; the numbers are in "
                         "results.json and results.csv.",
       .refresh_s = sweep.state == "running" ? static_cast<int64_t>(kRefreshS) : 0,
       .styles = {kPageCss, kSweepCss},
       .body = kSweepBody,
       .scripts = {kSharedJs, kSweepJs}},
      data);
}

}  // namespace mainspring
