#include "mainspring/io/safetensors.h"

#include <cstring>

#include <gtest/gtest.h>

#include "mainspring/io/fuzz_util.h"
#include "mainspring/io/test_dir.h"

namespace mainspring {
namespace {

std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}

/// A file of one header and data, opened.
Result<Safetensors> open_of(const TestDir& dir, const std::string& header,
                            const std::string& data) {
  return open_safetensors(dir.write("f.safetensors", file_of(header, data)));
}

/// Two tensors: "a" F32 [2] and "b" U8 [3].
constexpr const char* kTwo =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const TestDir dir;
  const float values[2] = {1.5f, -2.0f};
  const std::string data = std::string(reinterpret_cast<const char*>(values), 8) + "xyz";
  const Safetensors file = open_of(dir, std::string(kTwo) + "  ", data).value();
  EXPECT_EQ(file.metadata.at("format"), "pt");
  ASSERT_EQ(file.tensors.size(), 2u);
  const SafetensorsEntry& a = file.tensors.at("a");
  EXPECT_EQ(a.dtype, "F32");
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(std::memcmp(a.data, values, 8), 0);
  EXPECT_EQ(std::memcmp(file.tensors.at("b").data, "xyz", 3), 0);
}

TEST(Safetensors, CopiesATensorThatTheFilePutsOffItsAlignment) {
  const TestDir dir;
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  const float value = 3.0f;
  const Safetensors file =
      open_of(dir, header, "x" + std::string(reinterpret_cast<const char*>(&value), 4)).value();
  const SafetensorsEntry& b = file.tensors.at("b");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data) % 4, 0u);
  EXPECT_EQ(std::memcmp(b.data, &value, 4), 0);
}

TEST(Safetensors, EmptyAndScalarTensorsAreFine) {
  const TestDir dir;
  const std::string header = R"({"e":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]},)"
                             R"("s":{"dtype":"I16","shape":[],"data_offsets":[0,2]}})";
  EXPECT_EQ(open_of(dir, header, "ab").value().tensors.size(), 2u);
  EXPECT_EQ(open_of(dir, "{}", "").value().tensors.size(), 0u);
}

struct Bad {
  const char* header;
  size_t data_bytes;
  const char* expected;
};

TEST(Safetensors, RefusesHeadersThatDoNotFit) {
  const Bad bad[] = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}})", 7,
       "span 7 bytes, dtype and shape need 8"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7, "cut short"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9, "the file has 9"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "expected [begin, end]"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12, "there is a hole"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "overlaps"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "negative dimension"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", 8,
       "overflows"},
      {R"({"a":{"dtype":"F3","shape":[2],"data_offsets":[0,8]}})", 8,
       "dtype 'F3' is not supported"},
      {R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8, "dtype: is missing"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "given twice"},
      {R"({"a":3})", 0, "expected an object"},
      {R"({"__metadata__":{"k":1}})", 0, "__metadata__.k: expected a string"},
      {R"([])", 0, "expected an object"},
      {R"({)", 0, "(header):1:2"},
  };
  const TestDir dir;
  for (const Bad& item : bad) {
    const Status status = open_of(dir, item.header, std::string(item.data_bytes, 'x')).status();
    EXPECT_NE(status.message().find(item.expected), std::string::npos)
        << item.header << " gave " << status.message();
    EXPECT_NE(status.message().find(dir.file("f.safetensors")), std::string::npos);
  }
}

TEST(Safetensors, RefusesAHeaderLengthBeyondTheFile) {
  const TestDir dir;
  EXPECT_EQ(open_safetensors(dir.write("a", "")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(open_safetensors(dir.write("a", std::string(8, '\xff'))).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(open_safetensors(dir.file("none")).status().code(), StatusCode::kNotFound);
}

TEST(Safetensors, DamagedFilesNeverCrashAndKeepTensorsInsideTheFile) {
  const TestDir dir;
  const std::string bytes = file_of(kTwo, std::string(11, 'x'));
  const auto parse = [&dir](const std::string& damaged) {
    const auto file = open_safetensors(dir.write("f", damaged));
    if (!file.ok()) return;
    unsigned sum = 0;
    for (const auto& [name, entry] : file->tensors) {
      for (int64_t i = 0; i < entry.size_bytes; ++i) sum += entry.data[i];
    }
    EXPECT_LE(sum, 255u * damaged.size());
  };
  for_each_truncation(bytes, [&dir](const std::string& cut) {
    EXPECT_FALSE(open_safetensors(dir.write("f", cut)).ok());
  });
  for_each_damage(bytes, 5000, parse);
}

// ---- sharded models
// --------------------------------------------------------------------------------------

constexpr const char* kA = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
constexpr const char* kB = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";

TEST(SafetensorsIndex, JoinsTheShards) {
  const TestDir dir;
  dir.write("1.safetensors", file_of(kA, "1"));
  dir.write("2.safetensors", file_of(kB, "2"));
  dir.write("model.safetensors.index.json",
            R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})");
  const Safetensors all = open_safetensors_folder(dir.path()).value();
  EXPECT_EQ(all.tensors.at("a").data[0], '1');
  EXPECT_EQ(all.tensors.at("b").data[0], '2');
}

TEST(SafetensorsIndex, RefusesShardsThatDisagreeWithIt) {
  const TestDir dir;
  dir.write("1.safetensors", file_of(kA, "1"));
  const auto error_of = [&dir](const char* index) {
    return open_safetensors_index(dir.write("i.json", index)).status().message();
  };
  EXPECT_NE(error_of(R"({"weight_map": {"a": "1.safetensors", "b": "1.safetensors"}})")
                .find("lacks tensor 'b'"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"weight_map": {"b": "1.safetensors"}})").find("places nowhere"),
            std::string::npos);
  EXPECT_NE(
      error_of(R"({"weight_map": {"a": "2.safetensors"}})").find("2.safetensors: cannot open"),
      std::string::npos);
  EXPECT_NE(error_of(R"({"weight_map": {"a": "../1.safetensors"}})").find("same folder"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"weight_map": {"a": 1}})").find("expected a file name"),
            std::string::npos);
  EXPECT_NE(error_of(R"({})").find("weight_map: is missing"), std::string::npos);
}

TEST(SafetensorsFolder, WithoutWeightsNamesBothSpellings) {
  const TestDir dir;
  const Status status = open_safetensors_folder(dir.path()).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            dir.path() + ": has neither model.safetensors nor model.safetensors.index.json");
}

// ---- writing
// -----------------------------------------------------------------------------------------------

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const TestDir dir;
  const SafetensorsSpec specs[] = {{"w", "F32", {2, 2}}, {"e", "F32", {0}}, {"v", "U8", {3}}};
  auto writer = SafetensorsWriter::create(dir.file("f"), specs, {{"format", "pt"}}).value();
  const float values[4] = {1, 2, 3, 4};
  ASSERT_TRUE(writer->append(values, 10).ok());  // pieces may cut tensors anywhere
  ASSERT_TRUE(writer->append(reinterpret_cast<const char*>(values) + 10, 6).ok());
  ASSERT_TRUE(writer->append("xyz", 3).ok());
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(writer->file_bytes(), static_cast<int64_t>(dir.read("f").size()));
  const Safetensors file = open_safetensors(dir.file("f")).value();
  EXPECT_EQ(std::memcmp(file.tensors.at("w").data, values, 16), 0);
  EXPECT_EQ(file.tensors.at("w").owner, file.tensors.at("v").owner);  // nothing had to be copied
  EXPECT_EQ(file.metadata.at("format"), "pt");
}

TEST(SafetensorsWriter, WritesMoreThanItsBufferInOrder) {
  const TestDir dir;
  const int64_t size = 300'000;
  const SafetensorsSpec specs[] = {{"w", "U8", {size}}};
  auto writer = SafetensorsWriter::create(dir.file("f"), specs).value();
  std::string bytes;
  for (int64_t i = 0; i < size; ++i) bytes += static_cast<char>(i * 131 >> 3);
  const int64_t cuts[] = {0, 1, 5, 65'000, 66'000, 200'000, 200'001, size};
  for (size_t i = 0; i + 1 < std::size(cuts); ++i) {
    ASSERT_TRUE(writer->append(bytes.data() + cuts[i], cuts[i + 1] - cuts[i]).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(std::memcmp(open_safetensors(dir.file("f")).value().tensors.at("w").data, bytes.data(),
                        bytes.size()),
            0);
}

TEST(SafetensorsWriter, RefusesTooManyAndTooFewBytes) {
  const TestDir dir;
  const SafetensorsSpec specs[] = {{"w", "U8", {2}}};
  auto writer = SafetensorsWriter::create(dir.file("f"), specs).value();
  EXPECT_EQ(writer->finish().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(writer->append("xyz", 3).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(writer->append("xy", 2).ok());
  EXPECT_TRUE(writer->finish().ok());
}

TEST(SafetensorsWriter, RefusesSpecsThatAreWrong) {
  const TestDir dir;
  const auto status_of = [&dir](std::vector<SafetensorsSpec> specs) {
    return SafetensorsWriter::create(dir.file("f"), specs).status();
  };
  EXPECT_EQ(status_of({{"w", "F32", {1}}, {"w", "F32", {1}}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status_of({{"b", "U8", {1}}, {"w", "F32", {1}}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status_of({{"w", "Q9", {1}}}).code(), StatusCode::kUnimplemented);
  EXPECT_EQ(status_of({{"w", "F32", {int64_t{1} << 62}}}).code(), StatusCode::kInvalidArgument);
}

TEST(SafetensorsWriter, AFullDiskIsResourceExhausted) {
  const SafetensorsSpec specs[] = {{"w", "U8", {2}}};
  EXPECT_EQ(SafetensorsWriter::create("/dev/full", specs).status().code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace mainspring
