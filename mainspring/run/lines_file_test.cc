#include "mainspring/run/lines_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "mainspring/io/json.h"

namespace mainspring {
namespace {

class LinesFileTest : public testing::Test {
 protected:
  std::string path_ = testing::TempDir() + "/lines-" + std::to_string(::getpid()) + ".jsonl";
  void TearDown() override { std::filesystem::remove(path_); }
  void put(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  std::string all() {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_F(LinesFileTest, AppendedLinesComeBackInOrder) {
  LinesFile file(path_);
  ASSERT_TRUE(file.append(Json{{"step", 1}}).ok());
  ASSERT_TRUE(file.append(Json{{"step", 2}}).ok());
  std::vector<int> steps;
  ASSERT_TRUE(file.scan(false,
                        [&](const Json& json) {
                          steps.push_back(json["step"].get<int>());
                          return true;
                        })
                  .ok());
  EXPECT_EQ(steps, (std::vector<int>{1, 2}));
}

TEST_F(LinesFileTest, ALineThatAKillBrokeIsCutAndTheNextOneAppendsCleanly) {
  put("{\"step\":1}\n{\"step\":2,\"lo");
  LinesFile file(path_);
  ASSERT_TRUE(file.scan(true, [](const Json&) { return true; }).ok());
  ASSERT_TRUE(file.append(Json{{"step", 2}}).ok());
  EXPECT_EQ(all(), "{\"step\":1}\n{\"step\":2}\n");
}

TEST_F(LinesFileTest, TheFirstRefusedLineEndsTheFileWhenCutting) {
  put("{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  LinesFile file(path_);
  ASSERT_TRUE(file.scan(true, [](const Json& json) { return json["step"].get<int>() < 2; }).ok());
  EXPECT_EQ(all(), "{\"step\":1}\n");
}

TEST_F(LinesFileTest, WithoutCutNothingChanges) {
  put("{\"step\":1}\nbroken");
  LinesFile file(path_);
  ASSERT_TRUE(file.scan(false, [](const Json&) { return true; }).ok());
  EXPECT_EQ(all(), "{\"step\":1}\nbroken");
}

TEST_F(LinesFileTest, AMissingFileHasNoLines) {
  LinesFile file(path_);
  EXPECT_TRUE(file.scan(true, [](const Json&) { return true; }).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(LinesFileTest, AFullDiskIsResourceExhausted) {
  LinesFile file("/dev/full");
  EXPECT_EQ(file.append(Json{{"step", 1}}).code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace mainspring
