#include "mainspring/ckpt/writer.h"

#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "mainspring/ckpt/manifest.h"
#include "mainspring/ckpt/tensor_file.h"
#include "mainspring/io/checksum.h"
#include "mainspring/io/mapped_file.h"

namespace mainspring {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status check_content(const CheckpointContent& content) {
  if (content.state.step < 0) return invalid_argument("checkpoint: the step is negative");
  if (content.files.empty()) return invalid_argument("checkpoint: has no tensor file");
  std::set<std::string> names = {std::string(kManifestName), std::string(kStateName),
                                 std::string(kNextLossName)};
  const auto take = [&names](const std::string& name) -> Status {
    const bool plain = !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
    if (!plain) return invalid_argument("checkpoint: '" + name + "' is no file name");
    if (!names.insert(name).second) return invalid_argument("checkpoint: '" + name + "' is taken");
    return {};
  };
  std::set<std::string> roles;
  for (const CheckpointFile& file : content.files) {
    MS_RETURN_IF_ERROR(take(file.file_name));
    if (file.role.empty() || file.role.find('/') != std::string::npos || file.tensors.empty()) {
      return invalid_argument("checkpoint: " + file.file_name +
                              ": needs a role without a slash, and tensors");
    }
    MS_RETURN_IF_ERROR(check_tensors(file));
    for (const auto& [name, tensor] : file.tensors) {
      if (!roles.insert(file.role + "/" + name).second) {
        return invalid_argument("checkpoint: " + file.file_name + ": tensor '" + file.role + "/" +
                                name + "' is there twice");
      }
    }
  }
  for (const auto& [name, text] : content.texts) MS_RETURN_IF_ERROR(take(name));
  return {};
}

/// Names in `dir` that an interrupted save or removal left.
std::vector<std::string> leftovers_in(const std::string& dir) {
  std::vector<std::string> names;
  DIR* handle = ::opendir(dir.c_str());
  if (handle == nullptr) return names;
  while (const dirent* entry = ::readdir(handle)) {
    const std::string name = entry->d_name;
    if (name.rfind(".tmp-", 0) == 0 || name.rfind(".old-", 0) == 0) names.push_back(name);
  }
  ::closedir(handle);
  return names;
}

/// One save, step by step, on the writer's thread.
class Save {
 public:
  Save(const CheckpointWriterOptions& options, const CheckpointContent& content,
       std::function<Status()> progress, std::function<void()> tensors_done)
      : options_(options),
        ops_(options.file_ops != nullptr ? *options.file_ops : system_file_ops()),
        content_(content),
        progress_(std::move(progress)),
        tensors_done_(std::move(tensors_done)),
        name_(checkpoint_name(content.state.step)),
        temporary_(join_path(options.checkpoints_dir, ".tmp-" + name_)) {}

  void run(SaveReport& report) {
    report.status = write();
    tensors_done_();
    if (report.status.ok()) report.status = publish();
    if (!report.status.ok()) {
      (void)ops_.remove_all(temporary_);  // what cannot be removed is swept by the next start
      return;
    }
    report.path = join_path(options_.checkpoints_dir, name_);
    report.digest = manifest_.digest;
    for (const Manifest::File& file : manifest_.files) report.size_bytes += file.size_bytes;
    retain(report);
  }

 private:
  Status write() {
    MS_RETURN_IF_ERROR(ops_.make_dirs(options_.checkpoints_dir));
    for (const std::string& name : leftovers_in(options_.checkpoints_dir)) {
      MS_RETURN_IF_ERROR(ops_.remove_all(join_path(options_.checkpoints_dir, name)));
    }
    MS_RETURN_IF_ERROR(ops_.make_dirs(temporary_));
    for (const CheckpointFile& file : content_.files) {
      MS_ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> out,
                          ops_.create(join_path(temporary_, file.file_name)));
      MS_ASSIGN_OR_RETURN(WrittenFile written,
                          write_tensor_file(file, *out, options_.piece_bytes, progress_));
      manifest_.files.push_back(std::move(written.entry));
      for (CheckpointTensor& tensor : written.tensors)
        manifest_.tensors.push_back(std::move(tensor));
      open_files_.push_back(std::move(out));
    }
    return {};
  }

  /// Everything after the last byte of a tensor was read.
  Status publish() {
    for (const auto& file : open_files_) {
      MS_RETURN_IF_ERROR(file->sync());
      MS_RETURN_IF_ERROR(progress_());
    }
    open_files_.clear();
    for (const auto& [name, text] : content_.texts) MS_RETURN_IF_ERROR(put_text(name, text));
    MS_RETURN_IF_ERROR(put_text(std::string(kStateName), state_text(content_.state)));
    manifest_.format_version = kCheckpointFormat;
    manifest_.step = content_.state.step;
    manifest_.eval_loss = content_.state.eval_loss;
    std::sort(manifest_.tensors.begin(), manifest_.tensors.end(),
              [](const CheckpointTensor& a, const CheckpointTensor& b) { return a.key < b.key; });
    manifest_.digest = logical_digest(content_.state, manifest_.tensors);
    MS_RETURN_IF_ERROR(write_text(std::string(kManifestName), manifest_text(manifest_)));
    MS_RETURN_IF_ERROR(ops_.sync_dir(temporary_));
    MS_RETURN_IF_ERROR(progress_());
    const std::string target = join_path(options_.checkpoints_dir, name_);
    // A checkpoint of this step is there only if it was found corrupt and the run came here again.
    if (is_directory(target)) MS_RETURN_IF_ERROR(set_aside(name_));
    MS_RETURN_IF_ERROR(ops_.rename(temporary_, target));
    MS_RETURN_IF_ERROR(ops_.sync_dir(options_.checkpoints_dir));
    return ops_.remove_all(join_path(options_.checkpoints_dir, ".old-" + name_));
  }

  /// Keeps the newest and the best; what goes is renamed first, so that no half-removed folder
  /// looks like a corrupt checkpoint.
  void retain(SaveReport& report) {
    const int64_t step = content_.state.step;
    std::vector<CheckpointEntry> entries = list_checkpoints(options_.checkpoints_dir);
    std::set<int64_t> keep = {step};
    int64_t newer = 0;
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
      // Later steps are leftovers of a run that was resumed before them: they were not usable.
      if (entry->step <= step && newer++ < std::max<int64_t>(1, options_.keep_last))
        keep.insert(entry->step);
    }
    std::vector<CheckpointEntry> best;
    for (const CheckpointEntry& entry : entries) {
      if (entry.eval_loss && entry.step <= step) best.push_back(entry);
    }
    std::sort(best.begin(), best.end(), [](const CheckpointEntry& a, const CheckpointEntry& b) {
      return *a.eval_loss != *b.eval_loss ? *a.eval_loss < *b.eval_loss : a.step > b.step;
    });
    for (int64_t i = 0; i < options_.keep_best && i < static_cast<int64_t>(best.size()); ++i) {
      keep.insert(best[i].step);
    }
    for (const CheckpointEntry& entry : entries) {
      if (keep.count(entry.step) != 0) continue;
      const std::string name = checkpoint_name(entry.step);
      if (!set_aside(name).ok()) continue;  // tried again after the next save
      (void)ops_.remove_all(join_path(options_.checkpoints_dir, ".old-" + name));
      report.removed.push_back(entry.path);
    }
  }

  Status set_aside(const std::string& name) {
    const std::string old = join_path(options_.checkpoints_dir, ".old-" + name);
    MS_RETURN_IF_ERROR(ops_.remove_all(old));
    return ops_.rename(join_path(options_.checkpoints_dir, name), old);
  }

  Status put_text(const std::string& name, const std::string& text) {
    manifest_.files.push_back(
        {name, static_cast<int64_t>(text.size()), checksum128(text.data(), text.size()).hex()});
    return write_text(name, text);
  }

  Status write_text(const std::string& name, const std::string& text) {
    MS_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> out,
                        ops_.create(join_path(temporary_, name)));
    MS_RETURN_IF_ERROR(out->write({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
    return out->sync();
  }

  const CheckpointWriterOptions& options_;
  FileOps& ops_;
  const CheckpointContent& content_;
  std::function<Status()> progress_;
  std::function<void()> tensors_done_;
  std::string name_;
  std::string temporary_;
  Manifest manifest_;
  std::vector<std::unique_ptr<OutputFile>> open_files_;
};

struct NextLoss {
  int64_t step = 0;
  double loss_sum = 0.0;
};

/// Not fatal: without it a resumed run has nothing to compare with.
void write_next_loss(const CheckpointWriterOptions& options, const NextLoss& loss) {
  FileOps& ops = options.file_ops != nullptr ? *options.file_ops : system_file_ops();
  const std::string dir = join_path(options.checkpoints_dir, checkpoint_name(loss.step));
  const std::string temporary = join_path(dir, ".tmp-" + std::string(kNextLossName));
  const std::string text = next_loss_text(loss.step, loss.loss_sum);
  Result<std::unique_ptr<OutputFile>> out = ops.create(temporary);
  if (!out.ok()) return;
  if (!(*out)->write({reinterpret_cast<const uint8_t*>(text.data()), text.size()}).ok()) return;
  if (!(*out)->sync().ok()) return;
  if (ops.rename(temporary, join_path(dir, kNextLossName)).ok()) (void)ops.sync_dir(dir);
}

}  // namespace

/// Shared with the thread, which may be left behind in a write that never returns.
class CheckpointWriter::Impl {
 public:
  CheckpointWriterOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<CheckpointContent> content;  // of the save in flight
  std::optional<NextLoss> next_loss;
  bool reading_tensors = false;
  bool stop = false;
  bool ended = false;
  bool abandoned = false;   // the deadline passed: nothing of this save may appear
  uint64_t num_pieces = 0;  // that moved, for the deadline
  int64_t last_step = -1;
  bool last_ok = false;
  Status unreported;
  double waited_seconds = 0.0;
  std::deque<SaveReport> reports;
  std::thread thread;

  void run();
  void run_save(std::unique_lock<std::mutex>& lock);
  bool wait_for(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);
  Status stalled_status() const;
};

void CheckpointWriter::Impl::run() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return stop || content || next_loss; });
    if (content) {
      run_save(lock);
    } else if (next_loss) {
      const NextLoss loss = *next_loss;
      const bool wanted = last_ok && loss.step == last_step && !abandoned;
      lock.unlock();
      if (wanted) write_next_loss(options, loss);
      lock.lock();
      next_loss.reset();
      changed.notify_all();
    } else {
      break;  // stop, with nothing left to do
    }
  }
  ended = true;
  changed.notify_all();
}

void CheckpointWriter::Impl::run_save(std::unique_lock<std::mutex>& lock) {
  const Clock::time_point start = Clock::now();
  SaveReport report;
  report.step = content->state.step;
  lock.unlock();
  const auto progress = [this]() -> Status {
    const std::lock_guard<std::mutex> guard(mutex);
    ++num_pieces;
    return abandoned ? stalled_status() : Status();
  };
  const auto tensors_done = [this] {
    const std::lock_guard<std::mutex> guard(mutex);
    reading_tensors = false;
    for (CheckpointFile& file : content->files) file.tensors.clear();  // lets the owners go
    changed.notify_all();
  };
  Save(options, *content, progress, tensors_done).run(report);
  report.status = report.status.with_context("checkpoint of step " + std::to_string(report.step));
  report.seconds = seconds_since(start);
  lock.lock();
  report.waited_seconds = waited_seconds;
  waited_seconds = 0.0;
  last_step = report.step;
  last_ok = report.status.ok();
  if (!report.status.ok()) unreported = report.status;
  reports.push_back(std::move(report));
  content.reset();
  changed.notify_all();
}

Status CheckpointWriter::Impl::stalled_status() const {
  return deadline_exceeded(options.checkpoints_dir + ": a write made no progress for " +
                           std::to_string(static_cast<int64_t>(options.stall_timeout_s)) + " s");
}

/// False if the thread has made no progress for the deadline; the save is then abandoned.
bool CheckpointWriter::Impl::wait_for(std::unique_lock<std::mutex>& lock,
                                      const std::function<bool()>& done) {
  const Clock::time_point start = Clock::now();
  bool finished = abandoned || done();
  while (!finished) {
    const uint64_t seen = num_pieces;
    finished = changed.wait_for(lock, std::chrono::duration<double>(options.stall_timeout_s), done);
    if (!finished && num_pieces == seen) {
      abandoned = true;
      unreported = stalled_status();
      break;
    }
  }
  waited_seconds += seconds_since(start);
  return !abandoned;
}

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options)
    : impl_(std::make_shared<Impl>()) {
  MS_CHECK(options.piece_bytes > 0, "pieces have bytes");
  impl_->options = std::move(options);
}

CheckpointWriter::~CheckpointWriter() {
  if (!impl_->thread.joinable()) return;
  bool ended = false;
  {
    std::unique_lock<std::mutex> lock(impl_->mutex);
    impl_->stop = true;
    impl_->changed.notify_all();
    impl_->wait_for(lock, [this] { return impl_->ended; });
    ended = impl_->ended;
  }
  if (ended) {
    impl_->thread.join();
  } else {
    impl_->thread.detach();  // hangs in a write; it holds impl_ itself
  }
}

Status CheckpointWriter::start(CheckpointContent content) {
  MS_RETURN_IF_ERROR(check_content(content));
  std::unique_lock<std::mutex> lock(impl_->mutex);
  if (!impl_->wait_for(lock, [this] { return !impl_->content && !impl_->next_loss; })) {
    return impl_->stalled_status();
  }
  impl_->content = std::move(content);
  impl_->reading_tensors = true;
  if (!impl_->thread.joinable()) {
    impl_->thread = std::thread([impl = impl_] { impl->run(); });
  }
  impl_->changed.notify_all();
  return {};
}

void CheckpointWriter::wait_before_mutation() {
  std::unique_lock<std::mutex> lock(impl_->mutex);
  impl_->wait_for(lock, [this] { return !impl_->reading_tensors; });
}

Status CheckpointWriter::wait() {
  std::unique_lock<std::mutex> lock(impl_->mutex);
  impl_->wait_for(lock, [this] { return !impl_->content && !impl_->next_loss; });
  return std::exchange(impl_->unreported, Status());
}

bool CheckpointWriter::busy() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->content.has_value();
}

void CheckpointWriter::note_next_loss(double loss_sum) {
  std::unique_lock<std::mutex> lock(impl_->mutex);
  const int64_t step = impl_->content ? impl_->content->state.step : impl_->last_step;
  MS_CHECK(step >= 0, "note_next_loss comes after a start");
  impl_->next_loss = NextLoss{step, loss_sum};
  impl_->changed.notify_all();
}

std::vector<SaveReport> CheckpointWriter::take_reports() {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  std::vector<SaveReport> out(impl_->reports.begin(), impl_->reports.end());
  impl_->reports.clear();
  return out;
}

}  // namespace mainspring
