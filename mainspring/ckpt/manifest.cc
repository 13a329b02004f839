#include "mainspring/ckpt/manifest.h"

#include <charconv>
#include <cstdio>

#include "mainspring/data/mixture.h"
#include "mainspring/io/checksum.h"
#include "mainspring/io/json.h"

namespace mainspring {
namespace {

constexpr std::string_view kSelf = "manifest_xxh3";

std::string hex64(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

/// Adds the checksum of the text so far as the last field.
std::string seal(Json json) {
  const std::string text = json_text(json);
  json[std::string(kSelf)] = checksum128(text.data(), text.size()).hex();
  return json_text(json, 1) + "\n";
}

/// Parses a sealed text and compares its checksum.
Result<Json> unseal(std::string_view text, const std::string& source) {
  Result<Json> parsed = parse_json(text, source);
  if (!parsed.ok()) return data_loss(parsed.status().message());
  Json& json = *parsed;
  if (!json.is_object() || !json.contains(kSelf) || !json[std::string(kSelf)].is_string()) {
    return data_loss(source + ": has no checksum of its own; it is not whole");
  }
  const std::string expected = json[std::string(kSelf)].get<std::string>();
  json.erase(std::string(kSelf));
  const std::string rest = json_text(json);
  const std::string got = checksum128(rest.data(), rest.size()).hex();
  if (got != expected) {
    return data_loss(source + ": checksum differs: expected " + expected + ", got " + got);
  }
  return parsed;
}

Result<uint64_t> get_u64(const JsonObject& object, std::string_view key) {
  const Json* value = object.find(key);
  if (value == nullptr || !value->is_number_integer())
    return object.error(key, "expected an integer");
  if (!value->is_number_unsigned() && value->get<int64_t>() < 0) {
    return object.error(key, "expected an integer >= 0");
  }
  return value->get<uint64_t>();
}

Result<std::optional<double>> get_optional(const JsonObject& object, std::string_view key) {
  if (!object.has(key)) return std::optional<double>();
  MS_ASSIGN_OR_RETURN(const double value, object.get_number(key));
  return std::optional<double>(value);
}

Status as_data_loss(const Status& status) { return data_loss(status.message()); }

Result<Manifest> read_manifest(const JsonObject& object) {
  Manifest manifest;
  MS_ASSIGN_OR_RETURN(manifest.format_version, object.get_int("format_version"));
  MS_ASSIGN_OR_RETURN(manifest.step, object.get_int("step"));
  MS_ASSIGN_OR_RETURN(manifest.digest, object.get_string("digest"));
  MS_ASSIGN_OR_RETURN(manifest.eval_loss, get_optional(object, "eval_loss"));
  for (const char* list : {"files", "tensors"}) {
    const Json* entries = object.find(list);
    if (entries == nullptr || !entries->is_array()) return object.error(list, "expected a list");
    for (const Json& entry : *entries) {
      MS_ASSIGN_OR_RETURN(const JsonObject fields, JsonObject::from(entry, object.where(list)));
      if (list == std::string_view("files")) {
        Manifest::File file;
        MS_ASSIGN_OR_RETURN(file.name, fields.get_string("name"));
        MS_ASSIGN_OR_RETURN(file.size_bytes, fields.get_int("size_bytes"));
        MS_ASSIGN_OR_RETURN(file.xxh3, fields.get_string("xxh3"));
        manifest.files.push_back(std::move(file));
      } else {
        CheckpointTensor tensor;
        MS_ASSIGN_OR_RETURN(tensor.key, fields.get_string("key"));
        MS_ASSIGN_OR_RETURN(tensor.file_name, fields.get_string("file"));
        MS_ASSIGN_OR_RETURN(tensor.dtype, fields.get_string("dtype"));
        MS_ASSIGN_OR_RETURN(tensor.shape, fields.get_ints("shape"));
        MS_ASSIGN_OR_RETURN(tensor.digest, fields.get_string("xxh3"));
        manifest.tensors.push_back(std::move(tensor));
      }
    }
  }
  return manifest;
}

// Older checkpoints have neither: their sources are known by data_digest alone.
Status read_mixture(const JsonObject& data, DataState& state) {
  if (!data.has("sources")) return {};
  MS_ASSIGN_OR_RETURN(const std::vector<std::string> sources, data.get_strings("sources"));
  for (const std::string& hex : sources) {
    MS_ASSIGN_OR_RETURN(const Digest128 digest, Digest128::parse(std::string(16, '0') + hex));
    state.sources.push_back(digest.low);
  }
  const Json* entries = data.find("mixture");
  if (entries == nullptr || !entries->is_array() || entries->empty()) {
    return data.error("mixture", "expected a list of shares, each from a sample on");
  }
  for (const Json& value : *entries) {
    MS_ASSIGN_OR_RETURN(const JsonObject fields, JsonObject::from(value, data.where("mixture")));
    MixtureEntry& entry = state.mixture.emplace_back();
    MS_ASSIGN_OR_RETURN(entry.from_sample, get_u64(fields, "from_sample"));
    MS_ASSIGN_OR_RETURN(entry.shares, fields.get_ints("shares"));
  }
  return check_mixture(state).with_context(data.where("mixture"));
}

Result<TrainState> read_state(const JsonObject& object) {
  TrainState state;
  MS_ASSIGN_OR_RETURN(state.step, object.get_int("step"));
  MS_ASSIGN_OR_RETURN(state.seed, get_u64(object, "seed"));
  MS_ASSIGN_OR_RETURN(const JsonObject data, object.get_object("data"));
  MS_ASSIGN_OR_RETURN(state.data.next_sample, get_u64(data, "next_sample"));
  MS_ASSIGN_OR_RETURN(state.data.cursors, data.get_ints("cursors"));
  MS_ASSIGN_OR_RETURN(state.data.data_digest, get_u64(data, "data_digest"));
  MS_RETURN_IF_ERROR(read_mixture(data, state.data));
  MS_ASSIGN_OR_RETURN(const JsonObject extra, object.get_object("extra"));
  for (const std::string& key : extra.keys()) {
    MS_ASSIGN_OR_RETURN(state.extra[key], extra.get_string(key));
  }
  MS_ASSIGN_OR_RETURN(state.eval_loss, get_optional(object, "eval_loss"));
  return state;
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof(name), "step-%06lld", static_cast<long long>(step));
  return name;
}

int64_t checkpoint_step(std::string_view name) {
  if (name.substr(0, 5) != "step-") return -1;
  int64_t step = -1;
  const char* end = name.data() + name.size();
  const auto [stopped, error] = std::from_chars(name.data() + 5, end, step);
  const bool is_name =
      error == std::errc() && stopped == end && step >= 0 && checkpoint_name(step) == name;
  return is_name ? step : -1;
}

std::string logical_digest(const TrainState& state, const std::vector<CheckpointTensor>& tensors) {
  // Lengths before texts, so that no two states write the same lines.
  const auto word = [](const std::string& text) {
    return std::to_string(text.size()) + ":" + text;
  };
  std::string text = "mainspring state 1\nstep " + std::to_string(state.step) + "\nseed " +
                     std::to_string(state.seed) + "\ndata " +
                     std::to_string(state.data.next_sample) + " " + hex64(state.data.data_digest);
  for (const int64_t cursor : state.data.cursors) text += " " + std::to_string(cursor);
  text += "\n";
  // The shares of a run that never changed them are in data_digest.
  for (size_t i = 0; state.data.mixture.size() > 1 && i < state.data.mixture.size(); ++i) {
    text += "mixture " + std::to_string(state.data.mixture[i].from_sample);
    for (const int64_t share : state.data.mixture[i].shares) text += " " + std::to_string(share);
    text += "\n";
  }
  for (const auto& [key, value] : state.extra)
    text += "extra " + word(key) + " " + word(value) + "\n";
  std::map<std::string, const CheckpointTensor*> by_key;
  for (const CheckpointTensor& tensor : tensors) by_key[tensor.key] = &tensor;
  for (const auto& [key, tensor] : by_key) {
    text += "tensor " + word(key) + " " + tensor->dtype + " " + tensor->digest;
    for (const int64_t dim : tensor->shape) text += " " + std::to_string(dim);
    text += "\n";
  }
  return checksum128(text.data(), text.size()).hex();
}

std::string manifest_text(const Manifest& manifest) {
  Json json;
  json["format_version"] = manifest.format_version;
  json["step"] = manifest.step;
  json["digest"] = manifest.digest;
  if (manifest.eval_loss) json["eval_loss"] = *manifest.eval_loss;
  json["files"] = Json::array();
  for (const Manifest::File& file : manifest.files) {
    json["files"].push_back(
        {{"name", file.name}, {"size_bytes", file.size_bytes}, {"xxh3", file.xxh3}});
  }
  json["tensors"] = Json::array();
  for (const CheckpointTensor& tensor : manifest.tensors) {
    json["tensors"].push_back({{"key", tensor.key},
                               {"file", tensor.file_name},
                               {"dtype", tensor.dtype},
                               {"shape", tensor.shape},
                               {"xxh3", tensor.digest}});
  }
  return seal(std::move(json));
}

Result<Manifest> parse_manifest(std::string_view text, const std::string& source) {
  MS_ASSIGN_OR_RETURN(const Json json, unseal(text, source));
  const Result<JsonObject> object = JsonObject::from(json, source);
  if (!object.ok()) return as_data_loss(object.status());
  const Result<int64_t> version = object->get_int("format_version");
  if (version.ok() && *version != kCheckpointFormat) {
    return invalid_argument(source + ": format version " + std::to_string(*version) +
                            ", but this build reads version " + std::to_string(kCheckpointFormat));
  }
  Result<Manifest> manifest = read_manifest(*object);
  if (!manifest.ok()) return as_data_loss(manifest.status());
  return manifest;
}

std::string state_text(const TrainState& state) {
  Json json;
  json["step"] = state.step;
  json["seed"] = state.seed;
  json["data"] = {{"next_sample", state.data.next_sample},
                  {"cursors", state.data.cursors},
                  {"data_digest", state.data.data_digest}};
  if (!state.data.sources.empty()) {
    Json& data = json["data"];
    for (const uint64_t source : state.data.sources) data["sources"].push_back(hex64(source));
    for (const MixtureEntry& entry : state.data.mixture) {
      data["mixture"].push_back({{"from_sample", entry.from_sample}, {"shares", entry.shares}});
    }
  }
  json["extra"] = Json::object();
  for (const auto& [key, value] : state.extra) json["extra"][key] = value;
  if (state.eval_loss) json["eval_loss"] = *state.eval_loss;
  return json_text(json, 1) + "\n";
}

Result<TrainState> parse_state(std::string_view text, const std::string& source) {
  const Result<Json> json = parse_json(text, source);
  if (!json.ok()) return as_data_loss(json.status());
  const Result<JsonObject> object = JsonObject::from(*json, source);
  if (!object.ok()) return as_data_loss(object.status());
  Result<TrainState> state = read_state(*object);
  if (!state.ok()) return as_data_loss(state.status());
  return state;
}

std::string next_loss_text(int64_t step, double loss_sum) {
  Json json;
  json["after_step"] = step;
  json["loss_sum"] = loss_sum;
  return seal(std::move(json));
}

Result<double> parse_next_loss(std::string_view text, int64_t step, const std::string& source) {
  MS_ASSIGN_OR_RETURN(const Json json, unseal(text, source));
  const Result<JsonObject> object = JsonObject::from(json, source);
  if (!object.ok()) return as_data_loss(object.status());
  const Result<int64_t> after = object->get_int("after_step");
  if (!after.ok() || *after != step) return data_loss(source + ": belongs to another step");
  const Result<double> loss_sum = object->get_number("loss_sum");
  if (!loss_sum.ok()) return as_data_loss(loss_sum.status());
  return *loss_sum;
}

}  // namespace mainspring
