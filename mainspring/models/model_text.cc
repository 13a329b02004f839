#include "mainspring/models/model_text.h"

namespace mainspring {
namespace {

Result<std::shared_ptr<const Tokenizer>> make_tokenizer(const TokenizerSource& source,
                                                        const SpecialTokens& special) {
  if (source.gguf.has_value()) return Tokenizer::from_gguf(*source.gguf);
  if (source.tokenizer_json.empty()) return std::shared_ptr<const Tokenizer>();
  return Tokenizer::from_json(source.tokenizer_json, special);
}

}  // namespace

Result<ModelText> make_model_text(const LoadedModel& model) {
  const TokenizerSource& source = model.tokenizer;
  SpecialTokens special{.bos = source.bos_token,
                        .eos = source.eos_token,
                        .pad = source.pad_token,
                        .unk = source.unk_token};
  auto tokenizer = make_tokenizer(source, special);
  if (!tokenizer.ok()) return tokenizer.status().with_context(model.path + ": tokenizer");
  ModelText text{std::move(tokenizer).value(), nullptr};
  if (source.chat_template.empty()) return text;
  if (text.tokenizer != nullptr) special = text.tokenizer->special_tokens();
  auto chat = ChatTemplate::compile(source.chat_template, special);
  if (!chat.ok()) return chat.status().with_context(model.path + ": chat template");
  text.chat_template = std::move(chat).value();
  return text;
}

}  // namespace mainspring
