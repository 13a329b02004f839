"""Shared by the golden scripts: the summed loss, gradients, and the files they are kept in.

Conventions of every golden file in this folder:
  * logits  f32 [T, V], row t predicts token t + 1;
  * loss    the sum (not the mean) of -log p(token[t+1]) over all next-token targets, natural log;
  * grad    d(loss summed over all sequences of the file)/d(parameter), f32, the parameter's own shape and name.
"""
import json, os, platform, sys

import numpy as np
import torch
from safetensors.numpy import save_file, load_file


def write_json(path, obj):
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        json.dump(obj, f, indent=1, ensure_ascii=False)
        f.write("\n")


def versions(command, **extra):
    import safetensors, tokenizers, transformers
    v = dict(command=command, python=platform.python_version(), torch=torch.__version__, transformers=transformers.__version__,
             safetensors=safetensors.__version__, tokenizers=tokenizers.__version__, numpy=np.__version__,
             cpu_capability=torch.backends.cpu.get_cpu_capability(), threads=torch.get_num_threads())
    try:
        import peft
        v["peft"] = peft.__version__
    except ImportError:
        pass
    v.update(extra)
    return v


def sum_loss(logits, tokens):
    """Summed next-token cross-entropy of one sequence: logits [T, V], tokens [T]."""
    return torch.nn.functional.cross_entropy(logits[:-1], tokens[1:], reduction="sum")


def forward_backward(model, sequences):
    """Logits per sequence, summed loss per sequence, gradient of the total by parameter name. One sequence at a time, no padding."""
    model.zero_grad(set_to_none=True)
    logits, losses = [], []
    for s in sequences:
        ids = torch.tensor(s)[None]
        out = model(input_ids=ids, use_cache=False).logits[0]
        loss = sum_loss(out, ids[0])
        loss.backward()
        logits.append(out.detach()); losses.append(loss.item())
    grads = {n: p.grad.detach().clone() for n, p in model.named_parameters() if p.grad is not None}
    return logits, losses, grads


def rel(a, b):
    """max |a - b| / max |b|: the relative distance that the golden tests' tolerances speak of."""
    return float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp_min(1e-300))


def f64_distance(model, sequences, logits, losses, grads, rename=lambda n: n):
    """How far these f32 values are from the same model run in f64: the noise that a tolerance has to be above."""
    import copy
    m = copy.deepcopy(model).double()
    l64, s64, g64 = forward_backward(m, sequences)
    g = {n: rel(grads[rename(n)], t) for n, t in g64.items()}
    worst = max(g, key=g.get)
    return dict(logits=max(rel(a, b) for a, b in zip(logits, l64)), loss=abs(sum(losses) - sum(s64)) / abs(sum(s64)),
                grad=g[worst], grad_worst=rename(worst)), s64


def make_sequences(seed, vocab, lengths):
    r = np.random.default_rng(seed)
    return [r.integers(0, vocab, n).tolist() for n in lengths]


def command_line():
    return "python " + os.path.basename(sys.argv[0]) + ("" if len(sys.argv) == 1 else " " + " ".join(sys.argv[1:]))
