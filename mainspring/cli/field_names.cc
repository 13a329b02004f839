#include "mainspring/cli/field_names.h"

#include "mainspring/base/nearest.h"

namespace mainspring::cli {

Status check_near_names(const JsonObject& row, const std::vector<std::string>& known) {
  for (const std::string& key : row.keys()) {
    const std::string nearest = nearest_name(key, known);
    const size_t distance = edit_distance(key, nearest);
    const size_t allowed = nearest.size() < 4 ? 0 : nearest.size() < 7 ? 1 : 2;
    if (distance > 0 && distance <= allowed) {
      return row.error(key, "no such field, did you mean \"" + nearest + "\"?");
    }
  }
  return {};
}

}  // namespace mainspring::cli
