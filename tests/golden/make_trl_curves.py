#!/usr/bin/env python3
"""50 steps of TRL's DPOTrainer and SFTTrainer on tiny/llama_tied in f32, all weights, with torch's AdamW.

  python make_trl_curves.py [GOLDEN_DIR]        (default: this script's folder)

trl/golden.json   versions, settings, and per run (dpo, sft, dpo_ipo): rows[{tokens mask}] of every sequence that was seen, batches[step][row], losses[step]
                  (f32, as compute_loss gave them) and, of dpo, margins[step]: the step's mean reward margin

A batch of dpo holds a row's chosen and rejected sequence next to each other. mask: 1 where the token is learned (the completion and its end token).
The losses are means: over pairs (dpo) or over the batch's completion tokens (sft). The order of rows is the trainer's own; it is read off the batches.
"""
import json, os, random, sys, tempfile

import torch
import transformers
import trl
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, BATCH = 50, 4
LR = {"dpo": 5e-5, "dpo_ipo": 5e-5, "sft": 3e-4}
MODEL = os.path.join(HERE, "tiny", "llama_tied")


def make_rows(n=32):
    r = random.Random(7)
    rows = []
    for _ in range(n):
        a, b = r.randrange(50), r.randrange(50)
        rows.append({"prompt": f"{a} + {b} = ", "chosen": str(a + b), "rejected": f"about {a * b} or so"})
    return rows


def arguments(kind, folder, lr, **more):
    return kind(output_dir=folder, per_device_train_batch_size=BATCH, max_steps=STEPS, learning_rate=lr, lr_scheduler_type="constant",
                warmup_steps=0, weight_decay=0.0, adam_beta1=0.9, adam_beta2=0.999, adam_epsilon=1e-8, max_grad_norm=1.0, logging_steps=1, report_to=[],
                seed=3, bf16=False, fp16=False, use_cpu=True, gradient_checkpointing=False, save_strategy="no", disable_tqdm=True, max_length=64,
                remove_unused_columns=True, **more)


class Record:
    """Mixed into a trainer: what compute_loss sees and gives."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        ids, learned, attend = inputs["input_ids"], self.learned(inputs), inputs["attention_mask"]
        self.seen.append([(i[a != 0].tolist(), m[a != 0].long().tolist()) for i, m, a in zip(ids, learned, attend)])
        out = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        self.losses.append(float((out[0] if return_outputs else out).detach().double()))
        return out


class Dpo(Record, trl.DPOTrainer):
    def learned(self, inputs):
        return inputs["completion_mask"]


class Sft(Record, trl.SFTTrainer):
    def learned(self, inputs):
        return inputs["labels"] != -100


def record(cls, args, rows, reference=False):
    torch.manual_seed(3)
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    load = lambda: AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    more = {"ref_model": load()} if reference else {}
    trainer = cls(model=load(), args=args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer, **more)
    trainer.seen, trainer.losses = [], []
    trainer.train()
    table, batches = [], []
    for batch in trainer.seen:
        if reference:  # the first half is chosen
            half = len(batch) // 2
            batch = [s for pair in zip(batch[:half], batch[half:]) for s in pair]
        places = []
        for tokens, mask in batch:
            row = {"tokens": tokens, "mask": mask}
            if row not in table:
                table.append(row)
            places.append(table.index(row))
        batches.append(places)
    out = {"rows": table, "batches": batches, "losses": trainer.losses}
    if reference:
        out["margins"] = [l["rewards/margins"] for l in trainer.state.log_history if "rewards/margins" in l]
    return out


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else HERE
    rows = make_rows()
    sft_rows = [{"prompt": r["prompt"], "completion": r["chosen"]} for r in rows]
    torch.set_num_threads(1)
    golden = {"versions": {"command": "python make_trl_curves.py", "python": sys.version.split()[0], "torch": torch.__version__, "trl": trl.__version__,
                           "transformers": transformers.__version__},
              "settings": {"lr": LR, "beta": 0.1, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0, "max_grad_norm": 1.0}}
    with tempfile.TemporaryDirectory() as tmp:
        golden["dpo"] = record(Dpo, arguments(trl.DPOConfig, tmp, LR["dpo"], beta=0.1), rows, True)
        golden["dpo_ipo"] = record(Dpo, arguments(trl.DPOConfig, tmp, LR["dpo_ipo"], beta=0.1, loss_type=["ipo"]), rows, True)
        golden["sft"] = record(Sft, arguments(trl.SFTConfig, tmp, LR["sft"], completion_only_loss=True, packing=False), sft_rows)
    os.makedirs(os.path.join(folder, "trl"), exist_ok=True)
    with open(os.path.join(folder, "trl", "golden.json"), "w", encoding="utf-8", newline="\n") as f:
        parts = [f' "{k}": ' + json.dumps(v) for k, v in golden.items()]
        f.write("{\n" + ",\n".join(parts) + "\n}\n")
    for run in ("dpo", "dpo_ipo", "sft"):
        print(run, golden[run]["losses"][:3], golden[run]["losses"][-1], golden[run].get("margins", [])[-1:])


if __name__ == "__main__":
    main()
