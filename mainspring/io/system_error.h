// system_error: errno as a Status whose code names the action a caller can take.
#pragma once

#include <string>
#include <string_view>

#include "mainspring/base/status.h"

namespace mainspring {

/// "<path>: cannot <what>: <the system's reason>". ENOENT and ENOTDIR: not found; EEXIST: already
/// exists; ENOSPC, EDQUOT, ENOMEM, EMFILE, ENFILE: resource exhausted; EACCES, EPERM, EROFS,
/// ENAMETOOLONG, ELOOP, EISDIR: invalid argument; else unavailable.
Status system_error(std::string_view what, const std::string& path, int error);

}  // namespace mainspring
