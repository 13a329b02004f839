#include "mainspring/cli/cmd_sample.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>

#include "mainspring/cli/exit_code.h"
#include "mainspring/cli/interrupt.h"
#include "mainspring/cli/result_file.h"
#include "mainspring/cli/row_progress.h"
#include "mainspring/cli/row_source.h"
#include "mainspring/cli/sample_rows.h"
#include "mainspring/io/checksum.h"
#include "mainspring/sample/logits.h"

namespace mainspring::cli {
namespace {

/// Rows handed to the sampler and not yet written: enough to keep its batch full behind a slow row.
constexpr int64_t kWindowRows = 4096;

RowContext context_of(const SampleFlags& flags, const ModelSession& session) {
  RowContext context;
  context.text = &session.text();
  context.vocabulary = session.model().config.vocabulary;
  context.eos_tokens = session.eos_tokens();
  context.adapter = session.adapter_index();
  SamplingParams& params = context.defaults;
  params.max_tokens = static_cast<int32_t>(flags.max_tokens);
  params.temperature = static_cast<float>(flags.temperature);
  params.top_k = static_cast<int32_t>(flags.top_k);
  params.top_p = static_cast<float>(flags.top_p);
  params.min_p = static_cast<float>(flags.min_p);
  params.repetition_penalty = static_cast<float>(flags.repetition_penalty);
  params.presence_penalty = static_cast<float>(flags.presence_penalty);
  params.frequency_penalty = static_cast<float>(flags.frequency_penalty);
  params.n = static_cast<int32_t>(flags.n);
  params.stop = flags.stop;
  return context;
}

/// Pages for a full batch of the largest rows, within --cache-mb, and never fewer than one row
/// needs.
int32_t cache_pages(const SampleFlags& flags, const ModelSession& session,
                    const std::vector<SampleRow>& rows) {
  const ModelConfig& config = session.model().config;
  std::vector<int64_t> needs;
  for (const SampleRow& row : rows) {
    const int64_t tokens =
        static_cast<int64_t>(row.request.prompt.size()) + row.request.params.max_tokens;
    const int64_t pages = std::min(tokens, config.context_length) / kPageTokens + 1;
    const int64_t copies = std::min<int64_t>(row.request.params.n, flags.max_batch);
    needs.insert(needs.end(), static_cast<size_t>(copies), pages);
  }
  std::sort(needs.begin(), needs.end(), std::greater<>());
  needs.resize(std::min(needs.size(), static_cast<size_t>(flags.max_batch)));
  int64_t wanted = 0;
  for (const int64_t pages : needs) wanted += pages;
  const int64_t page_bytes =
      2 * config.layers *
      dtype_bytes(session.forward_model().compute,
                  kPageTokens * kv_row_elements(config.kv_heads, config.head_width));
  const int64_t affordable = (flags.cache_mb << 20) / page_bytes;
  return static_cast<int32_t>(std::max(needs.empty() ? 1 : needs[0], std::min(wanted, affordable)));
}

/// Samples all rows and writes them in order.
class SampleJob {
 public:
  SampleJob(Sampler& sampler, std::vector<SampleRow> rows, ResultFile& out)
      : sampler_(sampler), rows_(std::move(rows)), out_(out), finished_(rows_.size()) {}

  /// Takes over what an interrupted run wrote. Errors: invalid argument if it is not of these rows.
  Status keep(const std::vector<std::string>& lines, uint64_t run_seed);

  /// Errors: of writing; cancelled with what to do.
  Status run();

  /// Failed precondition if samples of this run ended where the model, not the row, ended them.
  Status check_ends() const;

 private:
  Status submit_more();
  Status write_ready();
  int64_t num_samples(size_t row) const { return rows_[row].request.params.n; }

  Sampler& sampler_;
  std::vector<SampleRow> rows_;
  ResultFile& out_;
  std::vector<std::map<int32_t, SampleResult>> finished_;  // by row, then sample; not yet written
  std::map<int64_t, size_t> row_of_request_;
  size_t num_submitted_ = 0;
  size_t num_written_ = 0;   // rows
  int32_t next_sample_ = 0;  // of row num_written_
  int64_t num_non_finite_ = 0;
  int64_t num_dead_ends_ = 0;
};

Status SampleJob::keep(const std::vector<std::string>& lines, uint64_t run_seed) {
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string where = out_.partial_path() + ":" + std::to_string(i + 1);
    if (num_written_ >= rows_.size()) {
      return invalid_argument(where +
                              ": the input has no such row; remove the file to start again");
    }
    const SampleRow& row = rows_[num_written_];
    const uint64_t seed = row.request.params.seed.value_or(draw_seed(run_seed, row.request.place));
    MS_RETURN_IF_ERROR(check_kept_sample(lines[i], where, row, next_sample_, seed));
    if (++next_sample_ < num_samples(num_written_)) continue;
    next_sample_ = 0;
    ++num_written_;
  }
  num_submitted_ = num_written_;
  return {};
}

Status SampleJob::submit_more() {
  while (num_submitted_ < rows_.size() &&
         static_cast<int64_t>(num_submitted_ - num_written_) < kWindowRows) {
    MS_ASSIGN_OR_RETURN(const int64_t request, sampler_.submit(rows_[num_submitted_].request));
    row_of_request_[request] = num_submitted_++;
  }
  return {};
}

Status SampleJob::write_ready() {
  while (num_written_ < rows_.size()) {
    std::map<int32_t, SampleResult>& ready = finished_[num_written_];
    // Samples that the earlier run wrote are computed again with their row and left out.
    const auto found = ready.find(next_sample_);
    if (found == ready.end()) return {};
    MS_RETURN_IF_ERROR(
        out_.append(format_sample(rows_[num_written_], next_sample_, found->second)));
    if (++next_sample_ < num_samples(num_written_)) continue;
    ready.clear();
    next_sample_ = 0;
    ++num_written_;
  }
  return {};
}

Status SampleJob::run() {
  const Interrupt interrupt(/*second_ends=*/true);
  RowProgress progress("sample", static_cast<int64_t>(rows_.size()),
                       static_cast<int64_t>(num_written_));
  MS_RETURN_IF_ERROR(submit_more());
  while (!sampler_.is_idle()) {
    if (interrupt.pending() != 0) {
      return stopped_after(num_written_, rows_.size(), out_);
    }
    for (SampleEvent& event : sampler_.step()) {
      if (!event.result.has_value()) continue;
      if (event.result->stop_reason == StopReason::kNonFinite) ++num_non_finite_;
      if (event.result->stop_reason == StopReason::kDeadEnd) ++num_dead_ends_;
      finished_[row_of_request_[event.request]][event.sample] = std::move(*event.result);
    }
    MS_RETURN_IF_ERROR(write_ready());
    MS_RETURN_IF_ERROR(submit_more());
    progress.update(static_cast<int64_t>(num_written_), sampler_.stats().sampled_tokens);
  }
  progress.finish(static_cast<int64_t>(num_written_), sampler_.stats().sampled_tokens);
  return {};
}

Status SampleJob::check_ends() const {
  std::string text;
  if (num_non_finite_ > 0) {
    text = std::to_string(num_non_finite_) +
           " samples ended because the model gave NaN or infinite logits (stop_reason "
           "\"non_finite\")";
  }
  if (num_dead_ends_ > 0) {
    text += (text.empty() ? "" : "; ") + std::to_string(num_dead_ends_) +
            " samples ended before their JSON was whole, as no token of the vocabulary goes on "
            "with it (stop_reason \"dead_end\")";
  }
  return text.empty() ? Status() : failed_precondition(text);
}

/// The rows of the input; `content` gets all their bytes.
Result<std::vector<SampleRow>> read_rows(const SampleFlags& flags, const ModelSession& session,
                                         Checksum128& content) {
  const RowContext context = context_of(flags, session);
  std::vector<SampleRow> rows;
  MS_RETURN_IF_ERROR(
      for_each_row(flags.in, [&](std::string_view line, std::string_view where) -> Status {
        MS_ASSIGN_OR_RETURN(
            SampleRow row,
            parse_sample_row(line, where, static_cast<int64_t>(rows.size()), context));
        rows.push_back(std::move(row));
        content.update(line.data(), line.size());
        content.update("\n", 1);
        return {};
      }));
  // Nearly always the sign of a command before this one that failed.
  if (rows.empty()) return invalid_argument(input_name(flags.in) + ": has no rows");
  return rows;
}

MadeWith made_with(const SampleFlags& flags, const ModelSession& session,
                   const Checksum128& content) {
  MadeWith result = session.made_with();
  result.emplace_back("rows", content.digest().hex());
  const auto add = [&](const char* name, auto value) {
    result.emplace_back(name, json_text(Json(value)));
  };
  add("max-tokens", flags.max_tokens);
  add("temperature", flags.temperature);
  add("top-k", flags.top_k);
  add("top-p", flags.top_p);
  add("min-p", flags.min_p);
  add("repetition-penalty", flags.repetition_penalty);
  add("presence-penalty", flags.presence_penalty);
  add("frequency-penalty", flags.frequency_penalty);
  add("n", flags.n);
  add("stop", flags.stop);
  add("seed", flags.seed);
  return result;
}

/// What the parser cannot know: limits of this model and cache.
Status check_rows(const Sampler& sampler, const std::vector<SampleRow>& rows) {
  for (const SampleRow& row : rows) {
    MS_RETURN_IF_ERROR(sampler.check(row.request).with_context(row.where));
  }
  return {};
}

void print_stats(const SamplerStats& stats) {
  const double total = static_cast<double>(std::max<int64_t>(1, stats.step_ns));
  const double run = static_cast<double>(stats.run_ns) / total;
  const double choose = static_cast<double>(stats.choose_ns) / total;
  std::fprintf(stderr,
               "sample: %lld steps, %lld rows, %lld positions from the cache, %lld preemptions; "
               "%.2f s: %.1f %% forward, %.1f %% choosing, %.1f %% else\n",
               static_cast<long long>(stats.steps), static_cast<long long>(stats.rows),
               static_cast<long long>(stats.shared_tokens),
               static_cast<long long>(stats.preemptions), total * 1e-9, 100 * run, 100 * choose,
               100 * (1 - run - choose));
  std::fprintf(stderr, "sample: at most %lld of %lld cache pages held, %.1f of %.1f MB\n",
               static_cast<long long>(stats.peak_pages), static_cast<long long>(stats.num_pages),
               static_cast<double>(stats.peak_pages * stats.page_bytes) * 1e-6,
               static_cast<double>(stats.num_pages * stats.page_bytes) * 1e-6);
  if (stats.drafted_tokens == 0) return;
  std::fprintf(stderr, "sample: %lld of %lld guesses were right; guessing took %.1f %%\n",
               static_cast<long long>(stats.accepted_tokens),
               static_cast<long long>(stats.drafted_tokens),
               100 * static_cast<double>(stats.draft_ns) / total);
}

/// Tokens that the longest row can have, within the model's context.
int64_t longest_sequence(const ModelSession& session, const std::vector<SampleRow>& rows) {
  int64_t longest = 1;
  for (const SampleRow& row : rows) {
    longest = std::max(
        longest, static_cast<int64_t>(row.request.prompt.size()) + row.request.params.max_tokens);
  }
  return std::min(longest, session.model().config.context_length);
}

Status sample_file(const SampleFlags& flags) {
  if (flags.resume) {
    MS_ASSIGN_OR_RETURN(const bool nothing, is_nothing_to_resume("sample", flags.out));
    if (nothing) return {};
  }
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session, ModelSession::open(flags.model));
  const SamplingParams defaults = context_of(flags, *session).defaults;
  const Status valid = validate(defaults, session->model().config.vocabulary);
  if (!valid.ok()) return valid.with_context("the command's own settings");
  Checksum128 content;
  MS_ASSIGN_OR_RETURN(std::vector<SampleRow> rows, read_rows(flags, *session, content));
  SamplerOptions options;
  options.max_batch = static_cast<int32_t>(flags.max_batch);
  options.max_rows = static_cast<int32_t>(flags.max_rows);
  options.cache_pages = cache_pages(flags, *session, rows);
  options.max_sequence_tokens = longest_sequence(*session, rows);
  options.run_seed = static_cast<uint64_t>(flags.seed);
  options.make_text = session->make_text();
  const bool is_constrained = std::any_of(rows.begin(), rows.end(), [](const SampleRow& row) {
    return !row.request.params.json_schema.empty();
  });
  if (is_constrained) options.token_bytes = session->token_bytes();
  MS_ASSIGN_OR_RETURN(const OpenedSpeculation speculation,
                      open_speculation(flags.speculation, *session));
  options.speculation = speculation.speculation;
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<Sampler> sampler,
                      Sampler::create(session->executor(), session->forward_model(), options));
  MS_RETURN_IF_ERROR(check_rows(*sampler, rows));
  std::fprintf(stderr, "sample: %s; %zu rows\n", session->description().c_str(), rows.size());
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<ResultFile> out,
                      ResultFile::open(flags.out, flags.resume,
                                       [&] { return made_with(flags, *session, content); }));
  SampleJob job(*sampler, std::move(rows), *out);
  MS_RETURN_IF_ERROR(job.keep(out->kept_rows(), options.run_seed));
  MS_RETURN_IF_ERROR(job.run());
  if (flags.stats) print_stats(sampler->stats());
  MS_RETURN_IF_ERROR(out->commit());
  return job.check_ends();
}

}  // namespace

int run_sample(const SampleFlags& flags) { return exit_code("sample", sample_file(flags)); }

void add_sample(CommandRegistry& registry) {
  auto state = std::make_shared<SampleFlags>();
  Flags& flags = registry.add("sample", "Complete the prompts of a JSONL file",
                              [state] { return run_sample(*state); });
  state->model.declare(flags);
  flags.required_text(
      "in", &state->in,
      "JSONL rows with prompt, messages or tokens, and any of max_tokens, temperature, "
      "top_k, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty, json_schema, "
      "seed, n, "
      "stop, stop_tokens, ignore_eos, top_logprobs, "
      "prompt_logprobs, tools, id (-: standard input)");
  flags.required_text("out", &state->out,
                      "JSONL results in the order of the rows (-: standard output)");
  flags.toggle("resume", &state->resume,
               "keep the rows that an interrupted run left in OUT.partial");
  flags.toggle("stats", &state->stats, "at the end, say where the time went");
  flags.integer("max-tokens", &state->max_tokens, 0, "tokens to sample, for rows that do not say");
  flags.number("temperature", &state->temperature, "0 is greedy; for rows that do not say");
  flags.integer("top-k", &state->top_k, 0, "0 is off; for rows that do not say");
  flags.number("top-p", &state->top_p, "1 is off; for rows that do not say");
  flags.number("min-p", &state->min_p, "0 is off; for rows that do not say");
  flags.number("repetition-penalty", &state->repetition_penalty,
               "of tokens in prompt and reply; 1 is off; for rows that do not say");
  flags.number("presence-penalty", &state->presence_penalty,
               "of tokens in the reply; 0 is off; for rows that do not say");
  flags.number("frequency-penalty", &state->frequency_penalty,
               "of tokens in the reply, times their count; 0 is off; for rows that do not say");
  flags.integer("n", &state->n, 1, "samples per prompt, for rows that do not say");
  flags.texts("stop", &state->stop, "a text that ends the sample, for rows that do not say");
  flags.integer("seed", &state->seed, 0,
                "seeds of rows without one are drawn from it and their place",
                std::numeric_limits<int64_t>::max());
  flags.integer("max-batch", &state->max_batch, 1, "sequences that run at once");
  flags.integer("max-rows", &state->max_rows, 1,
                "rows of one step: longer prompts are cut into chunks");
  flags.integer("cache-mb", &state->cache_mb, 1, "memory for keys and values");
  state->speculation.declare(flags);
}

}  // namespace mainspring::cli
