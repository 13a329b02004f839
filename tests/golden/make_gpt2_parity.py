#!/usr/bin/env python3
"""200 training steps of a small GPT-2 by transformers' GPT2LMHeadModel and torch's AdamW in f32, from weights and data that formulas give.

  python make_gpt2_parity.py [GOLDEN_DIR]        (default: this script's folder)

gpt2_parity/golden.json   versions; config; optimizer; lr[200]; steps[200]{loss grad_norm}; f32_distance_from_f64: the largest |loss - loss of the
                          same run in f64|; initial_sum: the sum of all initial weights in f64, to tell a wrong start from a wrong step

Weights: parameter P by Mainspring's name (linears (out, in), q, k, v apart) is uniform() keyed by P; a linear's or table's has deviation 0.02,
the ends of residual branches (o_proj, down_proj) 0.02 / sqrt(2 layers): GPT-2's scheme but for the law. Norm weights are 1, biases 0.
Data: tokens(step, row), a chain in which each token has four equally likely successors: the loss falls from log(128) towards log(4).
"""
import os, sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import golden_common as G

CONFIG = dict(n_embd=64, n_head=4, n_layer=3, n_positions=64, vocab_size=128)
BATCH, LENGTH, STEPS, WARMUP = 8, 64, 200, 20
OPTIMIZER = dict(betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
MAX_NORM, PEAK, STD = 1.0, 2e-3, 0.02


def fnv1a(text):
    h = 0x811C9DC5
    for c in text.encode():
        h = ((h ^ c) * 0x01000193) & 0xFFFFFFFF
    return h


def bits(seed, n):
    """Element i: 32 bits of a hash of (seed, i)."""
    x = (seed + torch.arange(n, dtype=torch.int64) * 0x9E3779B9) & 0xFFFFFFFF
    for factor in (0x85EBCA6B, 0xC2B2AE35):
        x = ((x ^ (x >> 16)) * factor) & 0xFFFFFFFF
    return x ^ (x >> 16)


def uniform(name, shape, std):
    """24 bits in [-1, 1), exact in f32, times the half width that gives the deviation, rounded once."""
    n = 1
    for s in shape:
        n *= s
    half = torch.tensor(std * 3 ** 0.5, dtype=torch.float32)
    return (((bits(fnv1a(name), n) >> 8).to(torch.float32) * 2 ** -23 - 1) * half).reshape(shape)


def initial_weights():
    """By Mainspring's names."""
    d, v, t, layers = CONFIG["n_embd"], CONFIG["vocab_size"], CONFIG["n_positions"], CONFIG["n_layer"]
    weights = {"model.embed_tokens.weight": (v, d), "model.embed_positions.weight": (t, d)}
    for i in range(layers):
        p = f"model.layers.{i}."
        weights |= {p + f"self_attn.{x}_proj.weight": (d, d) for x in "qkvo"}
        weights |= {p + "mlp.up_proj.weight": (4 * d, d), p + "mlp.down_proj.weight": (d, 4 * d)}
    end = STD / (2 * layers) ** 0.5
    return {n: uniform(n, s, end if n.endswith(("o_proj.weight", "down_proj.weight")) else STD) for n, s in weights.items()}


def set_weights(model, w):
    state = {"transformer.wte.weight": w["model.embed_tokens.weight"], "transformer.wpe.weight": w["model.embed_positions.weight"]}
    for i in range(CONFIG["n_layer"]):
        p, h = f"model.layers.{i}.", f"transformer.h.{i}."
        state[h + "attn.c_attn.weight"] = torch.cat([w[p + f"self_attn.{x}_proj.weight"] for x in "qkv"]).T
        state[h + "attn.c_proj.weight"] = w[p + "self_attn.o_proj.weight"].T
        state[h + "mlp.c_fc.weight"] = w[p + "mlp.up_proj.weight"].T
        state[h + "mlp.c_proj.weight"] = w[p + "mlp.down_proj.weight"].T
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name in state:
                p.copy_(state.pop(name))
            else:
                p.fill_(1.0 if name.endswith("weight") else 0.0)
    assert not state, state.keys()


def tokens(step, row):
    """LENGTH + 1 tokens: the next one is 5 x + 17 times the two lowest bits of the hash, modulo the vocabulary."""
    v = CONFIG["vocab_size"]
    h = bits(fnv1a(f"{step}.{row}"), LENGTH + 1).tolist()
    out = [h[0] % v]
    for x in h[1:]:
        out.append((5 * out[-1] + 17 * (x % 4) + 1) % v)
    return out


def learning_rate(step):
    return PEAK * min(1.0, (step + 1) / WARMUP)


def run(dtype):
    model = GPT2LMHeadModel(GPT2Config(**CONFIG, bos_token_id=None, eos_token_id=None, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager"))
    set_weights(model, initial_weights())
    model.to(dtype).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK, foreach=False, **OPTIMIZER)
    steps = []
    for step in range(STEPS):
        ids = torch.tensor([tokens(step, row) for row in range(BATCH)])
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM, foreach=False)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        steps.append(dict(loss=loss.item(), grad_norm=norm.item()))
    return steps


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    folder = os.path.join(root, "gpt2_parity")
    os.makedirs(folder, exist_ok=True)
    torch.set_num_threads(1)
    steps, exact = run(torch.float32), run(torch.float64)
    distance = max(abs(a["loss"] - b["loss"]) for a, b in zip(steps, exact))
    G.write_json(os.path.join(folder, "golden.json"), dict(
        versions=G.versions("python make_gpt2_parity.py"), config=CONFIG, batch=BATCH, length=LENGTH,
        optimizer=dict(OPTIMIZER, max_grad_norm=MAX_NORM), lr=[learning_rate(s) for s in range(STEPS)],
        initial_sum=sum(float(w.double().sum()) for w in initial_weights().values()), f32_distance_from_f64=distance, steps=steps))
    print(f"loss {steps[0]['loss']:.5f} -> {steps[-1]['loss']:.5f}, f32 from f64 {distance:.1e}")


if __name__ == "__main__":
    main()
