#include "mainspring/sample/string_formats.h"

namespace mainspring {
namespace {

/// Months of 31 days, of 30, February; and its 29th every fourth year but in those hundreds that
/// are no multiple of 400.
std::string date() {
  const std::string year = R"((?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3}))";
  const std::string fourth = "(?:0[48]|[2468][048]|[13579][26])";
  const std::string leap_year = R"((?:\d\d)" + fourth + "|" + fourth + "00)";
  return "(?:" + year + R"(-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01]))" +
         R"(|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|)" + leap_year +
         "-02-29)";
}

std::string time() {
  return R"((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d))";
}

/// One or two atoms and two or three labels: 63 octets before the @ and at most 254 in all.
std::string email() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,31}";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return atom + R"((?:\.)" + atom + ")?@(?:" + label + R"(\.){1,2})" + label;
}

std::string ipv4() {
  const std::string octet = R"((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
  return octet + R"((?:\.)" + octet + "){3}";
}

}  // namespace

const std::vector<std::string>& format_names() {
  static const std::vector<std::string> names = {"date", "time",  "date-time",
                                                 "uuid", "email", "ipv4"};
  return names;
}

std::string pattern_of_format(const std::string& name) {
  const auto whole = [](const std::string& pattern) { return "^" + pattern + "$"; };
  if (name == "date") return whole(date());
  if (name == "time") return whole(time());
  if (name == "date-time") return whole(date() + "T" + time());
  if (name == "uuid") return "^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$";
  if (name == "email") return whole(email());
  if (name == "ipv4") return whole(ipv4());
  return "";
}

}  // namespace mainspring
