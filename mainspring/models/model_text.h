// The tokenizer and chat template of a loaded model.
#pragma once

#include <memory>

#include "mainspring/base/status.h"
#include "mainspring/models/loaded_model.h"
#include "mainspring/text/chat_template.h"
#include "mainspring/text/tokenizer.h"

namespace mainspring {

struct ModelText {
  std::shared_ptr<const Tokenizer> tokenizer;         // null if the model's files have none
  std::shared_ptr<const ChatTemplate> chat_template;  // null if there is none
};

/// Errors: those of Tokenizer and ChatTemplate, with the model's path.
Result<ModelText> make_model_text(const LoadedModel& model);

}  // namespace mainspring
