#!/usr/bin/env python3
"""LoRA adapter folders on the tiny llama_gqa and qwen2 models, with the logits, losses and gradients that peft gives for them in f32.

  python make_peft_adapter.py [GOLDEN_DIR [ADAPTER ...]]        (default: this script's folder; run make_tiny_models.py first)

peft/lora           r=4, alpha=8, all seven linears of each layer
peft/lora_pattern   rank_pattern and alpha_pattern: ranks 2, 4 and 6 in one adapter
peft/lora_rslora    use_rslora (scale alpha/sqrt(r)), only q_proj and v_proj
peft/lora_qwen2     a base with biases and tied embeddings, r=3 (odd)
peft/lora_gpt2      linears that keep (in, out), under GPT-2's names
peft/lora_phi3      fused linears, one of them with a rank and alpha of its own
Each: adapter_config.json, adapter_model.safetensors, golden.json, golden.safetensors (logits.I, grad.NAME with the names of adapter_model.safetensors).
B is random, not zero, so that A's gradients are not zero. The base is frozen: no other gradient exists.
"""
import json, os, shutil, sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM

import golden_common as G

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
CONV = ["c_attn", "c_proj", "c_fc"]
FUSED = ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]
ADAPTERS = {
    "lora": ("llama_gqa", dict(r=4, lora_alpha=8, target_modules=ALL)),
    "lora_pattern": ("llama_gqa", dict(r=4, lora_alpha=8, target_modules=ALL, rank_pattern={"layers.1.self_attn.q_proj": 2, "down_proj": 6},
                                       alpha_pattern={"layers.1.self_attn.q_proj": 3, "down_proj": 12})),
    "lora_rslora": ("llama_gqa", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], use_rslora=True)),
    "lora_qwen2": ("qwen2", dict(r=3, lora_alpha=6, target_modules=ALL)),
    "lora_phi3": ("phi3", dict(r=4, lora_alpha=8, target_modules=FUSED, rank_pattern={"gate_up_proj": 2}, alpha_pattern={"gate_up_proj": 3})),
    "lora_gpt2": ("gpt2", dict(r=4, lora_alpha=8, target_modules=CONV, fan_in_fan_out=True)),
}


def load_base(root, name):
    return AutoModelForCausalLM.from_pretrained(os.path.join(root, "tiny", name), dtype=torch.float32, attn_implementation="eager").eval()


def file_name(parameter):
    """peft's name in memory -> its name in adapter_model.safetensors."""
    return parameter.replace(".default.weight", ".weight")


def make(name, root):
    base_name, cfg = ADAPTERS[name]
    folder = os.path.join(root, "peft", name)
    shutil.rmtree(folder, ignore_errors=True)
    m = get_peft_model(load_base(root, base_name), LoraConfig(lora_dropout=0.0, bias="none", task_type="CAUSAL_LM", **cfg))
    g = torch.Generator().manual_seed(3000 + list(ADAPTERS).index(name))
    with torch.no_grad():
        for n, p in m.named_parameters():
            if "lora_" in n:
                p.copy_(torch.randn(p.shape, generator=g) * (0.5 / p.shape[1] ** 0.5))
    m.peft_config["default"].base_model_name_or_path = base_name
    m.save_pretrained(folder)
    if os.path.exists(os.path.join(folder, "README.md")):
        os.remove(os.path.join(folder, "README.md"))
    path = os.path.join(folder, "adapter_config.json")  # stable: peft writes sets in any order
    c = json.load(open(path))
    c["target_modules"] = sorted(c["target_modules"], key=(ALL + FUSED + CONV).index)
    G.write_json(path, c)

    base = load_base(root, base_name)
    m = PeftModel.from_pretrained(base, folder, is_trainable=True).eval()
    sequences = G.make_sequences(4000, m.config.vocab_size, (17, 30))
    with torch.no_grad():
        base_logits = load_base(root, base_name)(input_ids=torch.tensor(sequences[0])[None]).logits[0]
    logits, losses, grads = G.forward_backward(m, sequences)
    noise, losses64 = G.f64_distance(m, sequences, logits, losses, grads)
    effect = G.rel(base_logits, logits[0])
    merged = PeftModel.from_pretrained(load_base(root, base_name), folder).merge_and_unload()
    with torch.no_grad():
        merge_distance = G.rel(merged(input_ids=torch.tensor(sequences[0])[None]).logits[0], logits[0])
    stored = load_file(os.path.join(folder, "adapter_model.safetensors"))
    grads = {file_name(n): t for n, t in grads.items()}
    assert set(grads) == set(stored) and all(tuple(grads[n].shape) == stored[n].shape for n in stored)
    assert all(float(t.abs().max()) > 0 for t in grads.values()) and effect > 0.05, effect
    tensors = {f"logits.{i}": t.numpy() for i, t in enumerate(logits)}
    tensors.update({f"grad.{n}": t.contiguous().numpy() for n, t in grads.items()})
    save_file(tensors, os.path.join(folder, "golden.safetensors"))
    noise["grad_worst"] = file_name(noise["grad_worst"])
    G.write_json(os.path.join(folder, "golden.json"), dict(
        variant=name, base="../../tiny/" + base_name, dtype="f32", tensors="golden.safetensors",
        sequences=[dict(tokens=s, loss_sum=a, loss_sum_f64=b, token_count=len(s) - 1) for s, a, b in zip(sequences, losses, losses64)],
        loss_sum=sum(losses), loss_sum_f64=sum(losses64), token_count=sum(len(s) - 1 for s in sequences),
        f32_distance_from_f64=noise, logits_distance_from_base=effect, merged_logits_distance=merge_distance))
    for f in os.listdir(folder):
        os.chmod(os.path.join(folder, f), 0o644)
    print(f"{name:14} loss {sum(losses):.5f}  noise: logits {noise['logits']:.1e} grad {noise['grad']:.1e}  effect {effect:.2f}  merged {merge_distance:.1e}")


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.set_num_threads(1)
    for name in sys.argv[2:] or ADAPTERS:
        make(name, root)
    G.write_json(os.path.join(root, "peft", "versions.json"), G.versions("python make_peft_adapter.py"))


if __name__ == "__main__":
    main()
