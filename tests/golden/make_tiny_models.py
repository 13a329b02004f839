#!/usr/bin/env python3
"""Tiny random models as real Hugging Face folders, with the logits, losses and gradients that transformers gives for them in f32.

  python make_tiny_models.py [OUT_DIR [VARIANT ...]]        (default: tiny/ beside this script, all variants)

One folder per variant: config.json, generation_config.json, model.safetensors (or shards and an index), golden.json (sequences, losses),
golden.safetensors (logits.I, grad.NAME). Norm weights and biases are random too, so that a forgotten one is seen. Some configs are
written the way transformers 4 wrote them (rope_theta, rope_scaling, torch_dtype), the others as transformers 5 does (rope_parameters,
dtype): both are met in the wild. The tokenizers are in make_tiny_tokenizers.py. Not for speed, not for quality: the models know nothing.
"""
import json, os, shutil, sys

import torch
from safetensors.numpy import save_file
from transformers import (AutoModelForCausalLM, Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Phi3Config, Phi3ForCausalLM,
                          Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

import golden_common as G

BASE = dict(vocab_size=288, hidden_size=48, intermediate_size=88, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3,
            max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
LINEAR = dict(rope_type="linear", rope_theta=10000.0, factor=4.0)
SMALL = dict(hidden_size=32, intermediate_size=56, num_attention_heads=4, num_key_value_heads=2, vocab_size=160)
SHORT, LONG = (17, 32, 41), (17, 83)  # LONG passes original_max_position_embeddings = 32, and every window

# name: (family, config, lengths, how to save)
VARIANTS = {
    "llama_tied": ("llama", dict(tie_word_embeddings=True, vocab_size=320, intermediate_size=300), SHORT, {}),
    "llama_untied": ("llama", dict(tie_word_embeddings=False), SHORT, {}),
    "llama_gqa": ("llama", dict(tie_word_embeddings=False, hidden_size=64, num_attention_heads=4, num_key_value_heads=2), SHORT, {}),
    "llama_headdim": ("llama", dict(tie_word_embeddings=True, num_attention_heads=4, num_key_value_heads=1, head_dim=16), SHORT, {}),
    "llama_bias": ("llama", dict(tie_word_embeddings=False, attention_bias=True, mlp_bias=True), SHORT, {}),
    "llama_rope_llama3": ("llama", dict(tie_word_embeddings=True, vocab_size=320, rope_parameters=LLAMA3), LONG, dict(old_config=True)),
    "llama_rope_linear": ("llama", dict(tie_word_embeddings=False, rope_parameters=LINEAR), LONG, dict(old_config=True)),
    "llama_bf16": ("llama", dict(tie_word_embeddings=False, num_key_value_heads=1), SHORT, dict(dtype=torch.bfloat16)),
    "llama_sharded": ("llama", dict(tie_word_embeddings=False), SHORT, dict(max_shard_size="100KB")),
    "qwen2": ("qwen2", dict(tie_word_embeddings=True, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, vocab_size=320, rms_norm_eps=1e-6,
                            rope_parameters=dict(rope_type="default", rope_theta=1000000.0)), SHORT, dict(old_config=True)),
    "qwen3": ("qwen3", dict(tie_word_embeddings=False, num_attention_heads=4, num_key_value_heads=2, head_dim=16, vocab_size=304, rms_norm_eps=1e-6,
                            rope_parameters=dict(rope_type="default", rope_theta=1000000.0)), SHORT, {}),
    "mistral": ("mistral", dict(SMALL, sliding_window=20, tie_word_embeddings=False), LONG, {}),
    "phi3": ("phi3", dict(SMALL, sliding_window=23, tie_word_embeddings=False, eos_token_id=2,
                          rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.75)), LONG, {}),
    "qwen2_window": ("qwen2", dict(SMALL, use_sliding_window=True, sliding_window=18, max_window_layers=1, tie_word_embeddings=True), LONG, {}),
    # Caps about the size of the scores and logits, so that they bend; a scale of the queries that is not the head width's.
    "gemma2": ("gemma2", dict(SMALL, head_dim=8, query_pre_attn_scalar=12, sliding_window=20, attn_logit_softcapping=3.0, final_logit_softcapping=4.0,
                              tie_word_embeddings=True), LONG, dict(no_sdpa=True)),
    "gemma3": ("gemma3", dict(SMALL, head_dim=8, num_hidden_layers=3, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                              query_pre_attn_scalar=10, sliding_window=19, tie_word_embeddings=True,
                              rope_parameters=dict(full_attention=dict(rope_type="linear", factor=4.0, rope_theta=1000000.0),
                                                   sliding_attention=dict(rope_type="default", rope_theta=10000.0))), LONG, {}),
    "gpt2": ("gpt2", dict(n_embd=32, n_head=4, n_layer=2, n_positions=256, vocab_size=160, bos_token_id=1, eos_token_id=2), LONG, {}),
}
FAMILY = dict(gemma2=(Gemma2Config, Gemma2ForCausalLM), gemma3=(Gemma3TextConfig, Gemma3ForCausalLM), gpt2=(GPT2Config, GPT2LMHeadModel),
              llama=(LlamaConfig, LlamaForCausalLM), mistral=(MistralConfig, MistralForCausalLM), phi3=(Phi3Config, Phi3ForCausalLM), qwen2=(Qwen2Config, Qwen2ForCausalLM), qwen3=(Qwen3Config, Qwen3ForCausalLM))


def randomise(model, seed, norm_offset=0.0, transposed=False):
    """Every parameter random: matrices N(0, g/sqrt(in)), queries and keys sharper, norms in [0.5, 1.5] (less what the class adds), biases N(0, 0.3)."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias"):
                p.copy_(torch.randn(p.shape, generator=g) * 0.3)
            elif p.dim() == 1:
                p.copy_(torch.rand(p.shape, generator=g) + 0.5 - norm_offset)
            elif "embed_tokens" in name or "wte" in name or "wpe" in name:
                p.copy_(torch.randn(p.shape, generator=g) * 0.3)
            else:
                gain = 1.6 if ("q_proj" in name or "k_proj" in name) else 1.0
                p.copy_(torch.randn(p.shape, generator=g) * gain / p.shape[0 if transposed else 1] ** 0.5)


def old_style_config(folder):
    """Rewrites config.json as transformers 4 wrote it."""
    path = os.path.join(folder, "config.json")
    c = json.load(open(path))
    rope = c.pop("rope_parameters")
    c["rope_theta"] = rope.pop("rope_theta")
    c["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    if rope["rope_type"] == "linear":
        c["rope_scaling"] = {"type": "linear", "factor": rope["factor"]}  # the oldest spelling
    c["torch_dtype"] = c.pop("dtype")
    c["transformers_version"] = "4.44.0"
    G.write_json(path, dict(sorted(c.items())))


def make(name, out):
    family, cfg, lengths, save = VARIANTS[name]
    config_class, model_class = FAMILY[family]
    config = config_class(**{**({} if family == "gpt2" else BASE), **cfg})
    config._attn_implementation = "eager"
    model = model_class(config).eval()
    randomise(model, 1000 + list(VARIANTS).index(name), norm_offset=1.0 if family.startswith("gemma") else 0.0, transposed=family == "gpt2")
    dtype = save.get("dtype", torch.float32)
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.generation_config.update(temperature=0.7, top_p=0.9, do_sample=True, eos_token_id=2, bos_token_id=1, max_new_tokens=16)
    model.to(dtype).save_pretrained(folder, **({"max_shard_size": save["max_shard_size"]} if "max_shard_size" in save else {}))
    if save.get("old_config"):
        old_style_config(folder)

    # The values come from the folder as a user would load it, not from the object in memory.
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    sequences = G.make_sequences(2000 + list(VARIANTS).index(name), config.vocab_size, lengths)
    logits, losses, grads = G.forward_backward(model, sequences)
    noise, losses64 = G.f64_distance(model, sequences, logits, losses, grads)
    # Another attention implementation must agree to rounding, else these values are one implementation's fault.
    sdpa = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager" if save.get("no_sdpa") else "sdpa").eval()
    l2, _, _ = G.forward_backward(sdpa, sequences)
    assert max(G.rel(a, b) for a, b in zip(l2, logits)) < 5e-6, name
    tensors = {f"logits.{i}": t.numpy() for i, t in enumerate(logits)}
    tensors.update({f"grad.{n}": t.contiguous().numpy() for n, t in grads.items()})
    assert set(grads) == {n for n, _ in model.named_parameters()}
    assert all(float(t.abs().max()) > 0 for t in grads.values())
    save_file(tensors, os.path.join(folder, "golden.safetensors"))
    G.write_json(os.path.join(folder, "golden.json"), dict(
        variant=name, dtype="f32", weights_dtype=str(dtype).replace("torch.", ""), tensors="golden.safetensors",
        sequences=[dict(tokens=s, loss_sum=a, loss_sum_f64=b, token_count=len(s) - 1) for s, a, b in zip(sequences, losses, losses64)],
        loss_sum=sum(losses), loss_sum_f64=sum(losses64), token_count=sum(len(s) - 1 for s in sequences), f32_distance_from_f64=noise))
    for f in os.listdir(folder):
        os.chmod(os.path.join(folder, f), 0o644)
    size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
    print(f"{name:20} loss {sum(losses):.5f}  f32 vs f64: logits {noise['logits']:.1e} grad {noise['grad']:.1e} ({noise['grad_worst']})  {size / 1e3:.0f} kB", flush=True)


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "tiny")
    torch.set_num_threads(1)
    for name in sys.argv[2:] or VARIANTS:
        make(name, out)
    G.write_json(os.path.join(out, "versions.json"), G.versions("python make_tiny_models.py"))


if __name__ == "__main__":
    main()
