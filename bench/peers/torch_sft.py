#!/usr/bin/env python3
"""Peer for training speed: PyTorch + transformers (+ peft) on the CPU, as well tuned as we know. One JSON line per run.

  python torch_sft.py MODEL [--lora] [--prec f32|amp|bf16] [-B 4] [-T 256] [--reps 3] [--warm 1] [--threads 2] [--compile]

MODEL: a folder, or gpt2:LAYERS,HIDDEN,HEADS,VOCABULARY, a new GPT2LMHeadModel of that shape (sdpa, no dropout).
--prec: f32 = everything f32; amp = f32 weights under bf16 autocast; bf16 = weights, gradients and AdamW state in bf16.
--compile: torch.compile of each decoder layer (needs a C++ compiler; the first steps are slow and not counted when --warm covers them).
Data: random tokens, every position a target: no padding, so the peer wastes nothing. The optimizer is torch's fused AdamW.
Printed: wall seconds and tokens/s (min, median, max), CPU seconds a step (all threads), peak resident MiB, first_step_s (process start to first
finished step), load average. A wall time taken while other work runs is worth nothing: compare cpu_s * 1/threads with step_s to see it.
"""
import time
START = time.time()
import argparse, contextlib, json, os, resource, statistics

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("--lora", action="store_true")
    p.add_argument("--prec", choices=["f32", "amp", "bf16"], default="amp")
    p.add_argument("-B", type=int, default=4)
    p.add_argument("-T", type=int, default=256)
    p.add_argument("--reps", type=int, default=3)
    p.add_argument("--warm", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--compile", action="store_true")
    return p.parse_args()


def make_model(a):
    import torch
    from transformers import AutoModelForCausalLM
    dtype = torch.bfloat16 if a.prec == "bf16" else torch.float32
    if a.model.startswith("gpt2:"):
        from transformers import GPT2Config, GPT2LMHeadModel
        layers, hidden, heads, vocabulary = map(int, a.model[5:].split(","))
        model = GPT2LMHeadModel(GPT2Config(bos_token_id=None, eos_token_id=None, n_layer=layers, n_embd=hidden, n_head=heads, vocab_size=vocabulary, n_positions=max(1024, a.T),
                                           resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="sdpa")).to(dtype)
    else:
        model = AutoModelForCausalLM.from_pretrained(a.model, dtype=dtype)
    model.config.use_cache = False
    if a.lora:
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, task_type="CAUSAL_LM",
                                                 target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]))
    if a.compile:
        for module in model.modules():
            if type(module).__name__.endswith(("DecoderLayer", "GPT2Block")):
                module.compile()
    return model.train()


def main():
    a = arguments()
    import torch
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    model = make_model(a)
    low, high = (1000, 40000) if model.config.vocab_size > 40000 else (0, model.config.vocab_size)
    ids = torch.randint(low, high, (a.B, a.T), generator=torch.Generator().manual_seed(1))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    autocast = (lambda: torch.autocast("cpu", torch.bfloat16)) if a.prec == "amp" else contextlib.nullcontext
    wall, cpu, first = [], [], None
    for _ in range(a.warm + a.reps):
        t, c = time.perf_counter(), time.process_time()
        with autocast():
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wall.append(time.perf_counter() - t)
        cpu.append(time.process_time() - c)
        first = first or time.time() - START
    wall, cpu = wall[a.warm:], cpu[a.warm:]
    spread = lambda x, n: [round(f(x), n) for f in (min, statistics.median, max)]
    print(json.dumps(dict(peer="torch " + torch.__version__, mode="lora" if a.lora else "full", prec=a.prec, compile=a.compile, B=a.B, T=a.T, threads=a.threads,
                          tok_s=spread([a.B * a.T / x for x in wall], 1), step_s=spread(wall, 3), cpu_s=spread(cpu, 3), first_step_s=round(first, 2),
                          peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, loss=round(loss.item(), 4), load=round(os.getloadavg()[0], 1),
                          isa=torch.backends.cpu.get_cpu_capability(), preload=os.path.basename(os.environ.get("LD_PRELOAD", "")))), flush=True)


if __name__ == "__main__":
    main()
