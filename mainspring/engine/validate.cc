#include "mainspring/engine/validate.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "mainspring/base/nearest.h"

namespace mainspring {
namespace {

std::string where(size_t index, const std::string& field) {
  return "datum " + std::to_string(index) + ": " + field + ": ";
}

Status check_ids(const std::vector<int32_t>& ids, int64_t vocabulary, const std::string& field,
                 size_t index) {
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] < 0 || ids[t] >= vocabulary) {
      return invalid_argument(where(index, field + "[" + std::to_string(t) + "]") +
                              "expected 0 <= id < " + std::to_string(vocabulary) + ", got " +
                              std::to_string(ids[t]));
    }
  }
  return {};
}

Status check_values(const std::vector<float>& values, size_t length, const std::string& field,
                    size_t index) {
  if (values.size() != length) {
    return invalid_argument(where(index, field) + "expected " + std::to_string(length) +
                            " values, one per token, got " + std::to_string(values.size()));
  }
  for (size_t t = 0; t < values.size(); ++t) {
    if (!std::isfinite(values[t])) {
      return invalid_argument(where(index, field + "[" + std::to_string(t) + "]") +
                              "expected a finite number");
    }
  }
  return {};
}

Status check_range(const char* name, double value, double low, double high, const char* expected) {
  if (std::isfinite(value) && value >= low && value < high) return {};
  return invalid_argument(std::string(name) + ": expected " + expected + ", got " +
                          std::to_string(value));
}

Status check_candidates(const Datum& datum, int64_t vocabulary, const LossInfo& loss,
                        size_t index) {
  const size_t length = datum.tokens.size();
  const std::vector<int32_t>& candidates = datum.candidates;
  if (candidates.empty() || candidates.size() % length != 0) {
    return invalid_argument(where(index, "candidates") + "loss " + std::string(loss.name) +
                            " needs as many for each of " + std::to_string(length) +
                            " tokens, got " + std::to_string(candidates.size()));
  }
  const bool has_weights = !datum.candidate_weights.empty();
  if (has_weights && datum.candidate_weights.size() != candidates.size()) {
    return invalid_argument(where(index, "candidate_weights") + "expected " +
                            std::to_string(candidates.size()) + ", one per candidate, got " +
                            std::to_string(datum.candidate_weights.size()));
  }
  if (has_weights) {
    MS_RETURN_IF_ERROR(
        check_values(datum.candidate_weights, candidates.size(), "candidate_weights", index));
  }
  const size_t k = candidates.size() / length;
  std::vector<int32_t> sorted;
  for (size_t t = 0; t < length; ++t) {
    const auto first = candidates.begin() + static_cast<std::ptrdiff_t>(t * k);
    sorted.assign(first, first + static_cast<std::ptrdiff_t>(k));
    std::sort(sorted.begin(), sorted.end());
    const std::string at = where(index, "candidates of token " + std::to_string(t));
    if (sorted.front() < -1 || sorted.back() >= vocabulary) {
      return invalid_argument(at + "expected -1 <= id < " + std::to_string(vocabulary) + ", got " +
                              std::to_string(sorted.front() < -1 ? sorted.front() : sorted.back()));
    }
    for (size_t j = 1; j < k; ++j) {
      if (sorted[j] < 0 || sorted[j] != sorted[j - 1]) continue;
      return invalid_argument(at + std::to_string(sorted[j]) + " appears twice");
    }
  }
  return {};
}

// A name that no loss reads is mistyped; one that another loss reads may stay, as when rollouts are
// scored under several.
Status check_input_names(const Datum& datum, size_t index) {
  if (datum.inputs.empty()) return {};
  std::vector<std::string> known;
  for (const LossInfo& loss : loss_table()) {
    known.insert(known.end(), loss.inputs.begin(), loss.inputs.end());
    known.insert(known.end(), loss.optional_inputs.begin(), loss.optional_inputs.end());
  }
  std::erase(known, "weights");  // Datum::weights
  for (const auto& [name, values] : datum.inputs) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return invalid_argument(where(index, "inputs") + "no loss reads \"" + name +
                            "\", nearest is \"" + nearest_name(name, known) + "\"");
  }
  return {};
}

}  // namespace

Status validate_datum(const Datum& datum, size_t index, int64_t vocabulary, int64_t max_tokens,
                      const LossInfo& loss) {
  const size_t length = datum.tokens.size();
  if (length == 0) return invalid_argument(where(index, "tokens") + "expected at least one");
  if (static_cast<int64_t>(length) > max_tokens) {
    return invalid_argument(where(index, "tokens") + "expected at most " +
                            std::to_string(max_tokens) + ", got " + std::to_string(length));
  }
  if (datum.targets.size() != length) {
    return invalid_argument(where(index, "targets") + "expected " + std::to_string(length) +
                            ", one per token, got " + std::to_string(datum.targets.size()));
  }
  MS_RETURN_IF_ERROR(check_ids(datum.tokens, vocabulary, "tokens", index));
  MS_RETURN_IF_ERROR(check_ids(datum.targets, vocabulary, "targets", index));
  MS_RETURN_IF_ERROR(check_values(datum.weights, length, "weights", index));
  for (std::string_view name : loss.inputs) {
    if (name == "weights") continue;
    const auto found = datum.inputs.find(std::string(name));
    if (found == datum.inputs.end()) {
      return invalid_argument(where(index, std::string(name)) + "loss " + std::string(loss.name) +
                              " needs this per-token input");
    }
    MS_RETURN_IF_ERROR(check_values(found->second, length, found->first, index));
  }
  for (std::string_view name : loss.optional_inputs) {
    const auto found = datum.inputs.find(std::string(name));
    if (found == datum.inputs.end()) continue;
    MS_RETURN_IF_ERROR(check_values(found->second, length, found->first, index));
  }
  if (loss.reads_candidates) {
    MS_RETURN_IF_ERROR(check_candidates(datum, vocabulary, loss, index));
  }
  return check_input_names(datum, index);
}

Status validate_adamw(const AdamwOptions& o) {
  constexpr double kMany = 1e300;
  MS_RETURN_IF_ERROR(check_range("lr", static_cast<double>(o.lr), 0, kMany, "a rate >= 0"));
  MS_RETURN_IF_ERROR(check_range("beta1", static_cast<double>(o.beta1), 0, 1, "[0, 1)"));
  MS_RETURN_IF_ERROR(check_range("beta2", static_cast<double>(o.beta2), 0, 1, "[0, 1)"));
  MS_RETURN_IF_ERROR(check_range("eps", static_cast<double>(o.eps), 0, kMany, "a number >= 0"));
  MS_RETURN_IF_ERROR(
      check_range("weight_decay", static_cast<double>(o.weight_decay), 0, kMany, "a number >= 0"));
  MS_RETURN_IF_ERROR(check_range("max_grad_norm", static_cast<double>(o.max_grad_norm), 0, kMany,
                                 "a number >= 0"));
  return check_range("normaliser", o.normaliser, 1e-300, kMany, "a number above 0");
}

Status check_same_tensors(const TensorSet& expected, const TensorSet& got) {
  for (const auto& [name, tensor] : expected) {
    const auto found = got.find(name);
    if (found == got.end()) return invalid_argument("state lacks tensor " + name);
    if (found->second.dtype != tensor.dtype || found->second.shape != tensor.shape) {
      return invalid_argument("state tensor " + name + " has another dtype or shape");
    }
  }
  for (const auto& [name, tensor] : got) {
    if (expected.count(name) == 0)
      return invalid_argument("state has an unexpected tensor " + name);
  }
  return {};
}

}  // namespace mainspring
