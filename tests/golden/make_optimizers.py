#!/usr/bin/env python3
"""Parameters after 1 and 20 steps of each optimizer, in f32, from gradients that a formula on integers gives (value() below, exact in f32).

  python make_optimizers.py [GOLDEN_DIR]        (default: this script's folder)

optimizers/golden.safetensors   CASE.PARAM.STEP f32, for every case and parameter below
optimizers/versions.json        versions, and per case how far f32 is from the same steps in f64

adamw, adafactor are torch.optim's. muon_* are torch.optim.Muon's, whose products are bf16; muon_f32 is the same code with its one conversion
to bf16 taken out. lion is the update of Chen et al. 2023 (arXiv:2302.06675), algorithm 2, written here.
"""
import os, sys

import torch
from safetensors.torch import save_file

import golden_common as G

PARAMS = {"wide": (12, 40), "tall": (40, 12), "chunks": (16, 300), "vector": (33,)}
STEPS = 20
CASES = {
    "adamw": dict(lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
    "lion": dict(lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1),
    "adafactor": dict(lr=1e-2, weight_decay=0.1),
    "adafactor_clip": dict(lr=5e-1, weight_decay=0.0, d=1.5, beta2_decay=-0.5),
    "muon_original": dict(lr=1e-3, weight_decay=0.1, adjust_lr_fn="original"),
    "muon_match": dict(lr=2e-4, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
    "muon_f32": dict(lr=2e-2, weight_decay=0.1, adjust_lr_fn="original", nesterov=False),
}


def value(seed, shape):
    """Element i: 16 bits of a hash of (seed, i), as a number in [-0.5, 0.5)."""
    n = 1
    for s in shape:
        n *= s
    x = (torch.arange(n, dtype=torch.int64) * 2654435761 + seed * 40503) & 0xFFFFFFFF
    for _ in range(2):
        x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    x = x ^ (x >> 16)
    return ((x & 0xFFFF).to(torch.float32) / 65536 - 0.5).reshape(shape)


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                c = b1 * m + (1 - b1) * p.grad
                p.mul_(1 - group["lr"] * group["weight_decay"]).add_(c.sign(), alpha=-group["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


class Float32Products(torch.optim.Muon):
    """torch.optim.Muon, whose module finds the parameters' dtype where it asks for bfloat16."""
    def step(self, closure=None):
        import torch.optim._muon as module

        class Torch:
            def __getattr__(self, name):
                return self.dtype if name == "bfloat16" else getattr(torch, name)

        fake = Torch()
        fake.dtype = self.param_groups[0]["params"][0].dtype
        module.torch = fake
        try:
            return super().step(closure)
        finally:
            module.torch = torch


def make(case, params, **options):
    if case == "adamw":
        return torch.optim.AdamW(params, foreach=False, **options)
    if case == "lion":
        return Lion(params, **options)
    if case.startswith("adafactor"):
        return torch.optim.Adafactor(params, foreach=False, **options)
    return (Float32Products if case == "muon_f32" else torch.optim.Muon)(params, **options)


def run(case, dtype):
    names = [n for n in PARAMS if not (case.startswith("muon") and n == "vector")]
    params = {n: torch.nn.Parameter(value(1 + list(PARAMS).index(n), PARAMS[n]).to(dtype)) for n in names}
    optimizer = make(case, list(params.values()), **CASES[case])
    kept = {}
    for step in range(1, STEPS + 1):
        for n, p in params.items():
            p.grad = value(100 * step + list(PARAMS).index(n), PARAMS[n]).to(dtype)
        optimizer.step()
        if step in (1, STEPS):
            kept.update({f"{case}.{n}.{step}": p.detach().clone() for n, p in params.items()})
    return kept


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    folder = os.path.join(root, "optimizers")
    os.makedirs(folder, exist_ok=True)
    torch.set_num_threads(1)
    tensors, distances = {}, {}
    for case in CASES:
        got, exact = run(case, torch.float32), run(case, torch.float64)
        distances[case] = max(G.rel(got[k], exact[k]) for k in got)
        tensors.update(got)
    save_file(tensors, os.path.join(folder, "golden.safetensors"))
    G.write_json(os.path.join(folder, "versions.json"),
                 G.versions("python make_optimizers.py", cases=CASES, f32_distance_from_f64=distances))
    print(distances)


if __name__ == "__main__":
    main()
