#!/usr/bin/env python3
"""A Hugging Face folder in bf16 out of a GGUF file: the model that the golden values of smollm2/ and the speed peers use.

  python convert_gguf.py MODEL.gguf OUT_FOLDER

transformers dequantises while it loads, but then calls the result quantised and will not save it: the tensors are moved into a fresh model.
It also does not know the pre-tokenizer "smollm" and would leave out its first part, which cuts every digit off: that is mended here.
"""
import os, sys

import torch
from tokenizers import pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer


def main():
    path, out = os.path.abspath(sys.argv[1]), sys.argv[2]
    source = dict(pretrained_model_name_or_path=os.path.dirname(path), gguf_file=os.path.basename(path))
    loaded = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    config = AutoConfig.from_pretrained(**source)
    for name in ("quantization_config", "_name_or_path"):
        if hasattr(config, name):
            delattr(config, name)
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict({name: t.float() for name, t in loaded.state_dict().items()}, strict=True)
    model.tie_weights()
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(**source)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.save_pretrained(out)
    print(sum(p.numel() for p in model.parameters()), "parameters in", out)


if __name__ == "__main__":
    main()
