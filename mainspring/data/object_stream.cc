// Remote objects through the bridge's data feature.
#include "mainspring/data/data_feature.h"
#include "mainspring/io/data_bridge.h"

namespace mainspring {
namespace {

MsSlice slice_of(std::string_view text) { return {text.data(), text.size()}; }

ObjectStream::Failure failure_of(int kind) {
  switch (kind) {
    case MS_OBJECT_NOT_FOUND:
      return ObjectStream::Failure::kNotFound;
    case MS_OBJECT_DENIED:
      return ObjectStream::Failure::kDenied;
    case MS_OBJECT_CHANGED:
      return ObjectStream::Failure::kChanged;
    case MS_OBJECT_BROKEN:
      return ObjectStream::Failure::kBroken;
    case MS_OBJECT_NO_RANGE:
      return ObjectStream::Failure::kNoRange;
    default:
      return ObjectStream::Failure::kOther;
  }
}

Status status_of(ObjectStream::Failure failure) {
  const std::string why = ms_bridge_last_error();
  switch (failure) {
    case ObjectStream::Failure::kNotFound:
      return not_found("is not there: " + why);
    case ObjectStream::Failure::kDenied:
      return failed_precondition("access is denied (credentials come from the environment): " +
                                 why);
    default:
      return unavailable(why);
  }
}

class BridgeObjectStream final : public ObjectStream {
 public:
  BridgeObjectStream(MsObjectStream* stream, ObjectVersion version) : stream_(stream) {
    version_ = std::move(version);
  }
  ~BridgeObjectStream() override { ms_object_free(stream_); }
  BridgeObjectStream(const BridgeObjectStream&) = delete;
  BridgeObjectStream& operator=(const BridgeObjectStream&) = delete;

  Status read(std::string& out) override {
    MsText bytes{};
    int kind = 0;
    if (ms_object_read(stream_, &bytes, &kind) != 0) return status_of(failure_of(kind));
    out.append(bytes.data, bytes.size);
    ms_text_free(&bytes);
    return {};
  }

 private:
  MsObjectStream* stream_;
};

}  // namespace

Result<std::unique_ptr<ObjectStream>> ObjectStream::open(const std::string& url, int64_t begin,
                                                         const std::string& same_as,
                                                         const FetchLimits& limits,
                                                         Failure& failure) {
  const MsFetchLimits bounds{static_cast<uint32_t>(limits.retries),
                             static_cast<uint32_t>(limits.first_wait_ms),
                             static_cast<uint32_t>(limits.timeout_ms)};
  MsObjectInfo info{};
  int kind = 0;
  failure = Failure::kNone;
  MsObjectStream* stream = ms_object_open(slice_of(url), static_cast<uint64_t>(begin),
                                          slice_of(same_as), &bounds, &info, &kind);
  if (stream == nullptr) {
    failure = failure_of(kind);
    return status_of(failure);
  }
  ObjectVersion version{static_cast<int64_t>(info.size), info.modified_ns,
                        std::string(info.etag.data, info.etag.size)};
  ms_text_free(&info.etag);
  return std::unique_ptr<ObjectStream>(
      std::make_unique<BridgeObjectStream>(stream, std::move(version)));
}

}  // namespace mainspring
