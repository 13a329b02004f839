#include "mainspring/cli/line_reader.h"

#include <errno.h>
#include <unistd.h>

namespace mainspring::cli {

LineReader::Outcome LineReader::read(std::string& line) {
  while (true) {
    const size_t end = pending_.find('\n');
    if (end != std::string::npos) {
      line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return Outcome::kLine;
    }
    char buffer[4096];
    const ssize_t count = ::read(fd_, buffer, sizeof(buffer));
    if (count > 0) {
      pending_.append(buffer, static_cast<size_t>(count));
      continue;
    }
    if (count < 0 && errno == EINTR) {
      pending_.clear();
      return Outcome::kInterrupted;
    }
    if (pending_.empty()) return Outcome::kEnd;
    line = std::move(pending_);
    pending_.clear();
    return Outcome::kLine;
  }
}

}  // namespace mainspring::cli
