// FaultyFileOps: the real file system with one fault in it, for tests of ckpt/.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mainspring/ckpt/file_ops.h"

namespace mainspring {

/// Counts every call that changes the disk; at call `fault_at` (0 is the first) the fault begins.
/// Syncs are counted but not done: they cost most of a small save and change nothing that a test
/// can see.
class FaultyFileOps final : public FileOps {
 public:
  enum class Fault {
    kNone,
    kFailOnce,  // this call fails as on a full disk, half of a write is done; later calls work
    kFull,      // all writes and creations from here on fail; removals work
    kCrash,     // half of a write is done, and nothing reaches the disk any more, as after a kill
  };
  Fault fault = Fault::kNone;
  int64_t fault_at = -1;
  std::atomic<int64_t> num_calls{0};
  int64_t largest_write = 0;
  std::function<void(const std::string& call)> before;  // may block

  Status make_dirs(const std::string& path) override {
    if (!enter("make_dirs " + path, true)) return full();
    return real_.make_dirs(path);
  }
  Result<std::unique_ptr<OutputFile>> create(const std::string& path) override {
    if (!enter("create " + path, true)) return full();
    Result<std::unique_ptr<OutputFile>> file = real_.create(path);
    if (!file.ok()) return file.status();
    return std::unique_ptr<OutputFile>(new File(*this, std::move(file).value(), path));
  }
  Status rename(const std::string& from, const std::string& to) override {
    if (!enter("rename " + from, false)) return full();
    return real_.rename(from, to);
  }
  Status sync_dir(const std::string& path) override {
    return enter("sync_dir " + path, false) ? Status() : full();
  }
  Status remove_all(const std::string& path) override {
    if (!enter("remove_all " + path, false)) return full();
    return real_.remove_all(path);
  }

 private:
  class File final : public OutputFile {
   public:
    File(FaultyFileOps& ops, std::unique_ptr<OutputFile> real, std::string path)
        : ops_(ops), real_(std::move(real)), path_(std::move(path)) {}
    Status write(std::span<const uint8_t> bytes) override {
      ops_.largest_write = std::max(ops_.largest_write, static_cast<int64_t>(bytes.size()));
      const bool first = ops_.num_calls == ops_.fault_at;
      if (ops_.enter("write " + path_, true)) return real_->write(bytes);
      if (first) (void)real_->write(bytes.first(bytes.size() / 2));
      return full();
    }
    Status sync() override { return ops_.enter("sync " + path_, true) ? Status() : full(); }

   private:
    FaultyFileOps& ops_;
    std::unique_ptr<OutputFile> real_;
    std::string path_;
  };

  static Status full() { return resource_exhausted("no space left on device"); }

  bool enter(const std::string& call, bool takes_space) {
    if (before) before(call);
    const int64_t number = num_calls++;
    switch (fault) {
      case Fault::kNone:
        return true;
      case Fault::kFailOnce:
        return number != fault_at;
      case Fault::kFull:
        return number < fault_at || !takes_space;
      case Fault::kCrash:
        return number < fault_at;
    }
    return true;
  }

  FileOps& real_ = system_file_ops();
};

}  // namespace mainspring
