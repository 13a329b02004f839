// Status and Result: how a call says that the world (a file, a request, a device) refused.
//
// The one idea: a code names the action a caller can take; the message says what, where and what
// was expected, with context added once per layer. Not for broken invariants: those use MS_CHECK.
// Design note: docs/design.md, section 7.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "mainspring/base/check.h"

namespace mainspring {

/// Canonical codes; each asks for one action.
enum class StatusCode {
  kOk,
  kInvalidArgument,     // the user's input is wrong: show and stop (HTTP 400)
  kNotFound,            // a named thing does not exist
  kAlreadyExists,       // refuse to overwrite
  kFailedPrecondition,  // the state does not allow the call
  kResourceExhausted,   // admit less
  kDataLoss,            // a checksum failed: try the previous copy
  kUnavailable,         // a peer or device is gone: re-form and resume
  kDeadlineExceeded,    // a wait ran out; the message names what was waited for
  kUnimplemented,       // refused by design, with the reason
  kCancelled,           // the user asked to stop
  kInternal,            // a fault of ours that was caught at a border
};

/// The code's lower-case name, such as "invalid argument".
std::string_view status_code_name(StatusCode code);

/// Success, or a code with a message. Cheap to move; comparing is by code.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  /// "invalid argument: ..." or "ok".
  std::string to_string() const;

  /// The same status with "context: " before its message; an ok status stays ok.
  Status with_context(std::string_view context) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

Status invalid_argument(std::string message);
Status not_found(std::string message);
Status already_exists(std::string message);
Status failed_precondition(std::string message);
Status resource_exhausted(std::string message);
Status data_loss(std::string message);
Status unavailable(std::string message);
Status deadline_exceeded(std::string message);
Status unimplemented(std::string message);
Status cancelled(std::string message);
Status internal_error(std::string message);

/// A value, or the status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    MS_CHECK(!status_.ok(), "a Result without a value needs an error status");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  /// Precondition: ok().
  T& value() & {
    MS_CHECK(ok(), status_.to_string());
    return *value_;
  }
  const T& value() const& {
    MS_CHECK(ok(), status_.to_string());
    return *value_;
  }
  T&& value() && {
    MS_CHECK(ok(), status_.to_string());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace mainspring

#define MS_CONCAT_INNER(a, b) a##b
#define MS_CONCAT(a, b) MS_CONCAT_INNER(a, b)

/// Returns from the enclosing function if `expr` (a Status) is not ok.
#define MS_RETURN_IF_ERROR(expr)              \
  do {                                        \
    ::mainspring::Status ms_status_ = (expr); \
    if (!ms_status_.ok()) return ms_status_;  \
  } while (false)

/// `MS_ASSIGN_OR_RETURN(auto x, f());` where f returns a Result.
#define MS_ASSIGN_OR_RETURN(lhs, expr) \
  MS_ASSIGN_OR_RETURN_IMPL(MS_CONCAT(ms_result_, __LINE__), lhs, expr)
#define MS_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return tmp.status();            \
  lhs = std::move(tmp).value()
