#!/usr/bin/env python3
"""Golden values of the real SmolLM2-135M-Instruct, by transformers (and peft) in torch.

  python make_smollm2.py greedy   SMOLLM2_FOLDER [OUT_DIR]
  python make_smollm2.py logprobs SMOLLM2_FOLDER CONVERSATIONS.jsonl [OUT_DIR] [--kernels yes] [--work DIR: keeps finished sequences there and goes on from them]
  python make_smollm2.py parity   SMOLLM2_FOLDER CONVERSATIONS.jsonl [OUT_DIR] [--only full|full_clip|lora|lora_clip]

SMOLLM2_FOLDER is made by convert_gguf.py: the GGUF's Q4_1 and Q8_0 blocks dequantised and rounded to bf16, which "f32" below widens again
without a change. CONVERSATIONS.jsonl has rows of "messages". OUT_DIR defaults to smollm2/ beside this script. What each file holds: README.md.
"""
import json, math, os, sys, time

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import golden_common as G

THREADS = 1  # no barrier to wait at on a busy machine; the values differ by f32 rounding only
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
PROMPTS = [
    [dict(role="user", content="What is the capital of France?")],
    [dict(role="user", content="Write one sentence about the sea.")],
    [dict(role="system", content="You are a pirate. Answer in one sentence."), dict(role="user", content="How are you today?")],
    [dict(role="user", content="List three colours.")],
    [dict(role="user", content="What is 12 + 30?")],
    [dict(role="user", content="Explain why the sky is blue to a child.")],
    [dict(role="user", content="My name is Ada."), dict(role="assistant", content="Nice to meet you, Ada!"), dict(role="user", content="What is my name?")],
    [dict(role="user", content="Write a Python function that adds two numbers.")],
]
NEW_TOKENS = 32


def load(folder, dtype=torch.float32):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


def conversations(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line)["messages"] for line in f if line.strip()]


def digits(x, n=9):
    """An f32 with as many digits as bring it back exactly."""
    return float(f"{x:.{n}g}")


# ---------------------------------------------------------------- greedy
def greedy(folder, out):
    model, tok = load(folder), AutoTokenizer.from_pretrained(folder)
    rows = []
    for messages in PROMPTS:
        text = tok.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tok(text, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            r = model.generate(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False, max_new_tokens=NEW_TOKENS,
                               return_dict_in_generate=True, output_logits=True, pad_token_id=2)
        new = r.sequences[0, len(ids):].tolist()
        steps = torch.stack([x[0] for x in r.logits])
        top = steps.topk(2, -1).values
        logprobs = steps.log_softmax(-1)[torch.arange(len(new)), torch.tensor(new)]
        with torch.no_grad():  # the cache must not have changed the choice
            again = model(input_ids=torch.tensor([ids + new]), use_cache=False).logits[0, len(ids) - 1:-1]
        assert again.argmax(-1).tolist() == new
        rows.append(dict(messages=messages, prompt=text, prompt_tokens=ids, tokens=new, text=tok.decode(new, clean_up_tokenization_spaces=False), stop_reason="stop" if new[-1] == 2 else "length",
                         logprobs=[digits(x) for x in logprobs.tolist()], smallest_margin=digits((top[:, 0] - top[:, 1]).min().item(), 4)))
        print(repr(rows[-1]["text"]), rows[-1]["smallest_margin"], flush=True)
    G.write_json(os.path.join(out, "greedy.json"), dict(dtype="f32", max_tokens=NEW_TOKENS, stop_token=2, rows=rows, versions=G.versions("python make_smollm2.py greedy SMOLLM2_FOLDER")))


# ---------------------------------------------------------------- log-probabilities
def kl(p_log, q_log):
    """KL(p || q) of each row, from f64 log-probabilities."""
    return (p_log.exp() * (p_log - q_log)).sum(-1)


def distance(p, q, targets):
    """What the test needs of two f32 logits tensors [T, V]: KL per row, and both log-probabilities of the targets."""
    p_log, q_log = p.double().log_softmax(-1), q.double().log_softmax(-1)
    pick = lambda x: x.gather(1, targets[:, None])[:, 0]
    return kl(p_log, q_log), pick(p_log), pick(q_log)


def summary(d, f, q):
    delta = q - f
    return dict(mean_kl=d.mean().item(), max_kl=d.max().item(), mean_abs_logprob=delta.abs().mean().item(), rms_logprob=delta.square().mean().sqrt().item(),
                max_abs_logprob=delta.abs().max().item(), k3=(delta.exp() - 1 - delta).mean().item())


def widen_products(model):
    """bf16 linears as f32 products of the bf16 values, rounded to bf16 once: what torch's bf16 kernels compute, up to the order of their f32
    sums, at eight times their speed on a processor without bf16 instructions. --kernels runs the kernels themselves."""
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            assert module.bias is None
            w = module.weight.detach().float()
            module.forward = lambda x, w=w: torch.nn.functional.linear(x.float(), w).to(x.dtype)


def sequence_distances(f32, bf16, ids, with_autocast):
    """Of one sequence: f32 logits, and the distances of torch's kinds of bf16 from them."""
    targets = torch.tensor(ids[1:])
    ids = torch.tensor(ids)[None]
    with torch.no_grad():
        a = f32(input_ids=ids, use_cache=False).logits[0, :-1]
        h = bf16.model(input_ids=ids, use_cache=False).last_hidden_state[0, :-1]
        b = bf16.lm_head(h).float()
        c = torch.nn.functional.linear(h.float(), bf16.lm_head.weight.float())  # the stricter peer: its logits are not rounded
        result = dict(bf16=distance(a, b, targets), bf16_f32_head=distance(a, c, targets))
        if with_autocast:
            with torch.autocast("cpu", torch.bfloat16):
                d = f32(input_ids=ids, use_cache=False).logits[0, :-1].float()
            result["autocast"] = distance(a, d, targets)
    return a.log_softmax(-1), targets, result


def logprobs(folder, data, out, work, kernels):
    tok = AutoTokenizer.from_pretrained(folder)
    stream = []
    for messages in conversations(data):
        stream += tok(tok.apply_chat_template(messages, tokenize=False), add_special_tokens=False)["input_ids"]
    n, length = 8, 513
    assert len(stream) >= n * length, len(stream)
    sequences = [stream[i * length:(i + 1) * length] for i in range(n)]
    f32, bf16 = load(folder), load(folder, torch.bfloat16)
    if not kernels:
        widen_products(bf16)
    rows, top, parts = [], [], {}
    for i, s in enumerate(sequences):
        kept = os.path.join(work, f"{i}.pt") if work else None
        if kept and os.path.exists(kept):
            row, some, result = torch.load(kept)
        else:
            a, t, result = sequence_distances(f32, bf16, s, kernels)
            kb, _, fb = result["bf16"]
            row = dict(tokens=s, logprobs_f32=[digits(x) for x in a.gather(1, t[:, None])[:, 0].tolist()],
                       logprobs_bf16=[digits(x) for x in fb.tolist()], kl_bf16=[digits(x, 5) for x in kb.tolist()])
            some = []
            for p in range(7, length - 1, 16):  # 32 positions of each sequence
                v, k = a[p].topk(64)
                some.append(dict(sequence=i, position=p, ids=k.tolist(), logprobs=[digits(x, 8) for x in v.tolist()]))
            if kept:
                torch.save((row, some, result), kept)
        rows.append(row)
        top += some
        for name, x in result.items():
            parts.setdefault(name, []).append(x)
        print(i, {name: float(x[0].mean()) for name, x in result.items()}, flush=True)
    joined = {name: [torch.cat(x) for x in zip(*part)] for name, part in parts.items()}
    result = dict(scored_tokens=len(joined["bf16"][1]), mean_logprob_f32=joined["bf16"][1].mean().item(),
                  **{name: dict(tokens=len(x[0]), **summary(*x)) for name, x in joined.items()})
    print(json.dumps(result, indent=1))
    path = os.path.join(out, "logprobs_4096.json")
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        f.write(json.dumps(dict(summary=result, versions=G.versions("python make_smollm2.py logprobs SMOLLM2_FOLDER CONVERSATIONS.jsonl")), indent=1)[:-2] + ',\n "rows": [\n')
        f.write(",\n".join(json.dumps(r) for r in rows) + '\n ],\n "top64": [\n' + ",\n".join(json.dumps(r) for r in top) + "\n ]\n}\n")
    json.load(open(path))


# ---------------------------------------------------------------- training parity
def lora_a(name, rank, width):
    """The initial A of the linear called `name` (its module path in the base model, such as model.layers.0.self_attn.q_proj).

    seed = FNV-1a, 32 bits, over the name's bytes; element (row, column) has index i = row * width + column and
      x = (seed + i * 0x9E3779B9) mod 2^32;  x ^= x >> 16;  x *= 0x85EBCA6B;  x ^= x >> 13;  x *= 0xC2B2AE35;  x ^= x >> 16
      u = (x >> 8) * 2^-23 - 1            exact in f32, in [-1, 1)
      A = u * bound, one f32 product;     bound = f32(1 / sqrt(f64(width)))
    """
    seed = 0x811C9DC5
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x01000193) & 0xFFFFFFFF
    x = (np.uint64(seed) + np.arange(rank * width, dtype=np.uint64) * np.uint64(0x9E3779B9)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    x = (x * np.uint64(0x85EBCA6B)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(13)
    x = (x * np.uint64(0xC2B2AE35)) & np.uint64(0xFFFFFFFF)
    x ^= x >> np.uint64(16)
    u = (x >> np.uint64(8)).astype(np.float32) * np.float32(2.0 ** -23) - np.float32(1)
    return (u * np.float32(1.0 / math.sqrt(width))).reshape(rank, width)


def chat_row(tok, messages):
    """Token ids of a rendered conversation, and which of them are trained: the assistant's text and the <|im_end|> that closes it."""
    ids, mask = [], []
    text = tok.apply_chat_template(messages, tokenize=False)
    at = 0
    turns = messages if messages[0]["role"] == "system" else [dict(role="system", content=None)] + messages
    pieces = []
    for m in turns:
        start, end = text.index("<|im_start|>", at), text.index("<|im_end|>", at)
        head = text.index("\n", start) + 1
        assert m["content"] is None or text[head:end] == m["content"]
        pieces += [(text[at:head], 0), (text[head:end], int(m["role"] == "assistant")), ("<|im_end|>", int(m["role"] == "assistant"))]
        at = end + len("<|im_end|>")
    pieces.append((text[at:], 0))
    whole = tok(text, add_special_tokens=False, return_offsets_mapping=True)
    spans, at = [], 0
    for piece, trained in pieces:
        if trained:
            spans.append((at, at + len(piece)))
        at += len(piece)
    assert at == len(text)
    ids = whole["input_ids"]
    mask = [int(any(b >= s and e <= t for s, t in spans)) for b, e in whole["offset_mapping"]]
    return dict(tokens=ids, loss_mask=mask)


def parity_rows(tok, data, steps, batch, longest=96):
    rows = [chat_row(tok, m) for m in conversations(data)]
    rows = [r for r in rows if len(r["tokens"]) <= longest and sum(r["loss_mask"])]
    return [[rows[(i * batch + j) % len(rows)] for j in range(batch)] for i in range(steps)]


def batch_gradient(model, batch):
    """Mean over the batch's trained tokens of the cross-entropy; rows one by one, without padding; gradients accumulate."""
    count = sum(sum(r["loss_mask"][1:]) for r in batch)
    total = 0.0
    for r in batch:
        ids = torch.tensor(r["tokens"])
        logits = model(input_ids=ids[None], use_cache=False).logits[0, :-1]
        labels = torch.where(torch.tensor(r["loss_mask"][1:]).bool(), ids[1:], torch.tensor(-100))
        loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum", ignore_index=-100) / count
        loss.backward()
        total += loss.item()
    return total, count


def train(folder, mode, steps, batches, clip, lr):
    torch.manual_seed(0)
    model = load(folder)
    if mode == "lora":
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, bias="none", task_type="CAUSAL_LM", target_modules=TARGETS))
        for name, p in model.named_parameters():
            if "lora_A" in name:
                base = name.removeprefix("base_model.model.").split(".lora_A")[0]
                p.data.copy_(torch.from_numpy(lora_a(base, *p.shape)))
            elif "lora_B" in name:
                assert float(p.abs().max()) == 0
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    history = []
    for i in range(steps):
        t = time.time()
        loss, count = batch_gradient(model, batches[i])
        norm = torch.nn.utils.clip_grad_norm_(params, clip if clip else float("inf")).item()
        if not clip:
            assert all(torch.isfinite(p.grad).all() for p in params)
        opt.step()
        opt.zero_grad(set_to_none=True)
        history.append(dict(step=i, loss=loss, token_count=count, grad_norm=norm))
        print(mode, "clip" if clip else "", i, f"{loss:.6f} {count} {norm:.6f} {time.time() - t:.1f}s", flush=True)
    with torch.no_grad():
        final = sum(G.sum_loss(model(input_ids=torch.tensor(r["tokens"])[None], use_cache=False).logits[0], torch.tensor(r["tokens"])).item() for r in batches[0])
    return history, final, params


def parity(folder, data, out, only):
    tok = AutoTokenizer.from_pretrained(folder)
    steps = 20
    batches = parity_rows(tok, data, steps, 4)
    for mode, lr in (("lora", 1e-4), ("full", 1e-5)):
        runs = {}
        path = os.path.join(out, f"parity_{mode}.json")
        if os.path.exists(path) and only:
            runs = json.load(open(path))["runs"]
        for name, clip in (("unclipped", None), ("clipped", 1.0)):
            if only and only != mode + ("_clip" if clip else ""):
                continue
            history, final, _ = train(folder, mode, steps, batches, clip, lr)
            runs[name] = dict(clip_norm=clip, steps=history, final_loss_sum_of_batch_0=final)
        if not runs:
            continue
        head = dict(mode=mode, dtype="f32", optimizer=dict(name="adamw", lr=lr, betas=[0.9, 0.999], eps=1e-8, weight_decay=0.01, decay_applies_to="every trained parameter", schedule="constant"))
        if mode == "lora":
            head["lora"] = dict(r=16, alpha=32, dropout=0.0, targets=TARGETS, b_init=0, a_init="lora_a() in make_smollm2.py",
                                a_check={n: [digits(x) for x in lora_a(n, 16, w).reshape(-1)[[0, 1, 2, 3, w, -1]].tolist()]
                                         for n, w in (("model.layers.0.self_attn.q_proj", 576), ("model.layers.29.mlp.down_proj", 1536))},
                                a_check_elements="(0,0) (0,1) (0,2) (0,3) (1,0) (15,width-1)")
        with open(path, "w", encoding="utf-8", newline="\n") as f:
            f.write(json.dumps(dict(head, runs=runs, versions=G.versions("python make_smollm2.py parity SMOLLM2_FOLDER CONVERSATIONS.jsonl")), indent=1)[:-2] + ',\n "batches": [\n')
            f.write(",\n".join("  [\n" + ",\n".join("   " + json.dumps(r) for r in b) + "\n  ]" for b in batches) + "\n ]\n}\n")
        json.load(open(path))


def main():
    args, options = [], {}
    for x in sys.argv[1:]:
        if x.startswith("--"):
            options[x] = None
        elif options and list(options.values())[-1] is None:
            options[list(options)[-1]] = x
        else:
            args.append(x)
    verb, folder, data = args[0], args[1], args[2:]
    needs = 0 if verb == "greedy" else 1
    out = data[needs] if len(data) > needs else os.path.join(os.path.dirname(os.path.abspath(__file__)), "smollm2")
    os.makedirs(out, exist_ok=True)
    torch.set_num_threads(THREADS)
    dict(greedy=lambda: greedy(folder, out), logprobs=lambda: logprobs(folder, data[0], out, options.get("--work"), options.get("--kernels")),
         parity=lambda: parity(folder, data[0], out, options.get("--only")))[verb]()


if __name__ == "__main__":
    main()
