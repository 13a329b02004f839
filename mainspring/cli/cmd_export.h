// `mainspring export`: a trained model as Hugging Face folder, PEFT folder, merged model or GGUF
// file.
#pragma once

#include <string>

#include "mainspring/cli/command.h"

namespace mainspring::cli {

struct ExportFlags {
  std::string model;    // the base: a Hugging Face folder or a .gguf file
  std::string adapter;  // a PEFT folder, such as a checkpoint of a LoRA run
  std::string weights;  // a folder with model.safetensors, such as a checkpoint of a full run
  bool ema = false;     // the moving average of that checkpoint's weights instead of these
  std::string out;
  std::string format = "hf";   // hf | peft | merged | gguf
  std::string dtype = "bf16";  // bf16 | f32; gguf also f16 | q8_0
};

/// Exit code 0; 1 with a message.
int run_export(const ExportFlags& flags);

void add_export(CommandRegistry& registry);

}  // namespace mainspring::cli
