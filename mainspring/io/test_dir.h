// TestDir: a folder of its own for a test, removed afterwards. For tests only.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "mainspring/base/check.h"

namespace mainspring {

class TestDir {
 public:
  TestDir() {
    // In memory if there is such a place: fuzz tests write thousands of small files.
    const bool in_memory = std::getenv("TMPDIR") == nullptr && ::access("/dev/shm", W_OK) == 0;
    std::string name = in_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string();
    name += "/ms-test-XXXXXX";
    MS_CHECK(::mkdtemp(name.data()) != nullptr, "mkdtemp");
    path_ = name;
  }
  ~TestDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

  /// Writes a file and returns its path.
  std::string write(std::string_view name, std::string_view bytes) const {
    std::filesystem::create_directories(std::filesystem::path(file(name)).parent_path());
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }
  std::string read(std::string_view name) const {
    std::ifstream in(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  bool has(std::string_view name) const { return std::filesystem::exists(file(name)); }
  /// How many entries the folder has, hidden ones included.
  int64_t count() const {
    int64_t n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      n += entry.exists() ? 1 : 0;
    return n;
  }

 private:
  std::string path_;
};

}  // namespace mainspring
