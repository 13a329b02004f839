// A build without Parquet and object stores says how to get one.
#include <gtest/gtest.h>

#include "mainspring/data/documents.h"
#include "mainspring/data/row_file.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

TEST(DataFeatureAbsent, AParquetFileIsRefusedWithTheCommandThatBuildsIt) {
  const std::string path = test::source_path("tests/golden/parquet/text_gzip.parquet");
  for (const Status& status :
       {RowList::open({path}, {}).status(), list_input_files({path}, "", "text", {}).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(status.message().find(path + ": is a Parquet file"), 0u) << status.message();
    EXPECT_NE(status.message().find("make DATA=1"), std::string::npos) << status.message();
  }
}

TEST(DataFeatureAbsent, AUrlIsRefusedWithTheCommandThatBuildsIt) {
  const Status status = RowList::open({"s3://bucket/rows.jsonl"}, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message().find("s3://bucket/rows.jsonl: is in an object store"), 0u)
      << status.message();
  EXPECT_NE(status.message().find("make DATA=1"), std::string::npos);
}

}  // namespace
}  // namespace mainspring
