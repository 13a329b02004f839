#!/usr/bin/env python3
"""Peer for preference training: TRL's DPOTrainer on the CPU, one JSON line per run.

  python trl_dpo.py MODEL_FOLDER PAIRS.jsonl [--lora] [--prec f32|amp] [-B 8] [--steps 4] [--threads 2]

PAIRS: rows {"prompt", "chosen", "rejected"} of plain text. The reference is the base under the adapter (--lora) or a frozen copy. step_s is the
time of a training step alone (from its begin to its end, no loading and no tokenizing), the median of all but the first.
"""
import argparse, json, os, resource, statistics, time

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("pairs")
    p.add_argument("--lora", action="store_true")
    p.add_argument("--prec", choices=["f32", "amp"], default="amp")
    p.add_argument("-B", type=int, default=8)
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    import torch, trl
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    torch.set_num_threads(a.threads)
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    with open(a.pairs, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][:a.B * (a.steps + 1)]
    adapter = None
    if a.lora:
        from peft import LoraConfig
        adapter = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, task_type="CAUSAL_LM",
                             target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
    config = trl.DPOConfig(output_dir="trl_out", per_device_train_batch_size=a.B, max_steps=a.steps, learning_rate=1e-5, beta=0.1,
                           bf16=a.prec == "amp", use_cpu=True, save_strategy="no", report_to=[], gradient_checkpointing=False,
                           disable_tqdm=True, optim="adamw_torch_fused", logging_steps=1, seed=0)
    begins, seconds = [], []

    class Clock(TrainerCallback):
        def on_step_begin(self, *_, **__):
            begins.append(time.perf_counter())

        def on_step_end(self, *_, **__):
            seconds.append(time.perf_counter() - begins[-1])

    trainer = trl.DPOTrainer(model=model, args=config, train_dataset=Dataset.from_list(rows), processing_class=tokenizer, peft_config=adapter,
                             callbacks=[Clock()])
    trainer.train()
    first = next(entry["loss"] for entry in trainer.state.log_history if "loss" in entry)
    print(json.dumps(dict(peer="trl " + trl.__version__, lora=a.lora, prec=a.prec, batch=a.B, step_s=round(statistics.median(seconds[1:]), 3),
                          steps_s=[round(s, 3) for s in seconds], first_loss=first,
                          peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)))


if __name__ == "__main__":
    main()
