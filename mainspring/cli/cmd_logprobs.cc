#include "mainspring/cli/cmd_logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "mainspring/cli/exit_code.h"
#include "mainspring/cli/interrupt.h"
#include "mainspring/cli/result_file.h"
#include "mainspring/cli/row_progress.h"
#include "mainspring/cli/row_source.h"
#include "mainspring/cli/sample_rows.h"
#include "mainspring/sample/scorer.h"

namespace mainspring::cli {
namespace {

Result<std::vector<TokensRow>> read_rows(const LogprobsFlags& flags, const Scorer& scorer,
                                         int32_t adapter) {
  std::vector<TokensRow> rows;
  MS_RETURN_IF_ERROR(
      for_each_row(flags.in, [&](std::string_view line, std::string_view where) -> Status {
        MS_ASSIGN_OR_RETURN(TokensRow row, parse_tokens_row(line, where, adapter));
        MS_RETURN_IF_ERROR(scorer.check(row.row).with_context(where));
        rows.push_back(std::move(row));
        return {};
      }));
  // Nearly always the sign of a command before this one that failed.
  if (rows.empty()) return invalid_argument(input_name(flags.in) + ": has no rows");
  return rows;
}

/// Rows [first, result) fill some passes, so that packing loses little at the end of a group.
size_t end_of_group(const std::vector<TokensRow>& rows, size_t first, int64_t max_rows) {
  int64_t tokens = 0;
  size_t end = first;
  while (end < rows.size() && tokens < 8 * max_rows) {
    tokens += static_cast<int64_t>(rows[end++].row.tokens.size());
  }
  return end;
}

Status check_kept(const ResultFile& out, const std::vector<TokensRow>& rows) {
  for (size_t i = 0; i < out.kept_rows().size(); ++i) {
    const std::string where = out.partial_path() + ":" + std::to_string(i + 1);
    MS_ASSIGN_OR_RETURN(const TokensRow kept, parse_tokens_row(out.kept_rows()[i], where, -1));
    if (i < rows.size() && kept.row.tokens == rows[i].row.tokens) continue;
    return invalid_argument(where + ": tokens: differ from row " + std::to_string(i) +
                            " of the input; remove the file to start again");
  }
  return {};
}

Status score_rows(Scorer& scorer, const std::vector<TokensRow>& rows, int64_t max_rows,
                  ResultFile& out, int64_t& num_non_finite) {
  const Interrupt interrupt(/*second_ends=*/true);
  size_t done = out.kept_rows().size();
  RowProgress progress("logprobs", static_cast<int64_t>(rows.size()), static_cast<int64_t>(done));
  int64_t tokens = 0;
  while (done < rows.size()) {
    if (interrupt.pending() != 0) {
      return stopped_after(done, rows.size(), out);
    }
    const size_t end = end_of_group(rows, done, max_rows);
    std::vector<ScoreRow> group;
    for (size_t i = done; i < end; ++i) group.push_back(rows[i].row);
    MS_ASSIGN_OR_RETURN(const auto scores, scorer.score(group));
    for (size_t i = done; i < end; ++i) {
      const std::vector<float>& row = scores[i - done];
      MS_RETURN_IF_ERROR(out.append(format_scores(rows[i], row)));
      // The first entry is NaN by definition: nothing comes before the first token.
      num_non_finite += std::count_if(row.begin() + std::min<std::ptrdiff_t>(1, std::ssize(row)),
                                      row.end(), [](float x) { return !std::isfinite(x); });
      tokens += static_cast<int64_t>(rows[i].row.tokens.size());
    }
    done = end;
    progress.update(static_cast<int64_t>(done), tokens);
  }
  progress.finish(static_cast<int64_t>(done), tokens);
  return {};
}

Status score_file(const LogprobsFlags& flags) {
  if (flags.resume) {
    MS_ASSIGN_OR_RETURN(const bool nothing, is_nothing_to_resume("logprobs", flags.out));
    if (nothing) return {};
  }
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session, ModelSession::open(flags.model));
  Scorer scorer(session->executor(), session->forward_model(), {.max_rows = flags.max_rows});
  MS_ASSIGN_OR_RETURN(const std::vector<TokensRow> rows,
                      read_rows(flags, scorer, session->adapter_index()));
  std::fprintf(stderr, "logprobs: %s; %zu rows\n", session->description().c_str(), rows.size());
  MS_ASSIGN_OR_RETURN(
      const std::unique_ptr<ResultFile> out,
      ResultFile::open(flags.out, flags.resume, [&] { return session->made_with(); }));
  MS_RETURN_IF_ERROR(check_kept(*out, rows));
  int64_t num_non_finite = 0;
  MS_RETURN_IF_ERROR(score_rows(scorer, rows, flags.max_rows, *out, num_non_finite));
  MS_RETURN_IF_ERROR(out->commit());
  if (num_non_finite == 0) return {};
  return failed_precondition(std::to_string(num_non_finite) +
                             " log-probabilities are not finite (null in the output)");
}

}  // namespace

int run_logprobs(const LogprobsFlags& flags) { return exit_code("logprobs", score_file(flags)); }

void add_logprobs(CommandRegistry& registry) {
  auto state = std::make_shared<LogprobsFlags>();
  Flags& flags =
      registry.add("logprobs", "Score the tokens of a JSONL file with the trainer's forward pass",
                   [state] { return run_logprobs(*state); });
  state->model.declare(flags);
  flags.required_text("in", &state->in, "JSONL rows with tokens, and maybe id (-: standard input)");
  flags.required_text("out", &state->out,
                      "JSONL rows with tokens and logprobs, the first null (-: standard output)");
  flags.toggle("resume", &state->resume,
               "keep the rows that an interrupted run left in OUT.partial");
  flags.integer("max-rows", &state->max_rows, 1, "rows of one pass");
}

}  // namespace mainspring::cli
