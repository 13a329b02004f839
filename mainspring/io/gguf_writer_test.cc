#include "mainspring/io/gguf_writer.h"

#include <cstring>

#include <gtest/gtest.h>

#include "mainspring/io/gguf.h"
#include "mainspring/io/gguf_builder.h"
#include "mainspring/io/test_dir.h"

namespace mainspring {
namespace {

class GgufWriterTest : public testing::Test {
 protected:
  TestDir dir_;
  std::string path_ = dir_.file("m.gguf");
};

TEST_F(GgufWriterTest, WritesWhatTheReaderReads) {
  GgufMetadata metadata;
  metadata.add_u32("a.count", 7);
  metadata.add_f32("a.number", 0.5f);
  metadata.add_bool("a.flag", true);
  metadata.add_text("a.text", "h\xc3\xa9");
  const std::vector<std::string> texts = {"x", "", "yz"};
  metadata.add_texts("a.texts", texts);
  const std::vector<int32_t> ints = {-1, 2};
  metadata.add_i32s("a.ints", ints);
  const std::vector<float> floats = {1.5f};
  metadata.add_f32s("a.floats", floats);
  const float matrix[6] = {1, 2, 3, 4, 5, 6};
  const uint16_t vector[1] = {0x3c00};
  auto writer =
      GgufWriter::create(path_, metadata, {{"m", kGgmlF32, {3, 2}, 24}, {"v", kGgmlF16, {1}, 2}})
          .value();
  ASSERT_TRUE(writer->append(matrix, 24).ok());
  ASSERT_TRUE(writer->append(vector, 2).ok());
  EXPECT_TRUE(GgufFile::open(writer->finish().value()).ok());  // whole before it has its name
  EXPECT_FALSE(dir_.has("m.gguf"));
  ASSERT_TRUE(writer->commit().ok());

  const auto file = GgufFile::open(path_).value();
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->get_int("a.count").value(), 7);
  EXPECT_EQ(file->get_number("a.number").value(), 0.5);
  EXPECT_TRUE(file->get_bool("a.flag").value());
  EXPECT_EQ(file->get_string("a.text").value(), "h\xc3\xa9");
  EXPECT_EQ(file->get_strings("a.texts").value(), texts);
  EXPECT_EQ(file->get_ints("a.ints").value(), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(file->get_floats("a.floats").value(), floats);
  const GgufTensor& m = file->tensors().at("m");
  EXPECT_EQ(m.dims, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(std::memcmp(m.data, matrix, 24), 0);
  EXPECT_EQ(std::memcmp(file->tensors().at("v").data, vector, 2), 0);
}

TEST_F(GgufWriterTest, GivesTheBytesOfTheIndependentBuilder) {
  GgufMetadata metadata;
  metadata.add_u32("k", 3);
  metadata.add_text("t", "abc");
  const std::string data(40, 'd');
  auto writer =
      GgufWriter::create(path_, metadata, {{"a", kGgmlF32, {10}, 40}, {"b", kGgmlF32, {10}, 40}})
          .value();
  ASSERT_TRUE(writer->append(data.data(), 40).ok());
  ASSERT_TRUE(writer->append(data.data(), 40).ok());
  ASSERT_TRUE(writer->finish().ok());
  ASSERT_TRUE(writer->commit().ok());
  GgufBuilder builder;
  builder.add_u32("k", 3).add_text("t", "abc");
  builder.add_tensor("a", kGgmlF32, {10}, data).add_tensor("b", kGgmlF32, {10}, data);
  std::string expected = builder.build();
  expected.resize((expected.size() + 31) / 32 * 32, '\0');  // the last tensor is padded too
  EXPECT_EQ(dir_.read("m.gguf"), expected);
}

TEST_F(GgufWriterTest, ATensorOfAnotherSizeIsRefusedByName) {
  auto writer = GgufWriter::create(path_, {}, {{"w", kGgmlF32, {2}, 8}}).value();
  const Status status = writer->append("1234", 4);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'w': expected 8 bytes, got 4"), std::string::npos);
  ASSERT_TRUE(writer->append("12345678", 8).ok());
  EXPECT_EQ(writer->append("12345678", 8).code(), StatusCode::kInvalidArgument);
}

TEST_F(GgufWriterTest, AMissingTensorLeavesNothing) {
  auto writer = GgufWriter::create(path_, {}, {{"w", kGgmlF32, {2}, 8}}).value();
  EXPECT_EQ(writer->finish().status().code(), StatusCode::kFailedPrecondition);
  writer.reset();
  EXPECT_EQ(dir_.count(), 0);
}

}  // namespace
}  // namespace mainspring
