#include "mainspring/lab/advice.h"

#include <algorithm>
#include <cstdio>

namespace mainspring {
namespace {

struct Finding {
  double share = 0;  // of the wall time that it is about
  std::string text;
};

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), share < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share);
  return text;
}

double share_of_phase(const Profile& profile, const std::string& phase) {
  return profile.share(profile.time_of([&](const auto& line) { return line.phase == phase; }));
}

double share_of_names(const Profile& profile, const std::string& prefix) {
  return profile.share(profile.time_of(
      [&](const auto& line) { return line.name.compare(0, prefix.size(), prefix) == 0; }));
}

Finding recomputation(const Profile& profile, const ProfileFacts&) {
  const double share = share_of_phase(profile, "recompute");
  if (share < 0.03) return {};
  return {share, "Recomputation takes " + percent(share) +
                     " of the time: train.recompute = \"none\" keeps the activations instead, if "
                     "memory allows (mainspring inspect plan shows the arena)."};
}

// Below some 256 rows the weights' way from memory is not shared by enough rows.
Finding small_micro_batches(const Profile& profile, const ProfileFacts& facts) {
  if (facts.num_micro_batches == 0 || facts.num_steps == 0) return {};
  const int64_t rows = profile.rows / facts.num_micro_batches;
  if (rows >= 256) return {};
  const double share = share_of_names(profile, "linear");
  const bool one = facts.num_micro_batches <= facts.num_steps;
  return {share, "A micro-batch has only " + std::to_string(rows) + " rows, and linears take " +
                     percent(share) + " of the time: raise " +
                     (one ? "train.batch_size (a step is one micro-batch)"
                          : "train.micro_batch_rows (it changes no bit)") +
                     "; from a few hundred rows on linears are bound by compute."};
}

Finding few_sequences(const Profile& profile, const ProfileFacts& facts) {
  if (facts.num_decoding == 0) return {};
  const double share = profile.share(profile.time_of([&](const auto& line) {
    return line.kind == SpanKind::kOp && bound_of(line, profile.ceilings) == Bound::kMemory;
  }));
  if (share < 0.25) return {};
  return {share, percent(share) + " of the time goes to moving weights and keys from memory, for " +
                     std::to_string(facts.num_decoding) +
                     " tokens a step: more sequences at once share the weights' way, and "
                     "speculation checks several tokens of one (sample --speculate)."};
}

Finding head(const Profile& profile, const ProfileFacts& facts) {
  if (facts.num_decoding > 0) return {};
  const double share = share_of_names(profile, "head_logprob");
  if (share < 0.25) return {};
  const double learned = facts.num_tokens > 0 ? static_cast<double>(facts.num_learned) /
                                                    static_cast<double>(facts.num_tokens)
                                              : 1.0;
  std::string text = "The head takes " + percent(share) + " of the time: every learned token (" +
                     percent(learned) + " of all) meets the whole vocabulary";
  text += learned > 0.9 ? ", so a loss on fewer tokens (data.loss_on = \"assistant\") or a smaller "
                          "vocabulary is what helps."
                        : "; a smaller vocabulary is what helps, other ranks or targets do not.";
  return {share, text};
}

Finding padding(const Profile& profile, const ProfileFacts& facts) {
  if (facts.num_decoding > 0 || profile.rows <= 0 || facts.num_tokens <= 0) return {};
  const double share =
      1.0 - static_cast<double>(facts.num_tokens) / static_cast<double>(profile.rows);
  if (share < 0.05) return {};
  return {share, percent(share) +
                     " of the rows are padding: a sequence starts on an even row, so an odd one is "
                     "followed by an empty row; join very short rows of the data."};
}

Finding data(const Profile& profile, const ProfileFacts&) {
  const double share = share_of_names(profile, "data");
  if (share < 0.05) return {};
  return {share, "Waiting for data takes " + percent(share) +
                     " of the time: rows are read and tokenised slower than they are used; put the "
                     "files on a faster disk or tokenise them beforehand (data.format = "
                     "\"tokens\")."};
}

Finding update(const Profile& profile, const ProfileFacts&) {
  const double share =
      share_of_phase(profile, "update") + share_of_names(profile, "optimizer outside kernels") +
      share_of_names(profile, "clear gradients") + share_of_names(profile, "weight layouts");
  if (share < 0.15) return {};
  return {share,
          "The update and what follows it (clearing gradients, laying out the new weights) "
          "take " +
              percent(share) +
              " of the time, once a step: a larger train.batch_size shares it among more "
              "tokens."};
}

Finding attention(const Profile& profile, const ProfileFacts&) {
  const double share = share_of_names(profile, "attention");
  if (share < 0.3) return {};
  return {share, "Attention takes " + percent(share) +
                     " of the time, and it grows with the square of a sequence's length: lower "
                     "data.max_tokens if the rows allow it."};
}

Finding bound_by_memory(const Profile& profile, const ProfileFacts& facts) {
  if (facts.num_decoding > 0) return {};
  const double share = profile.share(profile.time_of([&](const auto& line) {
    return line.kind == SpanKind::kOp && bound_of(line, profile.ceilings) == Bound::kMemory;
  }));
  if (share < 0.25) return {};
  return {share, "Ops bound by memory take " + percent(share) +
                     " of the time: more threads do not help them, larger micro-batches help those "
                     "that read weights, and activations of bf16 move half of what f32 does."};
}

Finding plans(const Profile& profile, const ProfileFacts&) {
  const double share = share_of_names(profile, "plan");
  if (share < 0.01) return {};
  return {share, "Making plans takes " + percent(share) +
                     " of the time, as a batch came that was larger than any before: a later step "
                     "does not pay it; profile with more --warmup."};
}

Finding waiting(const Profile& profile, const ProfileFacts&) {
  const double share = share_of_names(profile, std::string(kWaitingLine));
  if (share < 0.1) return {};
  std::string worst;
  int64_t longest = 0;
  for (const ProfileLine& line : profile.lines) {
    if (line.waiting_ns <= longest) continue;
    longest = line.waiting_ns;
    worst = line.name + (line.phase.empty() ? "" : " (" + line.phase + ")");
  }
  return {share, "Threads wait for each other " + percent(share) + " of the time, most in " +
                     worst +
                     ": an op's work is cut too coarsely for them. More rows in a micro-batch give "
                     "each more to do; for a model this small fewer --threads may be as fast."};
}

Finding unattributed(const Profile& profile, const ProfileFacts&) {
  const double share = profile.share(profile.unattributed_ns);
  if (share < 0.02) return {};
  return {share, percent(share) + " of the time is in no line of the table."};
}

Finding disturbed(const Profile&, const ProfileFacts& facts) {
  if (facts.busy >= 0.9) return {};
  return {1.0 - facts.busy,
          "The threads had " + percent(facts.busy) +
              " of their time on a core: other processes ran, or threads slept. Repeat on a quiet "
              "machine before believing a figure."};
}

// The largest line that stays far below what its intensity allows.
Finding slowest(const Profile& profile, const ProfileFacts&) {
  for (const ProfileLine& line : profile.lines) {
    const Bound bound = bound_of(line, profile.ceilings);
    const double reached = of_ceiling(line, profile.ceilings);
    const double share = profile.share(line.own_ns);
    if (line.kind != SpanKind::kOp || bound == Bound::kNone || share < 0.1 || reached >= 0.5) {
      continue;
    }
    return {share * (1 - reached),
            line.name + " (" + line.phase + ") takes " + percent(share) + " of the time at " +
                percent(reached) + " of what " +
                (bound == Bound::kCompute ? "the peak" : "memory") +
                " allows: --by path shows which shapes; few rows or narrow matrices (an adapter's "
                "rank) are the usual cause."};
  }
  return {};
}

}  // namespace

std::vector<std::string> advise(const Profile& profile, const ProfileFacts& facts) {
  std::vector<Finding> findings;
  for (const auto find :
       {recomputation, small_micro_batches, few_sequences, head, padding, data, update, attention,
        bound_by_memory, plans, waiting, unattributed, disturbed, slowest}) {
    Finding finding = find(profile, facts);
    if (!finding.text.empty()) findings.push_back(std::move(finding));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.share > b.share; });
  std::vector<std::string> advice;
  for (Finding& finding : findings) advice.push_back(std::move(finding.text));
  if (advice.empty()) {
    const double compute = profile.share(profile.time_of([&](const auto& line) {
      return line.kind == SpanKind::kOp && bound_of(line, profile.ceilings) == Bound::kCompute;
    }));
    advice.push_back("Nothing stands out: " + percent(compute) +
                     " of the time is in ops bound by compute; a faster machine or a smaller model "
                     "is what is left.");
  }
  return advice;
}

}  // namespace mainspring
