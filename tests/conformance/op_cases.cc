#include "tests/conformance/op_cases.h"

#include <algorithm>

namespace mainspring::conformance {

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    std::vector<OpCase> all;
    for (auto group :
         {linear_cases(), row_cases(), attention_cases(), head_cases(), optimizer_cases()}) {
      for (OpCase& c : group) all.push_back(std::move(c));
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const OpCase& a, const OpCase& b) { return a.op < b.op; });
    return all;
  }();
  return cases;
}

}  // namespace mainspring::conformance
