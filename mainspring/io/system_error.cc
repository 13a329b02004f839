#include "mainspring/io/system_error.h"

#include <cerrno>
#include <system_error>

namespace mainspring {
namespace {

StatusCode code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return StatusCode::kNotFound;
    case EEXIST:
    case ENOTEMPTY:
      return StatusCode::kAlreadyExists;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EFBIG:
      return StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
    case EROFS:
    case ENAMETOOLONG:
    case ELOOP:
    case EISDIR:
      return StatusCode::kInvalidArgument;
    default:
      return StatusCode::kUnavailable;
  }
}

}  // namespace

Status system_error(std::string_view what, const std::string& path, int error) {
  std::string message = path;
  message += ": cannot ";
  message += what;
  message += ": ";
  message += std::generic_category().message(error);
  return Status(code_of(error), std::move(message));
}

}  // namespace mainspring
