// The rows of `mainspring eval`: tasks in, one result per row out, and what the results amount to.
//
// The one idea: a row is a loss, a multiple choice or a generation, told by its fields; it becomes
// tokens to score or a request to sample, and its outcome is one JSON line from which alone the
// summary is computed, so a resumed run reports what an uninterrupted one does. Log-likelihoods are
// defined as in EleutherAI's lm-evaluation-harness. Nothing here computes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/io/json.h"
#include "mainspring/models/model_text.h"
#include "mainspring/sample/sampler.h"

namespace mainspring::cli {

/// What rows are read with.
struct EvalContext {
  const ModelText* text = nullptr;
  std::vector<int32_t> eos_tokens;
  int32_t adapter = SampleRequest::kBaseOnly;
  /// What stands before a text without a context: the tokenizer's bos token, else its eos token.
  int32_t prefix_token = -1;
  bool add_special_tokens = false;  // to contexts
};

enum class EvalKind { kLoss, kChoice, kGeneration };
/// "loss", "choice", "generation".
std::string_view eval_kind_name(EvalKind kind);

/// Tokens of which those from `first` on are scored.
struct ScoredTokens {
  std::vector<int32_t> tokens;
  size_t first = 0;
};

struct EvalRow {
  std::string where;  // "tasks.jsonl:3"
  int64_t number = 0;
  Json id;
  std::string task;
  EvalKind kind = EvalKind::kLoss;
  std::vector<ScoredTokens> scored;  // kLoss: one; kChoice: one per choice
  int64_t bytes = 0;                 // kLoss: of the text; 0 if it came as tokens
  std::vector<int64_t> lengths;      // kChoice: characters of each choice
  int64_t gold = 0;                  // kChoice
  SampleRequest request;             // kGeneration: greedy
  std::vector<std::string> targets;  // kGeneration: any of them is right
  std::vector<std::string> unused;   // names of fields that no row has a use for
};

/// Reads one of
///   {"text": ...} or {"tokens": [...]}                                 loss
///   {"query": ..., "choices": [...], "gold": i}, "delimiter" (" ")     multiple choice
///   {"query": ..., "target": text or list}, "until", "max_tokens"      generation
/// with "messages" in place of "query", and "task" and "id" beside. Errors: invalid argument with
/// file, line and field; also for a field of another kind of row, and for one that is nearly
/// another's name. Other fields are the row's own affair and listed in `unused`.
Result<EvalRow> parse_eval_row(std::string_view line, std::string_view where, int64_t number,
                               const EvalContext& context);

/// The outcome of a row that was scored: `logprobs` of each entry's tokens, as Scorer gives them.
std::string format_scored(const EvalRow& row, std::span<const std::vector<float>> logprobs);
/// The outcome of a row that was generated.
std::string format_generated(const EvalRow& row, const SampleResult& result);

/// Sums over outcomes, by task and kind.
class EvalSummary {
 public:
  /// Takes a line of the formats above. Errors: invalid argument if it is none, or not of row
  /// `number`.
  Status add(std::string_view line, std::string_view where, const EvalRow& row);

  /// [{"task", "kind", "rows", metric: value, metric_stderr: value}, ...] in order of appearance.
  Json json() const;
  std::string table() const;

 private:
  struct Task {
    std::string name;
    EvalKind kind = EvalKind::kLoss;
    int64_t rows = 0;
    double nll = 0;                  // kLoss: natural logarithm
    int64_t tokens = 0;              // kLoss
    int64_t bytes = 0;               // kLoss
    int64_t rows_without_bytes = 0;  // kLoss: that came as tokens
    int64_t right = 0;               // kChoice: raw; kGeneration: exact
    int64_t right_norm = 0;          // kChoice
  };
  Task& task_of(const EvalRow& row);
  std::vector<Task> tasks_;
};

}  // namespace mainspring::cli
