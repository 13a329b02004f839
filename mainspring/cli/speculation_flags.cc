#include "mainspring/cli/speculation_flags.h"

namespace mainspring::cli {
namespace {

/// Guesses of a model whose tokens mean something else would all be wrong: that is a mistake of the
/// command, not of the models. Where a model comes without a tokenizer, the vocabularies' sizes are
/// all that can be compared.
Status check_same_tokens(const ModelSession& model, const ModelSession& draft) {
  const auto& a = model.text().tokenizer;
  const auto& b = draft.text().tokenizer;
  if (a == nullptr || b == nullptr) {
    const int64_t size_a = model.model().config.vocabulary;
    const int64_t size_b = draft.model().config.vocabulary;
    if (size_a == size_b) return {};
    return invalid_argument("--draft-model " + draft.model().path + ": has a vocabulary of " +
                            std::to_string(size_b) + " tokens, " + model.model().path + " one of " +
                            std::to_string(size_a) +
                            "; without two tokenizers to compare, the sizes must be equal");
  }
  constexpr const char* kProbe = "The quick brown fox, 1234 na\xc3\xafve\n\tint x = y[0];";
  MS_ASSIGN_OR_RETURN(const auto tokens_a, a->encode(kProbe));
  MS_ASSIGN_OR_RETURN(const auto tokens_b, b->encode(kProbe));
  if (tokens_a == tokens_b) return {};
  return invalid_argument("--draft-model " + draft.model().path + ": has another tokenizer than " +
                          model.model().path);
}

}  // namespace

void SpeculationFlags::declare(Flags& flags) {
  flags.integer("speculate", &max_draft, 0,
                "tokens to guess ahead and check in one pass, from what the sequence said before; "
                "changes no result (0: off)",
                64);
  flags.text("draft-model", &draft_model,
             "a smaller model with the same tokenizer that guesses instead");
}

Result<OpenedSpeculation> open_speculation(const SpeculationFlags& flags,
                                           const ModelSession& session) {
  OpenedSpeculation opened;
  opened.speculation.max_draft = static_cast<int32_t>(flags.max_draft);
  if (flags.draft_model.empty()) return opened;
  if (flags.max_draft == 0) {
    return invalid_argument("--draft-model needs --speculate N, the tokens to guess ahead");
  }
  MS_ASSIGN_OR_RETURN(opened.draft, session.open_beside(flags.draft_model));
  MS_RETURN_IF_ERROR(check_same_tokens(session, *opened.draft));
  opened.speculation.draft_model = opened.draft->forward_model();
  return opened;
}

}  // namespace mainspring::cli
