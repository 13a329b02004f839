#!/usr/bin/env python3
"""By hand: does an adapter folder that Mainspring exported mean the same in peft?

  mainspring logprobs --model BASE --adapter ADAPTER --dtype f32 --in tokens.jsonl --out ours.jsonl
  python check_peft_roundtrip.py --base BASE --adapter ADAPTER --ours ours.jsonl [--tokens tokens.jsonl] [--resave DIR] [--tolerance 2e-5]

BASE is a Hugging Face folder. A row of ours.jsonl has "logprobs" (as long as its tokens, the first null), or "logits" ([T][V]); its tokens
come from its own "tokens", or from the same row of --tokens. --resave writes the adapter again with peft's save_pretrained, for the way back:
Mainspring must load DIR and give the same bits as from ADAPTER. Exit status 0 when every row is within the tolerance, 1 otherwise.
"""
import argparse, json, sys

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM


def rows(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


def main():
    p = argparse.ArgumentParser(description="compare an exported adapter in peft with Mainspring's own values")
    p.add_argument("--base", required=True)
    p.add_argument("--adapter", required=True)
    p.add_argument("--ours", required=True)
    p.add_argument("--tokens")
    p.add_argument("--resave")
    p.add_argument("--tolerance", type=float, default=2e-5)
    a = p.parse_args()
    base = AutoModelForCausalLM.from_pretrained(a.base, dtype=torch.float32)
    keys = set(load_file(a.adapter + "/adapter_model.safetensors"))
    model = PeftModel.from_pretrained(base, a.adapter).eval()
    known = {n.replace(".default.weight", ".weight") for n, _ in model.named_parameters() if "lora_" in n}
    if keys != known:
        print("tensor names differ: only in the file", sorted(keys - known)[:5], "only in peft", sorted(known - keys)[:5])
        return 1
    ours = rows(a.ours)
    tokens = [r["tokens"] for r in (rows(a.tokens) if a.tokens else ours)]
    if len(tokens) != len(ours) or not ours:
        print(f"{len(ours)} rows against {len(tokens)} token rows")
        return 1
    worst = 0.0
    for i, (row, t) in enumerate(zip(ours, tokens)):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([t]), use_cache=False).logits[0]
        if "logits" in row:
            theirs, mine = logits, torch.tensor(row["logits"])
        else:
            theirs = logits[:-1].log_softmax(-1).gather(1, torch.tensor(t[1:])[:, None])[:, 0]
            mine = torch.tensor(row["logprobs"][1:])
        if mine.shape != theirs.shape:
            print(f"row {i}: shape {tuple(mine.shape)}, peft has {tuple(theirs.shape)}")
            return 1
        d = float((mine.double() - theirs.double()).abs().max() / theirs.double().abs().max())
        print(f"row {i}: {len(t)} tokens, distance {d:.2e}")
        worst = d if d != d else max(worst, d)
    if a.resave:
        model.save_pretrained(a.resave)
    ok = worst <= a.tolerance
    print(f"{'ok' if ok else 'FAILED'}: largest distance {worst:.2e}, tolerance {a.tolerance:.0e}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
