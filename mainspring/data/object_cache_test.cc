// Remote objects from a server of the test's own on loopback (tests/support/object_server.py).
#include "mainspring/data/object_cache.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "mainspring/data/data_loader.h"
#include "mainspring/data/shard_build.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/text/byte_tokenizer.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

namespace fs = std::filesystem;

// Started for one test, ended by its process number.
class ObjectServer {
 public:
  explicit ObjectServer(const std::string& folder) {
    int to_server[2];
    int from_server[2];
    if (pipe(to_server) != 0 || pipe(from_server) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to_server[0], STDIN_FILENO);
      dup2(from_server[1], STDOUT_FILENO);
      for (const int fd : {to_server[0], to_server[1], from_server[0], from_server[1]}) close(fd);
      const std::string script = test::source_path("tests/support/object_server.py");
      execlp("python3", "python3", script.c_str(), folder.c_str(), nullptr);
      _exit(127);
    }
    close(to_server[0]);
    close(from_server[1]);
    stdin_ = to_server[1];
    char digit = 0;
    while (read(from_server[0], &digit, 1) == 1 && digit != '\n') port_ += digit;
    close(from_server[0]);
  }
  ~ObjectServer() {
    close(stdin_);
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ObjectServer(const ObjectServer&) = delete;
  ObjectServer& operator=(const ObjectServer&) = delete;

  std::string base() const { return "http://127.0.0.1:" + port_; }

 private:
  pid_t pid_ = -1;
  int stdin_ = -1;
  std::string port_;
};

class ObjectCache : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 3000; ++i) content_ += "line " + std::to_string(i * 7919) + "\n";
    write("rows.txt", content_);
    fs::create_directories(dir_.path() + "/served");
    options_.folder = dir_.path() + "/cache";
    options_.limits = {.retries = 3, .first_wait_ms = 1, .timeout_ms = 2000};
  }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories(dir_.path() + "/served");
    std::ofstream(dir_.path() + "/served/" + name, std::ios::binary) << text;
  }
  std::string log() {
    const auto text = read_text_file(dir_.path() + "/served/requests.log");
    return text.ok() ? *text : "";
  }
  int num_requests() {
    const std::string text = log();
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }
  void expect_content(const Result<FetchedObject>& fetched) {
    ASSERT_TRUE(fetched.ok()) << fetched.status().to_string();
    EXPECT_EQ(read_text_file(fetched->path).value(), content_);
  }
  Status error_of(const std::string& url) { return fetch_object(url, options_).status(); }

  TestDir dir_;
  std::string content_;
  FetchOptions options_;
  ObjectServer server_{dir_.path() + "/served"};
};

TEST_F(ObjectCache, AnObjectIsReadOnceWhileItsVersionStays) {
  int64_t done = 0;
  int64_t total = 0;
  options_.on_fetch = [&](const std::string&, int64_t have, int64_t all) {
    EXPECT_GT(have, done);
    done = have;
    total = all;
  };
  const std::string url = server_.base() + "/good/rows.txt";
  const auto first = fetch_object(url, options_);
  expect_content(first);
  EXPECT_EQ(done, std::ssize(content_));
  EXPECT_EQ(total, done);
  options_.on_fetch = [](const std::string&, int64_t, int64_t) { FAIL() << "it is here"; };
  const auto second = fetch_object(url, options_);
  expect_content(second);
  EXPECT_EQ(second->path, first->path);
  EXPECT_EQ(second->version, first->version);
  EXPECT_FALSE(fs::exists(first->path + ".part"));
}

TEST_F(ObjectCache, ANewVersionOrADamagedCopyIsReadAnew) {
  const std::string url = server_.base() + "/good/rows.txt";
  const auto first = fetch_object(url, options_);
  expect_content(first);
  content_ += "more\n";
  write("rows.txt", content_);
  const auto second = fetch_object(url, options_);
  expect_content(second);
  EXPECT_NE(second->version.etag, first->version.etag);
  std::string damaged = content_;
  damaged[100] ^= 1;
  std::ofstream(second->path, std::ios::binary) << damaged;
  expect_content(fetch_object(url, options_));
}

TEST_F(ObjectCache, ABodyThatBreaksOffGoesOnWhereItStopped) {
  expect_content(fetch_object(server_.base() + "/once/rows.txt", options_));
  EXPECT_NE(log().find(" bytes=" + std::to_string(content_.size() / 2) + "-"), std::string::npos)
      << log();
  // 1,000 new bytes each time: many more breaks than `retries`, each after something new.
  write("short.txt", content_.substr(0, 9500));
  content_.resize(9500);
  expect_content(fetch_object(server_.base() + "/cut/short.txt", options_));
}

TEST_F(ObjectCache, WhatHasComeIsKeptForTheNextProcess) {
  const std::string url = server_.base() + "/good/rows.txt";
  FetchOptions stopping = options_;
  int parts = 0;
  stopping.should_stop = [&] { return ++parts > 2; };
  const Status stopped = fetch_object(url, stopping).status();
  ASSERT_EQ(stopped.code(), StatusCode::kCancelled) << stopped.to_string();
  int64_t kept = 0;
  for (const auto& entry : fs::directory_iterator(options_.folder)) {
    if (entry.path().extension() == ".part") kept = static_cast<int64_t>(entry.file_size());
  }
  ASSERT_GT(kept, 0);
  ASSERT_LT(kept, std::ssize(content_));
  expect_content(fetch_object(url, options_));
  EXPECT_NE(log().find(" bytes=" + std::to_string(kept) + "-"), std::string::npos) << log();
}

TEST_F(ObjectCache, AnObjectThatHasChangedSinceIsNotPatchedTogether) {
  const std::string url = server_.base() + "/good/rows.txt";
  FetchOptions stopping = options_;
  int parts = 0;
  stopping.should_stop = [&] { return ++parts > 2; };
  ASSERT_FALSE(fetch_object(url, stopping).ok());
  content_ = "another " + content_;
  write("rows.txt", content_);
  expect_content(fetch_object(url, options_));
}

TEST_F(ObjectCache, AnObjectThatNeverStaysIsRefused) {
  const Status status = error_of(server_.base() + "/moving/rows.txt");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("/moving/rows.txt: "), std::string::npos) << status.message();
}

TEST_F(ObjectCache, AServerWithoutVersionsOrRangesServesButIsNotCached) {
  const std::string url = server_.base() + "/plain/rows.txt";
  expect_content(fetch_object(url, options_));
  const int before = num_requests();
  content_ += "more\n";
  write("rows.txt", content_);
  expect_content(fetch_object(url, options_));
  EXPECT_GT(num_requests(), before);
}

TEST_F(ObjectCache, ABusyServerIsAskedAgain) {
  expect_content(fetch_object(server_.base() + "/busy/rows.txt", options_));
  EXPECT_EQ(num_requests(), 3);
}

TEST_F(ObjectCache, RefusalsSayWhatAndWhere) {
  const std::string missing = server_.base() + "/good/missing.txt";
  EXPECT_EQ(error_of(missing).code(), StatusCode::kNotFound);
  EXPECT_EQ(error_of(missing).message().find(missing + ": is not there"), 0u)
      << error_of(missing).message();
  const Status denied = error_of(server_.base() + "/denied/rows.txt");
  EXPECT_EQ(denied.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(denied.message().find("access is denied"), std::string::npos) << denied.message();
  const Status refused = error_of("http://127.0.0.1:1/rows.txt");
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_NE(refused.message().find("http://127.0.0.1:1/rows.txt: "), std::string::npos)
      << refused.message();
}

TEST_F(ObjectCache, BodiesThatGiveNothingEndAfterTheRetries) {
  const Status dead = error_of(server_.base() + "/dead/rows.txt");
  EXPECT_EQ(dead.code(), StatusCode::kUnavailable);
  EXPECT_NE(dead.message().find("gave no new byte in 4 attempts after 0 of"), std::string::npos)
      << dead.message();
  options_.limits = {.retries = 1, .first_wait_ms = 1, .timeout_ms = 100};
  const Status stalled = error_of(server_.base() + "/stall/rows.txt");
  EXPECT_EQ(stalled.code(), StatusCode::kUnavailable);
  EXPECT_NE(stalled.message().find("no byte for 0.100 s"), std::string::npos) << stalled.message();
}

TEST_F(ObjectCache, S3CredentialsComeFromTheEnvironment) {
  setenv("AWS_ENDPOINT", server_.base().c_str(), 1);
  const Status unsigned_request = error_of("s3://s3/rows.txt");
  EXPECT_EQ(unsigned_request.code(), StatusCode::kFailedPrecondition)
      << unsigned_request.to_string();
  setenv("AWS_ACCESS_KEY_ID", "TESTKEY", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  expect_content(fetch_object("s3://s3/rows.txt", options_));
  EXPECT_EQ(error_of("s3://s3/nothing.txt").code(), StatusCode::kNotFound);
  EXPECT_NE(error_of("s3://s3").message().find("expected a bucket and a key"), std::string::npos);
  for (const char* name : {"AWS_ENDPOINT", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"})
    unsetenv(name);
}

TEST_F(ObjectCache, ALoaderAndABuildReadUrlsAsFiles) {
  setenv("MAINSPRING_CACHE", dir_.path().c_str(), 1);
  const std::string name = "tokens_zstd.parquet";
  const std::string local = test::source_path("tests/golden/parquet/" + name);
  fs::copy_file(local, dir_.path() + "/served/" + name);
  const auto open = [](const std::string& path) {
    DataOptions options;
    options.sources = {{"", {path}, 0.0}};
    return DataLoader::open(options,
                            std::make_shared<RowEncoder>(nullptr, nullptr, RowEncoderOptions{}));
  };
  const auto remote = open(server_.base() + "/good/" + name);
  ASSERT_TRUE(remote.ok()) << remote.status().to_string();
  EXPECT_EQ((*remote)->state(), (*open(local))->state()) << "the same rows";
  EXPECT_EQ((*remote)->report()[0].name, server_.base() + "/good/" + name);

  ShardBuildOptions build;
  build.inputs = {server_.base() + "/good/rows.txt"};
  build.out = dir_.path() + "/out";
  build.tokenizer = Tokenizer::from_json(byte_tokenizer_json(), {.eos = kByteEndOfText}).value();
  const auto index = build_shards(build);
  ASSERT_TRUE(index.ok()) << index.status().to_string();
  EXPECT_EQ(ShardIndex::tokens_of(index->train), std::ssize(content_) + 1);
  write("rows.txt", content_ + "more\n");
  const Status changed = build_shards(build).status();
  EXPECT_NE(changed.message().find("/good/rows.txt has changed since"), std::string::npos)
      << changed.to_string();
  unsetenv("MAINSPRING_CACHE");
}

}  // namespace
}  // namespace mainspring
