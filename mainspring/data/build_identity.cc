#include "mainspring/data/build_identity.h"

#include <algorithm>
#include <map>

namespace mainspring {
namespace {

// "held_out is 0.0, not 0.5"; empty if all are the same.
std::string option_difference(const Json& before, const Json& now) {
  for (const auto& [key, value] : now.items()) {
    const Json old = before.is_object() ? before.value(key, Json()) : Json();
    if (old != value) return key + " is " + json_text(old) + ", not " + json_text(value);
  }
  return before == now ? "" : "options are " + json_text(before) + ", not " + json_text(now);
}

std::string path_of(const Json& file) {
  return file.is_object() && file.contains("path") && file["path"].is_string()
             ? file["path"].get<std::string>()
             : json_text(file);
}

// "a.txt has changed since"; empty if all are the same.
std::string input_difference(const Json& before, const Json& now) {
  if (before == now) return "";
  std::map<std::string, Json> old;
  if (before.is_array()) {
    for (const Json& file : before) old[path_of(file)] = file;
  }
  for (const Json& file : now) {
    const auto found = old.find(path_of(file));
    if (found == old.end()) return path_of(file) + " was not among its input files";
    if (found->second != file)
      return path_of(file) + " has changed since (its size, time or version)";
  }
  for (const auto& [path, file] : old) {
    const bool is_kept = std::any_of(now.begin(), now.end(),
                                     [&](const Json& other) { return path_of(other) == path; });
    if (!is_kept) return path + " was among its input files and is not given now";
  }
  return "its input files were given in another order or number";
}

}  // namespace

Json build_identity(const Json& options, const std::vector<InputFile>& files) {
  Json inputs = Json::array();
  for (const InputFile& file : files) {
    Json& input = inputs.emplace_back(
        Json{{"path", file.path}, {"bytes", file.size_bytes}, {"changed_ns", file.changed_ns}});
    if (!file.etag.empty()) input["etag"] = file.etag;
  }
  return {{"options", options}, {"inputs", inputs}};
}

Status check_same_build(const std::string& folder, const Json& before, const Json& now) {
  const auto part = [&](const char* key) {
    return before.is_object() ? before.value(key, Json()) : Json();
  };
  std::string difference = option_difference(part("options"), now["options"]);
  if (difference.empty()) difference = input_difference(part("inputs"), now["inputs"]);
  if (difference.empty()) return {};
  return failed_precondition(folder + ": holds another build: " + difference +
                             "; give another folder or remove it");
}

}  // namespace mainspring
