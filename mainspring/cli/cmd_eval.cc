#include "mainspring/cli/cmd_eval.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "mainspring/cli/eval_rows.h"
#include "mainspring/cli/exit_code.h"
#include "mainspring/cli/interrupt.h"
#include "mainspring/cli/result_file.h"
#include "mainspring/cli/row_progress.h"
#include "mainspring/cli/row_source.h"
#include "mainspring/io/checksum.h"
#include "mainspring/sample/scorer.h"

namespace mainspring::cli {
namespace {

/// Rows worked on together: enough that passes and batches are full.
constexpr size_t kWindowRows = 256;

EvalContext context_of(const EvalFlags& flags, const ModelSession& session) {
  EvalContext context;
  context.text = &session.text();
  context.eos_tokens = session.eos_tokens();
  context.adapter = session.adapter_index();
  context.add_special_tokens = flags.add_special_tokens;
  if (const auto& tokenizer = session.text().tokenizer; tokenizer != nullptr) {
    context.prefix_token = tokenizer->bos_token().value_or(tokenizer->eos_token().value_or(-1));
  }
  return context;
}

Result<std::vector<EvalRow>> read_rows(const EvalFlags& flags, const ModelSession& session,
                                       Checksum128& content) {
  const EvalContext context = context_of(flags, session);
  std::vector<EvalRow> rows;
  std::map<std::string, std::string> unused;  // field, and the first row that has it
  MS_RETURN_IF_ERROR(
      for_each_row(flags.tasks, [&](std::string_view line, std::string_view where) -> Status {
        MS_ASSIGN_OR_RETURN(EvalRow row, parse_eval_row(line, where, std::ssize(rows), context));
        for (const std::string& field : row.unused) unused.try_emplace(field, where);
        rows.push_back(std::move(row));
        content.update(line.data(), line.size());
        content.update("\n", 1);
        return {};
      }));
  if (rows.empty()) return invalid_argument(input_name(flags.tasks) + ": has no rows");
  for (const auto& [field, where] : unused) {
    std::fprintf(stderr, "eval: %s: %s: is not used, here and in all rows\n", where.c_str(),
                 field.c_str());
  }
  return rows;
}

/// Works through the rows in windows; outcomes are counted, and written if there is a file.
class EvalJob {
 public:
  EvalJob(ModelSession& session, const EvalFlags& flags, std::vector<EvalRow> rows)
      : session_(session),
        flags_(flags),
        rows_(std::move(rows)),
        scorer_(session.executor(), session.forward_model(), {.max_rows = flags.max_rows}) {}

  /// Limits of the model; makes the sampler if a row generates.
  Status prepare();
  /// Takes over the outcomes of the first rows that another run wrote to `path`.
  Status keep(const std::vector<std::string>& lines, const std::string& path);
  bool is_done() const { return done_ == rows_.size(); }
  /// `out` may be null. Errors: of writing; cancelled with how to go on.
  Status run(ResultFile* out);

  const EvalSummary& summary() const { return summary_; }
  int64_t num_non_finite() const { return num_non_finite_; }

 private:
  Status score(size_t begin, size_t end, std::vector<std::string>& lines);
  Status generate(size_t begin, size_t end, const Interrupt& interrupt,
                  std::vector<std::string>& lines);

  ModelSession& session_;
  const EvalFlags& flags_;
  std::vector<EvalRow> rows_;
  Scorer scorer_;
  std::unique_ptr<Sampler> sampler_;
  EvalSummary summary_;
  size_t done_ = 0;
  int64_t tokens_ = 0;
  int64_t num_non_finite_ = 0;
};

Status EvalJob::prepare() {
  int64_t longest = 0;
  for (const EvalRow& row : rows_) {
    for (const ScoredTokens& scored : row.scored) {
      const Status fits = scorer_.check({scored.tokens, session_.adapter_index()});
      if (!fits.ok()) return fits.with_context(row.where);
    }
    if (row.kind != EvalKind::kGeneration) continue;
    longest =
        std::max(longest, std::ssize(row.request.prompt) + int64_t{row.request.params.max_tokens});
  }
  if (longest == 0) return {};
  SamplerOptions options;
  options.max_batch = static_cast<int32_t>(flags_.max_batch);
  options.max_sequence_tokens = std::min(longest, session_.model().config.context_length);
  options.make_text = session_.make_text();
  MS_ASSIGN_OR_RETURN(
      sampler_, Sampler::create(session_.executor(), session_.forward_model(), std::move(options)));
  for (const EvalRow& row : rows_) {
    if (row.kind == EvalKind::kGeneration)
      MS_RETURN_IF_ERROR(sampler_->check(row.request).with_context(row.where));
  }
  return {};
}

Status EvalJob::keep(const std::vector<std::string>& lines, const std::string& path) {
  for (const std::string& line : lines) {
    const std::string where = path + ":" + std::to_string(done_ + 1);
    if (done_ >= rows_.size()) {
      return invalid_argument(where +
                              ": the input has no such row; remove the file to start again");
    }
    MS_RETURN_IF_ERROR(summary_.add(line, where, rows_[done_]));
    ++done_;
  }
  return {};
}

Status EvalJob::score(size_t begin, size_t end, std::vector<std::string>& lines) {
  std::vector<ScoreRow> wanted;
  for (size_t i = begin; i < end; ++i) {
    for (const ScoredTokens& scored : rows_[i].scored)
      wanted.push_back({scored.tokens, session_.adapter_index()});
  }
  if (wanted.empty()) return {};
  MS_ASSIGN_OR_RETURN(const auto logprobs, scorer_.score(wanted));
  size_t next = 0;
  for (size_t i = begin; i < end; ++i) {
    const EvalRow& row = rows_[i];
    if (row.scored.empty()) continue;
    const std::span own = std::span(logprobs).subspan(next, row.scored.size());
    for (size_t k = 0; k < own.size(); ++k) {
      num_non_finite_ += std::count_if(own[k].begin() + static_cast<int64_t>(row.scored[k].first),
                                       own[k].end(), [](float x) { return !std::isfinite(x); });
      tokens_ += std::ssize(own[k]);
    }
    lines[i - begin] = format_scored(row, own);
    next += row.scored.size();
  }
  return {};
}

Status EvalJob::generate(size_t begin, size_t end, const Interrupt& interrupt,
                         std::vector<std::string>& lines) {
  std::map<int64_t, size_t> row_of_request;
  for (size_t i = begin; i < end; ++i) {
    if (rows_[i].kind != EvalKind::kGeneration) continue;
    MS_ASSIGN_OR_RETURN(const int64_t request, sampler_->submit(rows_[i].request));
    row_of_request[request] = i;
  }
  if (row_of_request.empty()) return {};
  while (!sampler_->is_idle() && interrupt.pending() == 0) {
    for (const SampleEvent& event : sampler_->step()) {
      if (!event.result.has_value()) continue;
      const size_t i = row_of_request.at(event.request);
      lines[i - begin] = format_generated(rows_[i], *event.result);
      tokens_ += std::ssize(event.result->tokens);
      if (event.result->stop_reason == StopReason::kNonFinite) ++num_non_finite_;
    }
  }
  return {};
}

Status EvalJob::run(ResultFile* out) {
  const Interrupt interrupt(/*second_ends=*/true);
  RowProgress progress("eval", std::ssize(rows_), static_cast<int64_t>(done_));
  const auto stopped = [&]() -> Status {
    if (out != nullptr) return stopped_after(done_, rows_.size(), *out);
    return cancelled("stopped after " + std::to_string(done_) + " of " +
                     std::to_string(rows_.size()) + " rows; with --out a run can be resumed");
  };
  while (done_ < rows_.size()) {
    size_t end = done_;
    for (int64_t tokens = 0;
         end < rows_.size() && end - done_ < kWindowRows && tokens < 8 * flags_.max_rows; ++end) {
      for (const ScoredTokens& scored : rows_[end].scored) tokens += std::ssize(scored.tokens);
    }
    std::vector<std::string> lines(end - done_);
    MS_RETURN_IF_ERROR(score(done_, end, lines));
    MS_RETURN_IF_ERROR(generate(done_, end, interrupt, lines));
    if (interrupt.pending() != 0) return stopped();
    for (const std::string& line : lines) {
      MS_RETURN_IF_ERROR(summary_.add(line, rows_[done_].where, rows_[done_]));
      if (out != nullptr) MS_RETURN_IF_ERROR(out->append(line));
      ++done_;
    }
    progress.update(static_cast<int64_t>(done_), tokens_);
  }
  progress.finish(static_cast<int64_t>(done_), tokens_);
  return {};
}

MadeWith made_with(const EvalFlags& flags, const ModelSession& session,
                   const Checksum128& content) {
  MadeWith result = session.made_with();
  result.emplace_back("tasks", content.digest().hex());
  result.emplace_back("add-special-tokens", flags.add_special_tokens ? "true" : "false");
  return result;
}

/// The outcomes of a finished file, as an uninterrupted run would have counted them.
Status keep_finished(EvalJob& job, const std::string& path) {
  std::vector<std::string> lines;
  MS_RETURN_IF_ERROR(for_each_row(path, [&](std::string_view line, std::string_view) -> Status {
    lines.emplace_back(line);
    return {};
  }));
  MS_RETURN_IF_ERROR(job.keep(lines, path));
  if (job.is_done()) return {};
  return invalid_argument(path + ": has outcomes of " + std::to_string(lines.size()) +
                          " rows, the tasks have more; remove it to start again");
}

void print_summary(const EvalFlags& flags, const EvalJob& job) {
  const std::string text =
      flags.json ? json_text(job.summary().json()) + "\n" : job.summary().table();
  std::fputs(text.c_str(), flags.out == "-" ? stderr : stdout);
}

Status evaluate(const EvalFlags& flags) {
  bool is_finished = false;
  if (flags.resume) {
    if (flags.out.empty()) return invalid_argument("--resume needs --out");
    MS_ASSIGN_OR_RETURN(is_finished, is_nothing_to_resume("eval", flags.out));
  }
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session, ModelSession::open(flags.model));
  Checksum128 content;
  MS_ASSIGN_OR_RETURN(std::vector<EvalRow> rows, read_rows(flags, *session, content));
  std::fprintf(stderr, "eval: %s; %zu rows\n", session->description().c_str(), rows.size());
  EvalJob job(*session, flags, std::move(rows));
  if (is_finished) {
    MS_RETURN_IF_ERROR(keep_finished(job, flags.out));
    print_summary(flags, job);
    return {};
  }
  MS_RETURN_IF_ERROR(job.prepare());
  std::unique_ptr<ResultFile> out;
  if (!flags.out.empty()) {
    MS_ASSIGN_OR_RETURN(out, ResultFile::open(flags.out, flags.resume,
                                              [&] { return made_with(flags, *session, content); }));
    MS_RETURN_IF_ERROR(job.keep(out->kept_rows(), out->partial_path()));
  }
  MS_RETURN_IF_ERROR(job.run(out.get()));
  if (out != nullptr) MS_RETURN_IF_ERROR(out->commit());
  print_summary(flags, job);
  if (job.num_non_finite() == 0) return {};
  return failed_precondition(std::to_string(job.num_non_finite()) +
                             " log-probabilities or generations are not finite");
}

}  // namespace

int run_eval(const EvalFlags& flags) { return exit_code("eval", evaluate(flags)); }

void add_eval(CommandRegistry& registry) {
  auto state = std::make_shared<EvalFlags>();
  Flags& flags =
      registry.add("eval", "Losses, multiple choices and exact matches of a JSONL file of tasks",
                   [state] { return run_eval(*state); });
  state->model.declare(flags);
  flags.required_text("tasks", &state->tasks,
                      "JSONL rows with text or tokens (loss), query, choices and gold (multiple "
                      "choice), or query and target (generation) (-: standard input)");
  flags.text("out", &state->out, "JSONL outcomes in the order of the rows (-: standard output)");
  flags.toggle("resume", &state->resume,
               "keep the rows that an interrupted run left in OUT.partial");
  flags.toggle("json", &state->json, "the summary as JSON");
  flags.toggle("add-special-tokens", &state->add_special_tokens,
               "put before a query what the tokenizer puts before a text");
  flags.integer("max-rows", &state->max_rows, 1, "rows of one scoring pass");
  flags.integer("max-batch", &state->max_batch, 1, "generations that run at once");
}

}  // namespace mainspring::cli
