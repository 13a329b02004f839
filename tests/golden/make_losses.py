#!/usr/bin/env python3
"""Losses and advantages in f64 by torch's autograd, from seeded random inputs that are exact in f32.

  python make_losses.py [GOLDEN_DIR]        (default: this script's folder)

losses/golden.json   versions, cases[{loss settings items[{role weights logprobs values inputs
                     candidates candidate_weights candidate_logprobs}] total by_logprob by_value by_candidate}] and
                     advantages[{kind eps rewards groups advantages}]

Each formula is written here from its paper with torch's own functions (softplus, logsigmoid, clamp, min); gradients are autograd's. A case is
one group: what an objective of scope kGroup sees at once, or one datum. Positions of weight 0 have log-probability 0, as the engine gives them.
"""
import os, sys

import numpy as np
import torch
import torch.nn.functional as F

import golden_common as G

RNG = np.random.default_rng(16)


def f32(x):
    return np.asarray(x, dtype=np.float32)


def make_item(n, role=0, inputs=(), values=False, spread=0.5):
    """A datum of n positions, some of them not learned; log-probabilities of several policies lie around one another."""
    weights = f32(RNG.choice([1.0, 0.5, 0.25], n)) if role == 0 else f32(np.ones(n))
    weights[RNG.random(n) < 0.25] = 0
    weights[-1] = 1
    base = f32(-RNG.exponential(1.2, n) - 0.01)
    item = {"role": role, "weights": weights, "logprobs": f32(np.where(weights != 0, base, 0)), "inputs": {}}
    for name in inputs:
        item["inputs"][name] = {
            "advantages": lambda: f32(RNG.normal(0, 1, n)),
            "returns": lambda: f32(RNG.normal(0, 1, n)),
            "old_values": lambda: f32(RNG.normal(0, 1, n)),
            "margin": lambda: f32(np.abs(RNG.normal(0, 1, n))),
        }.get(name, lambda: f32(base + RNG.normal(0, spread, n)))()
    if values:
        item["values"] = f32(RNG.normal(0, 1, n))
    return item


def tensor(x):
    return torch.tensor(np.asarray(x, dtype=np.float64))


# ---- policy losses: one datum

def policy(item, s, token_loss, sequence=False):
    """token_loss(log_ratio, lp, advantage, settings) -> loss per token."""
    lp, m = item["lp"], item["w"] != 0
    x = {k: tensor(v) for k, v in item["inputs"].items()}
    c = int(s["correction"])
    prox = x.get("proximal_logprobs", lp.detach())
    anchor = x["logprobs"] if c == 1 else prox
    log_ratio = lp - anchor
    factor = torch.ones_like(lp)
    if c >= 2:
        log_rho = prox - x["logprobs"]
        if c >= 4:
            log_rho = (log_rho * m).sum().expand_as(lp)
        rho = log_rho.exp()
        if c in (2, 4):
            factor = rho.clamp(max=s["correction_cap"])
        else:
            factor = torch.where((rho >= s["correction_low"]) & (rho <= s["correction_cap"]), rho, torch.zeros_like(rho))
    if sequence:
        log_ratio = ((log_ratio * m).sum() / m.sum()).expand_as(lp)
    total = (item["w"] * factor * token_loss(log_ratio, lp, x["advantages"], s))[m].sum()
    if s["kl_coef"] > 0:
        d = lp - x["ref_logprobs"]
        kl = {1: d, 2: d * d / 2, 3: torch.exp(-d) - 1 + d}[int(s["kl_estimator"])]
        total = total + s["kl_coef"] * (item["w"] * kl)[m].sum()
    return total


def ppo(log_ratio, lp, a, s):
    r = log_ratio.exp()
    objective = torch.minimum(r * a, r.clamp(s["clip_low_threshold"], s["clip_high_threshold"]) * a)
    if s.get("dual_clip", 0) > 0:
        objective = torch.where(a < 0, torch.maximum(objective, s["dual_clip"] * a), objective)
    return -objective


def cispo(log_ratio, lp, a, s):
    return -log_ratio.exp().clamp(s["clip_low_threshold"], s["clip_high_threshold"]).detach() * lp * a


def dro(log_ratio, lp, a, s):
    return -(lp * a - s["beta"] / 2 * log_ratio ** 2)


def sapo(log_ratio, lp, a, s):
    tau = torch.where(a > 0, tensor(s["tau_positive"]), tensor(s["tau_negative"]))
    return -torch.sigmoid(tau * (log_ratio.exp() - 1)) * 4 / tau * a


POLICY = {"ppo": (ppo, dict(clip_low_threshold=0.8, clip_high_threshold=1.2, dual_clip=0)),
          "cispo": (cispo, dict(clip_low_threshold=0.8, clip_high_threshold=1.2)),
          "dro": (dro, dict(beta=0.05)),
          "gspo": (ppo, dict(clip_low_threshold=0.9997, clip_high_threshold=1.0004)),
          "sapo": (sapo, dict(tau_positive=1.0, tau_negative=1.05))}
COMMON = dict(correction=1, correction_low=0, correction_cap=2, kl_coef=0, kl_estimator=3)


def value(item, s):
    m = item["w"] != 0
    ret = tensor(item["inputs"]["returns"])
    loss = 0.5 * (item["v"] - ret) ** 2
    if s["clip"] > 0:
        old = tensor(item["inputs"]["old_values"])
        near = old + (item["v"] - old).clamp(-s["clip"], s["clip"])
        loss = torch.maximum(loss, 0.5 * (near - ret) ** 2)
    return s["coef"] * (item["w"] * loss)[m].sum()


# ---- preference losses: one group

def sums(item):
    ref = tensor(item["inputs"]["ref_logprobs"]) if "ref_logprobs" in item["inputs"] else torch.zeros_like(item["lp"])
    return (item["w"] * item["lp"]).sum(), (item["w"] * (item["lp"] - ref)).sum(), item["w"].sum()


def by_role(items, role):
    return [i for i in items if i["role"] == role]


def dpo_like(items, s, loss_of):
    (cs, cr, cl), (rs, rr, rl) = sums(by_role(items, 1)[0]), sums(by_role(items, 2)[0])
    if s["length_normalised"]:
        cr, rr = cr / cl, rr / rl
    return loss_of(cr - rr, s) + s["sft_coef"] * -cs / cl


def kto(items, s):
    z0 = torch.stack([sums(i)[1] for i in by_role(items, 3)]).mean().clamp(min=0).detach()
    total = 0
    for i in by_role(items, 1):
        total = total + s["desirable_weight"] * (1 - torch.sigmoid(s["beta"] * (sums(i)[1] - z0)))
    for i in by_role(items, 2):
        total = total + s["undesirable_weight"] * (1 - torch.sigmoid(s["beta"] * (z0 - sums(i)[1])))
    return total


def orpo(items, s):
    (cs, _, cl), (rs, _, rl) = sums(by_role(items, 1)[0]), sums(by_role(items, 2)[0])
    c, r = cs / cl, rs / rl
    odds = lambda p: torch.log(p.exp() / (1 - p.exp()))
    return -c - s["beta"] * F.logsigmoid(odds(c) - odds(r))


def simpo(items, s):
    (cs, _, cl), (rs, _, rl) = sums(by_role(items, 1)[0]), sums(by_role(items, 2)[0])
    return -F.logsigmoid(s["beta"] * (cs / cl - rs / rl) - s["gamma"]) - s["sft_coef"] * cs / cl


def cpo(items, s):
    (cs, _, cl), (rs, _, rl) = sums(by_role(items, 1)[0]), sums(by_role(items, 2)[0])
    return -F.logsigmoid(s["beta"] * (cs - rs)) - s["sft_coef"] * cs / cl


def reward_pair(items, s):
    c, r = by_role(items, 1)[0], by_role(items, 2)[0]
    last = lambda i: int(np.flatnonzero(np.asarray(i["weights"]))[-1])
    vc, vr = c["v"][last(c)], r["v"][last(r)]
    margin = s["margin"] + (float(c["inputs"]["margin"][last(c)]) if "margin" in c["inputs"] else 0)
    return -F.logsigmoid(vc - vr - margin) + s["centring"] * (vc + vr) ** 2


def smoothed(sign, scaled):
    def loss(d, s):
        e, h = s["label_smoothing"], s["beta"] * d
        value = -(1 - e) * F.logsigmoid(h) + sign * e * F.logsigmoid(-h)
        return value / (1 - 2 * e) if scaled else value
    return loss


DPO = {"dpo": lambda d, s: -F.logsigmoid(s["beta"] * d),
       "dpo_ipo": lambda d, s: (d - 1 / (2 * s["beta"])) ** 2,
       "dpo_hinge": lambda d, s: torch.relu(1 - s["beta"] * d),
       "dpo_robust": smoothed(1, True), "dpo_conservative": smoothed(-1, False)}


# ---- cases

def run(name, settings, items, loss):
    for i in items:
        i["lp"] = tensor(i["logprobs"]).requires_grad_()
        i["w"] = tensor(i["weights"])
        if "values" in i:
            i["v"] = tensor(i["values"]).requires_grad_()
    total = loss(items)
    total.backward()
    grad = lambda t: (torch.zeros_like(t) if t.grad is None else t.grad).tolist()
    case = {"loss": name, "settings": settings, "total": total.item(), "by_logprob": [grad(i["lp"]) for i in items],
            "by_value": [grad(i["v"]) for i in items if "v" in i], "items": []}
    for i in items:
        out = {"role": i["role"], "weights": i["weights"].tolist(), "logprobs": i["logprobs"].tolist(),
               "inputs": {k: v.tolist() for k, v in i["inputs"].items()}}
        if "values" in i:
            out["values"] = i["values"].tolist()
        case["items"].append(out)
    return case


def policy_cases():
    inputs = ("logprobs", "advantages")
    full = inputs + ("proximal_logprobs", "ref_logprobs")
    for name, (loss, own) in POLICY.items():
        plans = [({}, inputs, 0.5), ({"correction": 0}, inputs, 0.5), ({"correction": 0}, full, 0.3)]
        plans += [({"correction": c, "correction_cap": 1.25, "correction_low": 0.75 if c % 2 else 0}, full, 0.2) for c in (2, 3, 4, 5)]
        plans += [({"correction": 2}, inputs, 0.8)]
        plans += [({"kl_coef": 0.3, "kl_estimator": k}, full, 0.5) for k in (1, 2, 3)]
        if name == "ppo":
            plans += [({"clip_low_threshold": 0.8, "clip_high_threshold": 1.28, "dual_clip": 1.5}, inputs, 0.9)]
        if name == "gspo":
            plans += [({"clip_low_threshold": 0.5, "clip_high_threshold": 1.6}, inputs, 0.5), ({}, inputs, 0.0002)]
        for settings, wanted, spread in plans:
            for n in (1, 9, 24):
                item = make_item(n, inputs=wanted, spread=spread)
                s = {**own, **COMMON, **settings}
                yield run(name, settings, [item], lambda items: policy(items[0], s, loss, name == "gspo"))
    for settings in ({}, {"clip": 0.2, "coef": 0.5}):
        s = {**dict(clip=0, coef=1), **settings}
        for n in (1, 24):
            item = make_item(n, inputs=("returns", "old_values"), values=True)
            yield run("value", settings, [item], lambda items: value(items[0], s))


def preference_cases():
    def pair(inputs, values=False):
        items = [make_item(int(RNG.integers(2, 14)), role, inputs, values) for role in (1, 2)]
        return items if RNG.random() < 0.5 else items[::-1]

    for name, loss in DPO.items():
        own = dict(beta=0.1, length_normalised=1 if name == "dpo_ipo" else 0, sft_coef=0)
        if name in ("dpo_robust", "dpo_conservative"):
            own["label_smoothing"] = 0.1
        for settings in ({}, {"beta": 0.7}, {"length_normalised": 1 - own["length_normalised"]}, {"sft_coef": 0.4, "beta": 0.3}):
            s = {**own, **settings}
            for _ in range(3):
                yield run(name, settings, pair(("ref_logprobs",)), lambda items: dpo_like(items, s, loss))
    for settings in ({}, {"beta": 0.5, "desirable_weight": 1.33, "undesirable_weight": 0.75}):
        s = {**dict(beta=0.1, desirable_weight=1, undesirable_weight=1), **settings}
        for roles in ((1, 2, 3), (1, 1, 2, 3, 3, 3), (2, 3)):
            items = [make_item(int(RNG.integers(2, 14)), role, ("ref_logprobs",)) for role in roles]
            yield run("kto", settings, items, lambda items: kto(items, s))
    for name, loss, own, plans in (("orpo", orpo, dict(beta=0.1), ({}, {"beta": 1.5})),
                                   ("simpo", simpo, dict(beta=2, gamma=1, sft_coef=0), ({}, {"beta": 0.6, "gamma": 0.2, "sft_coef": 0.3})),
                                   ("cpo", cpo, dict(beta=0.1, sft_coef=1), ({}, {"beta": 0.4, "sft_coef": 0}))):
        for settings in plans:
            s = {**own, **settings}
            for _ in range(3):
                yield run(name, settings, pair(()), lambda items: loss(items, s))
    for settings, inputs in (({}, ()), ({"margin": 0.5, "centring": 0.01}, ()), ({"margin": 0.25}, ("margin",))):
        s = {**dict(margin=0, centring=0), **settings}
        yield run("reward_pair", settings, pair(inputs, True), lambda items: reward_pair(items, s))


# ---- losses over candidates: one datum, draws of their own so that the cases before keep theirs

def run_candidates(rng, name, settings, n, k, token_loss):
    item = {"role": 0, "weights": f32(rng.choice([1.0, 0.5, 0.0], n)), "candidates": rng.permuted(np.tile(np.arange(k + 5), (n, 1)), axis=1)[:, :k]}
    item["weights"][-1] = 1
    item["candidates"][rng.random((n, k)) < 0.1] = -1
    item["candidates"][:, 0] = np.abs(item["candidates"][:, 0])
    there = tensor(item["candidates"] >= 0)
    law = rng.dirichlet(np.ones(k + 5), n)[:, :k]
    item["candidate_weights"] = f32(np.where(item["candidates"] >= 0, rng.dirichlet(np.ones(k), n), 0))
    seen = f32(np.where((item["candidates"] >= 0) & (item["weights"] != 0)[:, None], np.log(law), 0))
    lp = tensor(seen).requires_grad_(True)
    w = tensor(item["weights"])
    total = sum(w[t] * token_loss(lp[t][there[t] > 0], tensor(item["candidate_weights"])[t][there[t] > 0]) for t in range(n) if w[t] != 0)
    total.backward()
    return {"loss": name, "settings": settings, "total": total.item(), "by_logprob": [[0.0] * n], "by_value": [[]],
            "by_candidate": [lp.grad.flatten().tolist()],
            "items": [{"role": 0, "weights": item["weights"].tolist(), "logprobs": [0.0] * n, "inputs": {},
                       "candidates": item["candidates"].flatten().tolist(), "candidate_weights": item["candidate_weights"].flatten().tolist(),
                       "candidate_logprobs": seen.flatten().tolist()}]}


def distill(s):
    def loss(lp, teacher):
        t = s["temperature"]
        log_q = F.log_softmax(lp / t, 0)
        log_p = F.log_softmax(teacher.log() / t, 0)
        p, q = log_p.exp(), log_q.exp()
        if s["divergence"] == 0:
            return t * t * F.kl_div(log_q, log_p, reduction="sum", log_target=True)
        if s["divergence"] == 1:
            return t * t * F.kl_div(log_p, log_q, reduction="sum", log_target=True)
        b = s["jsd_beta"]
        log_m = (b * p + (1 - b) * q).log()
        return t * t * (b * F.kl_div(log_m, log_p, reduction="sum", log_target=True) + (1 - b) * F.kl_div(log_m, log_q, reduction="sum", log_target=True))
    return loss


def candidate_cases():
    rng = np.random.default_rng(17)
    for n, k in ((1, 1), (5, 3), (9, 16)):
        yield run_candidates(rng, "soft_cross_entropy", {}, n, k, lambda lp, p: -(p * lp).sum())
        yield run_candidates(rng, "entropy", {}, n, k, lambda lp, p: (lp.exp() * lp).sum())
        for settings in ({}, {"temperature": 2.0}, {"divergence": 1}, {"divergence": 1, "temperature": 0.5}, {"divergence": 2},
                         {"divergence": 2, "jsd_beta": 0.1, "temperature": 1.5}):
            s = {**dict(divergence=0, temperature=1.0, jsd_beta=0.5), **settings}
            yield run_candidates(rng, "distill", settings, n, k, distill(s))


def advantage_cases():
    rewards = tensor(f32(np.concatenate([RNG.choice([0, 0.1, 1], 8), RNG.normal(0, 1, 5), [0.3] * 4, RNG.normal(2, 3, 2)])))
    groups = [4] * 8 + [7] * 5 + [1] * 4 + [9] * 2
    order = RNG.permutation(len(groups))
    rewards, groups = rewards[order], torch.tensor(groups)[order]
    eps = 1e-4
    for kind in ("raw", "grpo", "grpo_no_std", "rloo", "reinforce_pp", "reinforce_pp_baseline"):
        out = rewards.clone()
        for g in groups.unique():
            r = rewards[groups == g]
            same = bool((r == r[0]).all())
            centred = torch.zeros_like(r) if same else r - r.mean()
            out[groups == g] = {"raw": r, "reinforce_pp": r, "grpo": centred / (r.std() + eps), "grpo_no_std": centred, "reinforce_pp_baseline": centred,
                                "rloo": r - torch.stack([torch.cat([r[:i], r[i + 1:]]).mean() for i in range(len(r))])}[kind]
        if kind.startswith("reinforce"):
            out = (out - out.mean()) / (out.std() + eps)
        yield {"kind": kind, "eps": eps, "rewards": rewards.tolist(), "groups": groups.tolist(), "advantages": out.tolist()}


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    os.makedirs(os.path.join(folder, "losses"), exist_ok=True)
    golden = {"versions": {"command": "python make_losses.py", "python": sys.version.split()[0], "torch": torch.__version__, "numpy": np.__version__},
              "cases": list(policy_cases()) + list(preference_cases()) + list(candidate_cases()), "advantages": list(advantage_cases())}
    import json
    lines = []
    for key in ("cases", "advantages"):
        lines.append(f' "{key}": [\n' + ",\n".join("  " + json.dumps(c) for c in golden[key]) + "\n ]")
    with open(os.path.join(folder, "losses", "golden.json"), "w", encoding="utf-8", newline="\n") as f:
        f.write('{\n "versions": ' + json.dumps(golden["versions"]) + ",\n" + ",\n".join(lines) + "\n}\n")
    print(len(golden["cases"]), "cases")


if __name__ == "__main__":
    main()
