#include "mainspring/cli/cmd_eval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "mainspring/cli/result_file.h"
#include "mainspring/io/checksum.h"
#include "mainspring/io/test_compress.h"
#include "mainspring/io/test_dir.h"

namespace mainspring::cli {
namespace {

class EvalCommandTest : public testing::Test {
 protected:
  EvalFlags flags(const std::string& tasks, const std::string& out) {
    EvalFlags flags;
    flags.model.model = std::string(std::getenv("MS_SOURCE_DIR")) + "/tests/golden/tiny/qwen2";
    flags.model.threads = 1;
    flags.tasks = dir_.file(tasks);
    flags.out = dir_.file(out);
    flags.max_rows = 16;  // several windows
    return flags;
  }
  std::string tasks_text() {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      const std::string n = std::to_string(i);
      text += R"({"text":"the hen )" + n + R"( ate","task":"a"})" + "\n";
      text += R"({"query":"hen )" + n + R"(","choices":["the","a )" + n + R"("],"gold":1})" + "\n";
      text += R"({"query":"the )" + n + R"(","target":"x","max_tokens":3})" + "\n";
    }
    return text;
  }
  TestDir dir_;
};

TEST_F(EvalCommandTest, AResumedRunWritesWhatAnUninterruptedOneDoes) {
  dir_.write("tasks.jsonl", tasks_text());
  ASSERT_EQ(run_eval(flags("tasks.jsonl", "whole.jsonl")), 0);
  const std::string whole = dir_.read("whole.jsonl");
  EXPECT_EQ(std::count(whole.begin(), whole.end(), '\n'), 36);

  // As a run leaves it that was stopped after 17 rows.
  EvalFlags resumed = flags("tasks.jsonl", "cut.jsonl");
  const auto session = ModelSession::open(resumed.model).value();
  Checksum128 content;
  content.update(tasks_text().data(), tasks_text().size());
  MadeWith made = session->made_with();
  made.emplace_back("tasks", content.digest().hex());
  made.emplace_back("add-special-tokens", "false");
  {
    const auto file = ResultFile::open(resumed.out, false, [&] { return made; }).value();
    size_t begin = 0;
    for (int i = 0; i < 17; ++i) {
      const size_t end = whole.find('\n', begin);
      ASSERT_TRUE(file->append(whole.substr(begin, end - begin)).ok());
      begin = end + 1;
    }
  }
  EXPECT_EQ(run_eval(resumed), 1);  // rows are there, and --resume was not said
  resumed.resume = true;
  resumed.add_special_tokens = true;
  EXPECT_EQ(run_eval(resumed), 1);  // made otherwise
  resumed.add_special_tokens = false;
  ASSERT_EQ(run_eval(resumed), 0);
  EXPECT_TRUE(dir_.read("cut.jsonl") == whole);
  EXPECT_FALSE(dir_.has("cut.jsonl.partial"));
}

TEST_F(EvalCommandTest, AFinishedFileIsSummedUpAgain) {
  dir_.write("tasks.jsonl", tasks_text());
  EvalFlags finished = flags("tasks.jsonl", "out.jsonl");
  finished.json = true;
  testing::internal::CaptureStdout();
  ASSERT_EQ(run_eval(finished), 0);
  const std::string summary = testing::internal::GetCapturedStdout();
  finished.resume = true;
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_eval(finished), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), summary);
  // The outcomes of other tasks are no summary of these.
  dir_.write("tasks.jsonl", tasks_text() + "{\"text\":\"more\"}\n");
  EXPECT_EQ(run_eval(finished), 1);
  dir_.write("tasks.jsonl", "{\"text\":\"the hen 0 ate\",\"task\":\"a\"}\n");
  EXPECT_EQ(run_eval(finished), 1);
}

TEST_F(EvalCommandTest, CompressedTasksGiveTheSameOutcomes) {
  dir_.write("tasks.jsonl", tasks_text());
  dir_.write("tasks.jsonl.zst", zstd_of(tasks_text()));
  ASSERT_EQ(run_eval(flags("tasks.jsonl", "a.jsonl")), 0);
  ASSERT_EQ(run_eval(flags("tasks.jsonl.zst", "b.jsonl")), 0);
  EXPECT_TRUE(dir_.read("a.jsonl") == dir_.read("b.jsonl"));
  EXPECT_FALSE(dir_.read("a.jsonl").empty());
}

TEST_F(EvalCommandTest, AFieldWithoutUseIsSaidOnce) {
  dir_.write("tasks.jsonl", R"({"text":"a"})"
                            "\n"
                            R"({"text":"b","category":"x"})"
                            "\n"
                            R"({"text":"c","category":"y"})"
                            "\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(run_eval(flags("tasks.jsonl", "a.jsonl")), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t at = said.find("tasks.jsonl:2: category: is not used");
  EXPECT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find("category", at + 30), std::string::npos) << said;
}

TEST_F(EvalCommandTest, BadTasksAreRefusedBeforeAnythingIsWritten) {
  dir_.write("bad.jsonl", "{\"text\":\"a\"}\n{\"query\":\"b\"}\n");
  EXPECT_EQ(run_eval(flags("bad.jsonl", "out.jsonl")), 1);
  EXPECT_FALSE(dir_.has("out.jsonl.partial"));
  dir_.write("none.jsonl", "\n");
  EXPECT_EQ(run_eval(flags("none.jsonl", "out.jsonl")), 1);
}

}  // namespace
}  // namespace mainspring::cli
