#include "mainspring/io/gguf.h"

#include <gtest/gtest.h>

#include "mainspring/io/fuzz_util.h"
#include "mainspring/io/gguf_builder.h"
#include "mainspring/io/gguf_tokenizer.h"
#include "mainspring/io/test_dir.h"

namespace mainspring {
namespace {

std::string raw_u32(uint32_t value) { return GgufBuilder::raw(value); }
std::string raw_u64(uint64_t value) { return GgufBuilder::raw(value); }

/// Every kind of metadata, two tensors.
GgufBuilder everything(uint32_t version = 3) {
  GgufBuilder builder(version);
  builder.add("u8", GgufType::kU8, "\xff")
      .add("i8", GgufType::kI8, "\xff")
      .add("u16", GgufType::kU16, GgufBuilder::raw(uint16_t{65535}))
      .add("i16", GgufType::kI16, GgufBuilder::raw(int16_t{-2}))
      .add_u32("u32", 4'000'000'000u)
      .add("i32", GgufType::kI32, GgufBuilder::raw(int32_t{-3}))
      .add("u64", GgufType::kU64, raw_u64(1ull << 63))
      .add("i64", GgufType::kI64, GgufBuilder::raw(int64_t{-4}))
      .add_f32("f32", 1.5f)
      .add("f64", GgufType::kF64, GgufBuilder::raw(2.5))
      .add_bool("bool", true)
      .add_text("text", "h\xc3\xa9")
      .add_texts("texts", {"a", "", "bc"})
      .add_numbers<int32_t>("ints", GgufType::kI32, {1, -2})
      .add_numbers<float>("floats", GgufType::kF32, {0.5f})
      .add("nested", GgufType::kArray,
           raw_u32(9) + raw_u64(1) + raw_u32(8) + raw_u64(1) + GgufBuilder::text("deep"))
      .add_f32_tensor("w", {2, 1}, {1.0f, 2.0f})
      .add_tensor("q", kGgmlQ8_0, {32, 2}, std::string(68, '\x01'));
  return builder;
}

TEST(Gguf, ReadsEveryKindOfMetadata) {
  const TestDir dir;
  for (const uint32_t version : {2u, 3u}) {
    const auto file = GgufFile::open(dir.write("f", everything(version).build())).value();
    EXPECT_EQ(file->version(), version);
    EXPECT_EQ(file->get_int("u8").value(), 255);
    EXPECT_EQ(file->get_int("i8").value(), -1);
    EXPECT_EQ(file->get_int("u16").value(), 65535);
    EXPECT_EQ(file->get_int("i16").value(), -2);
    EXPECT_EQ(file->get_int("u32").value(), 4'000'000'000);
    EXPECT_EQ(file->get_int("i32").value(), -3);
    EXPECT_EQ(file->get_int("i64").value(), -4);
    EXPECT_EQ(file->metadata().at("u64").unsigned_integer, 1ull << 63);
    EXPECT_EQ(file->get_number("f32").value(), 1.5);
    EXPECT_EQ(file->get_number("f64").value(), 2.5);
    EXPECT_EQ(file->get_number("i32").value(), -3.0);
    EXPECT_TRUE(file->get_bool("bool").value());
    EXPECT_EQ(file->get_string("text").value(), "h\xc3\xa9");
    EXPECT_EQ(file->get_strings("texts").value(), (std::vector<std::string>{"a", "", "bc"}));
    EXPECT_EQ(file->get_ints("ints").value(), (std::vector<int64_t>{1, -2}));
    EXPECT_EQ(file->get_floats("floats").value(), (std::vector<float>{0.5f}));
    EXPECT_EQ(file->metadata().at("nested").arrays[0].strings[0], "deep");
  }
}

TEST(Gguf, ReadsTensors) {
  const TestDir dir;
  const auto file = GgufFile::open(dir.write("f", everything().build())).value();
  const GgufTensor& w = file->tensors().find("w")->second;
  EXPECT_EQ(w.type_name, "F32");
  EXPECT_EQ(w.dims, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(w.size_bytes, 8);
  float values[2];
  std::memcpy(values, w.data, 8);
  EXPECT_EQ(values[1], 2.0f);
  const GgufTensor& q = file->tensors().find("q")->second;
  EXPECT_EQ(q.size_bytes, 68);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(q.data) % 32, 0u);
  EXPECT_EQ(q.data[67], 1);
}

TEST(Gguf, WrongTypesAreNamed) {
  const TestDir dir;
  const auto file = GgufFile::open(dir.write("f", everything().build())).value();
  const std::string head = dir.file("f") + ": metadata ";
  EXPECT_EQ(file->get_int("none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(file->get_int("f32").status().message(), head + "'f32': expected an integer, got f32");
  EXPECT_EQ(file->get_int("u64").status().code(), StatusCode::kInvalidArgument);  // does not fit
  EXPECT_EQ(file->get_ints("texts").status().message(),
            head + "'texts': expected an array of integers, got array of string");
  EXPECT_EQ(file->get_ints("floats").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(file->get_strings("ints").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(file->get_bool("u8").status().code(), StatusCode::kInvalidArgument);
}

Status open_error(const TestDir& dir, const std::string& bytes) {
  return GgufFile::open(dir.write("f", bytes)).status();
}

TEST(Gguf, RefusesOtherFilesAndVersions) {
  const TestDir dir;
  EXPECT_EQ(open_error(dir, "").code(), StatusCode::kInvalidArgument);
  EXPECT_NE(open_error(dir, "PK\x03\x04....").message().find("not a GGUF file"), std::string::npos);
  EXPECT_EQ(open_error(dir, GgufBuilder(1).build()).code(), StatusCode::kUnimplemented);
  EXPECT_EQ(open_error(dir, GgufBuilder(4).build()).code(), StatusCode::kUnimplemented);
  EXPECT_NE(open_error(dir, GgufBuilder(0x03000000).build()).message().find("big-endian"),
            std::string::npos);
  EXPECT_EQ(GgufFile::open(dir.file("none")).status().code(), StatusCode::kNotFound);
}

TEST(Gguf, RefusesCountsThatTheFileCannotHold) {
  const TestDir dir;
  const std::string head = "GGUF" + raw_u32(3);
  EXPECT_NE(open_error(dir, head + raw_u64(~0ull) + raw_u64(0)).message().find("tensors"),
            std::string::npos);
  EXPECT_NE(open_error(dir, head + raw_u64(0) + raw_u64(~0ull)).message().find("metadata entries"),
            std::string::npos);
  EXPECT_NE(open_error(dir, head + raw_u64(0) + raw_u64(1) + raw_u64(1ull << 60))
                .message()
                .find("ends within"),
            std::string::npos);
  const auto array = [](uint32_t element) {
    return GgufBuilder().add("a", GgufType::kArray, raw_u32(element) + raw_u64(1ull << 61)).build();
  };
  for (const uint32_t element : {0u, 8u, 9u, 12u}) {
    EXPECT_NE(open_error(dir, array(element)).message().find("the file ends before"),
              std::string::npos)
        << element;
  }
}

TEST(Gguf, RefusesWhatIsMalformed) {
  const TestDir dir;
  struct Case {
    GgufBuilder builder;
    const char* expected;
  };
  std::string deep;
  for (int i = 0; i < 6; ++i) deep += raw_u32(9) + raw_u64(1);
  const Case cases[] = {
      {GgufBuilder().add_u32("a", 1).add_u32("a", 2), "'a' is given twice"},
      {GgufBuilder().add("a", static_cast<GgufType>(13), "x"), "unknown value type 13"},
      {GgufBuilder().add("a", GgufType::kBool, "\x02"), "a boolean of value 2"},
      {GgufBuilder().add("a", GgufType::kArray, deep), "nested deeper"},
      {GgufBuilder().add_u32("", 1), "a metadata key of 0 bytes"},
      {GgufBuilder().add_u32("general.alignment", 24), "general.alignment"},
      {GgufBuilder().add_u32("general.alignment", 0), "general.alignment"},
      {GgufBuilder().add_text("general.alignment", "32"), "expected an integer"},
      {GgufBuilder().add_f32_tensor("w", {}, {}), "0 dimensions"},
      {GgufBuilder().add_f32_tensor("w", {1, 1, 1, 1, 1}, {1}), "5 dimensions"},
      {GgufBuilder().add_f32_tensor("w", {0}, {}), "dimension 0"},
      {GgufBuilder().add_f32_tensor("w", {int64_t{1} << 40, int64_t{1} << 40}, {}), "dimension"},
      {GgufBuilder().add_f32_tensor("w", {int64_t{1} << 62}, {}), "size overflows"},
      {GgufBuilder().add_tensor("w", 77, {1}, "xxxx"), "unknown type 77"},
      {GgufBuilder().add_tensor("w", kGgmlQ4_0, {33}, std::string(36, 'x')), "rows of 33"},
      {GgufBuilder().add_f32_tensor("w", {3}, {1, 2}), "cut short"},
      {GgufBuilder().add_tensor_at("w", kGgmlF32, {1}, 4, "12345678"), "not aligned"},
      {GgufBuilder().add_tensor_at("w", kGgmlF32, {1}, ~0ull - 31, "1234"), "cut short"},
      {GgufBuilder().add_f32_tensor("v", {2}, {1, 2}).add_tensor_at("w", kGgmlF32, {1}, 0, ""),
       "overlaps"},
      {GgufBuilder().add_f32_tensor("w", {1}, {1}).add_f32_tensor("w", {1}, {1}), "is given twice"},
  };
  for (const Case& item : cases) {
    const Status status = open_error(dir, item.builder.build());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(item.expected), std::string::npos)
        << item.expected << ": " << status.message();
  }
}

GgufBuilder tokenizer_file() {
  GgufBuilder builder;
  builder.add_text("tokenizer.ggml.model", "gpt2")
      .add_text("tokenizer.ggml.pre", "smollm")
      .add_texts("tokenizer.ggml.tokens", {"<s>", "a", "b"})
      .add_numbers<int32_t>("tokenizer.ggml.token_type", GgufType::kI32, {3, 1, 1})
      .add_texts("tokenizer.ggml.merges", {"a b"})
      .add_u32("tokenizer.ggml.bos_token_id", 0)
      .add_u32("tokenizer.ggml.padding_token_id", 0xffffffff)
      .add_bool("tokenizer.ggml.add_bos_token", true)
      .add_text("tokenizer.chat_template", "{{ x }}");
  return builder;
}

TEST(GgufTokenizer, IsReadFromMetadata) {
  const TestDir dir;
  const auto file = GgufFile::open(dir.write("f", tokenizer_file().build())).value();
  const GgufTokenizer tokenizer = read_gguf_tokenizer(*file).value();
  EXPECT_EQ(tokenizer.pre, "smollm");
  EXPECT_EQ(tokenizer.tokens.size(), 3u);
  EXPECT_EQ(tokenizer.token_types, (std::vector<int32_t>{3, 1, 1}));
  EXPECT_EQ(tokenizer.bos_token, 0);
  EXPECT_EQ(tokenizer.eos_token, -1);      // absent
  EXPECT_EQ(tokenizer.padding_token, -1);  // written as the largest u32
  EXPECT_TRUE(tokenizer.add_bos_token);
  EXPECT_EQ(tokenizer.chat_template, "{{ x }}");
}

TEST(GgufTokenizer, PutsBosFirstWhereLlamaCppDoesUnlessTheFileSaysOtherwise) {
  const TestDir dir;
  const auto adds_bos = [&dir](GgufBuilder builder) {
    builder.add_texts("tokenizer.ggml.tokens", {"<bos>", "a"});
    const auto file = GgufFile::open(dir.write("f", builder.build())).value();
    return read_gguf_tokenizer(*file).value().add_bos_token;
  };
  const auto of = [](const char* model, const char* pre) {
    GgufBuilder builder;
    builder.add_text("tokenizer.ggml.model", model).add_text("tokenizer.ggml.pre", pre);
    return builder;
  };
  EXPECT_TRUE(adds_bos(of("llama", "default")));  // Gemma's, too
  EXPECT_TRUE(adds_bos(of("gpt2", "llama-bpe")));
  EXPECT_FALSE(adds_bos(of("gpt2", "qwen2")));
  EXPECT_FALSE(adds_bos(of("llama", "default").add_bool("tokenizer.ggml.add_bos_token", false)));
}

TEST(GgufTokenizer, RefusesFieldsThatDoNotFitTheVocabulary) {
  const TestDir dir;
  const auto error_of = [&dir](const GgufBuilder& builder) {
    return read_gguf_tokenizer(*GgufFile::open(dir.write("f", builder.build())).value()).status();
  };
  EXPECT_EQ(error_of(GgufBuilder()).code(), StatusCode::kNotFound);
  EXPECT_NE(error_of(tokenizer_file().add_u32("tokenizer.ggml.eos_token_id", 3))
                .message()
                .find("token 3 of 3"),
            std::string::npos);
  EXPECT_NE(
      error_of(tokenizer_file().add_numbers<float>("tokenizer.ggml.scores", GgufType::kF32, {1}))
          .message()
          .find("expected 3 values"),
      std::string::npos);
}

TEST(Gguf, DamagedFilesNeverCrashAndKeepTensorsInsideTheFile) {
  const TestDir dir;
  std::string bytes = everything().build();
  const auto parse = [&dir](const std::string& damaged) {
    const auto file = GgufFile::open(dir.write("f", damaged));
    if (!file.ok()) return;
    unsigned sum = 0;
    for (const auto& [name, tensor] : (*file)->tensors()) {
      for (int64_t i = 0; i < tensor.size_bytes; ++i) sum += tensor.data[i];
    }
    EXPECT_LE(sum, 255u * damaged.size());
    for (const auto& [key, value] : (*file)->metadata()) {
      (void)(*file)->get_ints(key).ok();
      (void)(*file)->get_strings(key).ok();
    }
    (void)read_gguf_tokenizer(**file).ok();
  };
  for_each_truncation(bytes, [&dir](const std::string& cut) {
    EXPECT_FALSE(GgufFile::open(dir.write("f", cut)).ok());
  });
  for_each_damage(bytes, 5000, parse);
  for_each_damage(tokenizer_file().build(), 2000, parse);
}

}  // namespace
}  // namespace mainspring
