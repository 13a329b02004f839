#!/usr/bin/env python3
"""Peer for decoding: transformers' generate on the CPU. One JSON line.

  python torch_generate.py MODEL_FOLDER [--prec f32|bf16] [-N 16] [--prompt 64] [--new 64] [--reps 3] [--threads 2]

N random prompts of equal length, greedy, exactly --new tokens each. Tokens/s counts new tokens over the whole call, prefill included.
"""
import argparse, json, os, statistics, time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
from transformers import AutoModelForCausalLM


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("--prec", choices=["f32", "bf16"], default="f32")
    for flag, value in (("-N", 16), ("--prompt", 64), ("--new", 64), ("--reps", 3), ("--threads", 2)):
        p.add_argument(flag, type=int, default=value)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32 if a.prec == "f32" else torch.bfloat16).eval()
    ids = torch.randint(1000, 40000, (a.N, a.prompt), generator=torch.Generator().manual_seed(1))
    times = []
    with torch.no_grad():
        for i in range(a.reps + 1):
            t = time.perf_counter()
            model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=a.new, min_new_tokens=a.new, pad_token_id=2)
            times.append(time.perf_counter() - t)
    rates = [a.N * a.new / t for t in times[1:]]
    print(json.dumps(dict(peer="transformers generate, torch " + torch.__version__, prec=a.prec, sequences=a.N, prompt=a.prompt, new=a.new, threads=a.threads,
                          new_tok_s=[round(f(rates), 1) for f in (min, statistics.median, max)], load=round(os.getloadavg()[0], 1))))


if __name__ == "__main__":
    main()
