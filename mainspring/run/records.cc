#include "mainspring/run/records.h"

#include <cmath>
#include <ctime>
#include <limits>

#include "mainspring/io/json.h"

namespace mainspring {
namespace {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

/// A whole number without a fraction part in the text, as people write counts.
Json count(double value) {
  const bool whole = std::isfinite(value) && value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? Json(static_cast<int64_t>(value)) : number(value);
}

Result<double> number_or_nan(const JsonObject& object, std::string_view key) {
  return object.get_number_or(key, std::numeric_limits<double>::quiet_NaN());
}

// The further numbers that are curves.
Result<std::map<std::string, double>> curves_of(const JsonObject& object) {
  std::map<std::string, double> more;
  for (const std::string& key : object.keys()) {
    if (key.find('/') == std::string::npos) continue;
    MS_ASSIGN_OR_RETURN(more[key], number_or_nan(object, key));
  }
  return more;
}

}  // namespace

Json to_json(const StepMetrics& metrics) {
  Json json;
  json["step"] = metrics.step;
  json["loss"] = number(metrics.loss);
  json["loss_sum"] = number(metrics.loss_sum);
  json["token_count"] = count(metrics.token_count);
  json["lr"] = number(metrics.lr);
  json["grad_norm"] = number(metrics.grad_norm);
  json["tokens_per_s"] = number(metrics.tokens_per_s);
  json["mfu"] = number(metrics.mfu);
  json["mfu_peak_flops"] = number(metrics.mfu_peak_flops);
  json["mfu_formula"] = metrics.mfu_formula;
  json["seconds"] = Json::object();
  for (const auto& [name, seconds] : metrics.seconds) json["seconds"][name] = number(seconds);
  json["peak_bytes"] = metrics.peak_bytes;
  json["applied"] = metrics.applied;
  if (!metrics.not_applied.empty()) json["not_applied"] = metrics.not_applied;
  for (const auto& [name, value] : metrics.more) {
    if (!json.contains(name)) json[name] = number(value);
  }
  return json;
}

Json to_json(const EvalMetrics& metrics) {
  Json json;
  json["step"] = metrics.step;
  json["loss"] = number(metrics.loss);
  json["loss_sum"] = number(metrics.loss_sum);
  json["token_count"] = count(metrics.token_count);
  for (const auto& [name, value] : metrics.more) {
    if (!json.contains(name)) json[name] = number(value);
  }
  return json;
}

Json to_json(const RunEvent& event, int64_t time_ns) {
  Json json;
  json["time"] = format_time(time_ns);
  json["step"] = event.step;
  json["kind"] = event.kind;
  json["message"] = event.message;
  for (const auto& [name, value] : event.fields) {
    if (!json.contains(name)) json[name] = value;
  }
  return json;
}

Json to_json(const RunSample& sample) {
  Json json;
  json["step"] = sample.step;
  json["kind"] = sample.kind;
  json["title"] = sample.title;
  json["pieces"] = Json::array();
  for (const SamplePiece& piece : sample.pieces) {
    Json entry = Json::array({piece.text, piece.learned ? 1 : 0});
    if (piece.logprob) entry.push_back(number(*piece.logprob));
    json["pieces"].push_back(std::move(entry));
  }
  if (sample.advantage) json["advantage"] = number(*sample.advantage);
  if (!sample.note.empty()) json["note"] = sample.note;
  return json;
}

Json to_json(const RunInfo& info, int64_t time_ns) {
  Json json;
  json["title"] = info.title;
  json["started"] = format_time(time_ns);
  json["total_steps"] = info.total_steps;
  json["facts"] = info.facts;
  json["seeds"] = info.seeds;
  json["versions"] = info.versions;
  json["recipe"] = Json::object();
  for (const RecipeValue& value : info.recipe) {
    Json parsed = Json::parse(value.json, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_discarded()) parsed = value.json;  // not JSON: shown as text
    json["recipe"][value.key] = {{"value", std::move(parsed)}, {"origin", value.origin}};
  }
  return json;
}

Result<StepMetrics> step_metrics_from(const Json& json, std::string_view source) {
  MS_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::from(json, source));
  StepMetrics metrics;
  MS_ASSIGN_OR_RETURN(metrics.step, object.get_int("step"));
  MS_ASSIGN_OR_RETURN(metrics.loss, number_or_nan(object, "loss"));
  MS_ASSIGN_OR_RETURN(metrics.loss_sum, number_or_nan(object, "loss_sum"));
  MS_ASSIGN_OR_RETURN(metrics.token_count, number_or_nan(object, "token_count"));
  MS_ASSIGN_OR_RETURN(metrics.lr, number_or_nan(object, "lr"));
  MS_ASSIGN_OR_RETURN(metrics.grad_norm, number_or_nan(object, "grad_norm"));
  MS_ASSIGN_OR_RETURN(metrics.tokens_per_s, number_or_nan(object, "tokens_per_s"));
  MS_ASSIGN_OR_RETURN(metrics.mfu, number_or_nan(object, "mfu"));
  MS_ASSIGN_OR_RETURN(metrics.mfu_peak_flops, number_or_nan(object, "mfu_peak_flops"));
  MS_ASSIGN_OR_RETURN(metrics.mfu_formula, object.get_string_or("mfu_formula", ""));
  MS_ASSIGN_OR_RETURN(metrics.peak_bytes, object.get_int_or("peak_bytes", 0));
  MS_ASSIGN_OR_RETURN(metrics.applied, object.get_bool_or("applied", true));
  MS_ASSIGN_OR_RETURN(metrics.not_applied, object.get_string_or("not_applied", ""));
  if (object.has("seconds")) {
    MS_ASSIGN_OR_RETURN(const JsonObject seconds, object.get_object("seconds"));
    for (const std::string& key : seconds.keys()) {
      MS_ASSIGN_OR_RETURN(metrics.seconds[key], number_or_nan(seconds, key));
    }
  }
  MS_ASSIGN_OR_RETURN(metrics.more, curves_of(object));
  return metrics;
}

Result<EvalMetrics> eval_metrics_from(const Json& json, std::string_view source) {
  MS_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::from(json, source));
  EvalMetrics metrics;
  MS_ASSIGN_OR_RETURN(metrics.step, object.get_int("step"));
  MS_ASSIGN_OR_RETURN(metrics.loss, number_or_nan(object, "loss"));
  MS_ASSIGN_OR_RETURN(metrics.loss_sum, number_or_nan(object, "loss_sum"));
  MS_ASSIGN_OR_RETURN(metrics.token_count, number_or_nan(object, "token_count"));
  MS_ASSIGN_OR_RETURN(metrics.more, curves_of(object));
  return metrics;
}

Result<std::vector<RecipeValue>> recipe_from(const Json& run_info, std::string_view source) {
  MS_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::from(run_info, source));
  MS_ASSIGN_OR_RETURN(const JsonObject recipe, object.get_object("recipe"));
  std::vector<RecipeValue> values;
  for (const std::string& key : recipe.keys()) {
    MS_ASSIGN_OR_RETURN(const JsonObject entry, recipe.get_object(key));
    MS_ASSIGN_OR_RETURN(const std::string origin, entry.get_string_or("origin", ""));
    const Json* value = entry.find("value");
    if (value == nullptr) return entry.error("value", "is missing");
    values.push_back({key, json_text(*value), origin});
  }
  return values;
}

std::string format_time(int64_t time_ns) {
  const std::time_t seconds = static_cast<std::time_t>(time_ns / 1000000000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace mainspring
