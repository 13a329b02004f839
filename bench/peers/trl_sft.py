#!/usr/bin/env python3
"""Peer for chat rows of many lengths: TRL's SFTTrainer on the CPU, padded to the longest row of each batch. One JSON line per run.

  python trl_sft.py MODEL_FOLDER ROWS.jsonl [--lora] [--prec f32|amp] [-B 8] [--rows 128] [--threads 2] [--group]

Rows are {"text": ...}; every token is a target. real_tok_s counts tokens that are not padding over the time of the training steps alone (from a
step's begin to its end: no model loading, no tokenizing before, no logging), the trainer's best case. --group: rows of like length share a batch.
"""
import argparse, json, os, resource, statistics, time

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("rows")
    p.add_argument("--lora", action="store_true")
    p.add_argument("--prec", choices=["f32", "amp"], default="amp")
    p.add_argument("-B", type=int, default=8)
    p.add_argument("--rows", dest="count", type=int, default=128)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--group", action="store_true")
    a = p.parse_args()
    import torch, trl
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    torch.set_num_threads(a.threads)
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    with open(a.rows, encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file][:a.count]
    adapter = None
    if a.lora:
        from peft import LoraConfig
        adapter = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, task_type="CAUSAL_LM",
                             target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
    config = trl.SFTConfig(output_dir="trl_out", per_device_train_batch_size=a.B, num_train_epochs=1, max_length=640, learning_rate=1e-5,
                           bf16=a.prec == "amp", use_cpu=True, save_strategy="no", report_to=[], gradient_checkpointing=False, disable_tqdm=True,
                           dataset_text_field="text", optim="adamw_torch_fused", logging_steps=1000, seed=0,
                           **({"train_sampling_strategy": "group_by_length"} if a.group else {}))
    begins, seconds = [], []

    class Clock(TrainerCallback):
        def on_step_begin(self, *_, **__):
            begins.append(time.perf_counter())

        def on_step_end(self, *_, **__):
            seconds.append(time.perf_counter() - begins[-1])

    trainer = trl.SFTTrainer(model=model, args=config, train_dataset=Dataset.from_list([{"text": t} for t in texts]), processing_class=tokenizer,
                             peft_config=adapter, callbacks=[Clock()])
    real, padded, step = [], [], trainer.training_step

    def counting(model, inputs, *rest, **named):
        mask = inputs.get("attention_mask")
        padded.append(inputs["input_ids"].numel())
        real.append(int(mask.sum()) if mask is not None else padded[-1])
        return step(model, inputs, *rest, **named)

    trainer.training_step = counting
    trainer.train()
    warm = 1
    print(json.dumps(dict(peer="trl " + trl.__version__, mode="lora" if a.lora else "full", prec=a.prec, B=a.B, rows=len(texts), steps=len(real),
                          real_tokens=sum(real), padding=round(1 - sum(real) / sum(padded), 3), step_s=round(statistics.median(seconds[warm:]), 3),
                          real_tok_s=round(sum(real[warm:]) / sum(seconds[warm:]), 1), peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                          preload=os.path.basename(os.environ.get("LD_PRELOAD", "")))), flush=True)


if __name__ == "__main__":
    main()
