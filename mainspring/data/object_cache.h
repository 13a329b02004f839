// Object cache: remote objects as local files.
//
// The one idea: an object is read once, as a stream, into a file of the cache; rows, which are read
// in any order and every epoch, then come from the disk like everybody's. A copy is used again only
// if the store still names the version it is of and its bytes are whole. A stream that breaks goes
// on where it stopped, bound to that version, in this process or a later one. Design note:
// docs/adr/0011.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "mainspring/base/status.h"
#include "mainspring/data/data_feature.h"

namespace mainspring {

/// Bytes of an object that are here, of all.
using OnFetch = std::function<void(const std::string& url, int64_t done, int64_t total)>;

struct FetchOptions {
  std::string folder;  // empty: default_object_folder()
  FetchLimits limits;
  OnFetch on_fetch;                   // may be empty
  std::function<void()> touch;        // called before each wait; may be empty
  std::function<bool()> should_stop;  // asked between parts; may be empty
};

struct FetchedObject {
  std::string path;  // of the copy
  ObjectVersion version;
};

/// $MAINSPRING_CACHE, $XDG_CACHE_HOME/mainspring or ~/.cache/mainspring, and in it "objects".
std::string default_object_folder();

/// Brings the object into the cache, or finds it there. Two processes that want one object take
/// turns. Errors, each with the URL: not found; failed precondition if access is denied or this
/// build cannot; unavailable if the store cannot be reached or the stream breaks `retries` times
/// in a row without a new byte (what has come stays for the next time); data loss if the object
/// changes under every attempt; cancelled; the system's.
Result<FetchedObject> fetch_object(const std::string& url, const FetchOptions& options);

}  // namespace mainspring
