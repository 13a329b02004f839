// What a build without the data feature says of Parquet files and remote objects.
#include "mainspring/data/data_feature.h"

namespace mainspring {
namespace {

constexpr const char* kHowTo =
    "this program was built without Parquet and object stores; build it with them (a few minutes, "
    "once): make DATA=1";

}  // namespace

Result<std::shared_ptr<const ParquetFile>> ParquetFile::open(const std::string&,
                                                             const std::string& name) {
  return failed_precondition(name + ": is a Parquet file, and " + kHowTo);
}

Result<std::unique_ptr<ObjectStream>> ObjectStream::open(const std::string&, int64_t,
                                                         const std::string&, const FetchLimits&,
                                                         Failure& failure) {
  failure = Failure::kOther;
  return failed_precondition(std::string("is in an object store, and ") + kHowTo);
}

}  // namespace mainspring
