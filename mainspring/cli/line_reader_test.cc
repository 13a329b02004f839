#include "mainspring/cli/line_reader.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "mainspring/cli/interrupt.h"

namespace mainspring::cli {
namespace {

class LineReaderTest : public ::testing::Test {
 protected:
  LineReaderTest() { EXPECT_EQ(pipe(ends_), 0); }
  ~LineReaderTest() override {
    close(ends_[0]);
    if (ends_[1] >= 0) close(ends_[1]);
  }
  void type(const std::string& text) {
    EXPECT_EQ(write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void end() {
    close(ends_[1]);
    ends_[1] = -1;
  }
  int ends_[2];
};

TEST_F(LineReaderTest, GivesLinesAndALastOneWithoutNewline) {
  type("one\r\n\ntwo");
  end();
  LineReader reader(ends_[0]);
  std::string line;
  EXPECT_EQ(reader.read(line), LineReader::Outcome::kLine);
  EXPECT_EQ(line, "one");
  EXPECT_EQ(reader.read(line), LineReader::Outcome::kLine);
  EXPECT_EQ(line, "");
  EXPECT_EQ(reader.read(line), LineReader::Outcome::kLine);
  EXPECT_EQ(line, "two");
  EXPECT_EQ(reader.read(line), LineReader::Outcome::kEnd);
}

TEST_F(LineReaderTest, ASignalInterruptsAReadAndIsRemembered) {
  Interrupt interrupt(/*second_ends=*/false);
  LineReader reader(ends_[0]);
  const pthread_t self = pthread_self();
  // Signals until one meets the read: there is no telling when it begins to wait.
  std::atomic<bool> done = false;
  std::thread sender([&] {
    while (!done) {
      pthread_kill(self, SIGINT);
      std::this_thread::yield();
    }
  });
  std::string line;
  EXPECT_EQ(reader.read(line), LineReader::Outcome::kInterrupted);
  done = true;
  sender.join();
  EXPECT_EQ(interrupt.pending(), SIGINT);
  interrupt.clear();
  EXPECT_EQ(interrupt.pending(), 0);
}

}  // namespace
}  // namespace mainspring::cli
