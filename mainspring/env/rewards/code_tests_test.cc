#include "mainspring/env/rewards/code_tests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "mainspring/io/test_dir.h"

namespace mainspring {
namespace {

using testing::HasSubstr;

class CodeTestsTest : public testing::Test {
 protected:
  static const CodeTests& tests() {
    static const CodeTests kept = CodeTests::open("python3", {.seconds = 60}).value();
    return kept;
  }
  static CodeVerdict run(const std::string& code, const std::vector<std::string>& list) {
    return tests().run(code, list).value();
  }
};

TEST_F(CodeTestsTest, CountsTheTestsThatPass) {
  const CodeVerdict verdict =
      run("def double(x):\n  return 2 * x if x else 1\n",
          {"assert double(3) == 6", "assert double(0) == 0", "assert double(-1) == -2"});
  EXPECT_EQ(verdict.passed, 2);
  EXPECT_EQ(verdict.total, 3);
  EXPECT_EQ(verdict.message, "test 2: AssertionError: ");
  EXPECT_EQ(run("print('x' * 100000)", {"pass"}).passed, 1);
}

TEST_F(CodeTestsTest, CodeThatFailsPassesNothing) {
  EXPECT_EQ(run("x = (", {"pass"}).passed, 0);
  EXPECT_THAT(run("raise ValueError('no')", {"pass"}).message, HasSubstr("ValueError: no"));
  EXPECT_THAT(run("x = 1", {"assert y"}).message, HasSubstr("NameError"));
}

TEST_F(CodeTestsTest, LeavingEarlyIsNoWayToPass) {
  EXPECT_EQ(run("import os; os._exit(0)", {"assert False"}).passed, 0);
  EXPECT_EQ(run("import sys; sys.exit(0)", {"assert False"}).passed, 0);
  EXPECT_EQ(run("import sys; sys.exit(0)", {"pass"}).passed, 1);
  EXPECT_EQ(run("def f():\n  raise SystemExit", {"f()"}).passed, 0);
  EXPECT_EQ(run("def f():\n  import os; os._exit(0)", {"f()", "pass"}).passed, 0);
  const std::string forge =
      "import os\nfor fd in range(3, 10):\n  try:\n    os.write(fd, b'{\"problem\""
      ": \"\"}\\n{\"key\": \"\", \"problem\": \"\"}\\n')\n  except OSError: pass\n";
  EXPECT_EQ(run(forge, {"assert False"}).passed, 0);
}

TEST_F(CodeTestsTest, LimitsHold) {
  EXPECT_THAT(run("x = bytearray(1 << 30)", {"pass"}).message, HasSubstr("MemoryError"));
  EXPECT_THAT(run("import socket; socket.create_connection(('127.0.0.1', 1))", {"pass"}).message,
              HasSubstr("PermissionError"));
  EXPECT_THAT(run("import subprocess; subprocess.run(['true'])", {"pass"}).message,
              HasSubstr("PermissionError"));
  TestDir dir;
  EXPECT_THAT(run("open('" + dir.file("x") + "', 'w')", {"pass"}).message,
              HasSubstr("PermissionError"));
  EXPECT_THAT(run("import os; os.kill(os.getppid(), 9)", {"pass"}).message,
              HasSubstr("PermissionError"));
  EXPECT_EQ(run("import os; assert 'HOME' not in os.environ", {"pass"}).passed, 1);
}

TEST_F(CodeTestsTest, TimeIsLimited) {
  const CodeVerdict verdict =
      tests().with_seconds(1).run("x = 1", {"assert x", "while True: pass", "assert x"}).value();
  EXPECT_LE(verdict.passed, 1);
  EXPECT_THAT(verdict.message, HasSubstr("ran out of time"));
  const auto hurried = CodeTests::open("python3", {.seconds = 1e-3});
  ASSERT_FALSE(hurried.ok());
  EXPECT_THAT(hurried.status().message(), HasSubstr("ran out of time"));
}

TEST_F(CodeTestsTest, WhatCannotBeIsToldAtOpen) {
  EXPECT_THAT(CodeTests::open("no-such-python", {}).status().message(),
              HasSubstr("cannot run \"no-such-python\""));
  const auto tiny = CodeTests::open("python3", {.seconds = 60, .memory_bytes = 4 << 20});
  ASSERT_FALSE(tiny.ok());
  EXPECT_THAT(tiny.status().message(), HasSubstr("does not run within the limits"));
}

TEST(FindCode, TakesTheLastClosedBlock) {
  EXPECT_EQ(find_code("x = 1"), "x = 1");
  EXPECT_EQ(find_code("So:\n```python\na\n```\nor\n```\nb\nc\n```\n"), "b\nc\n");
  EXPECT_EQ(find_code("```python\na\n```\n```\nb"), "a\n");
  EXPECT_EQ(find_code("```"), "```");
}

}  // namespace
}  // namespace mainspring
