#!/usr/bin/env python3
"""Peer for reinforcement learning: TRL's GRPOTrainer on the CPU, 8 prompts of 8 samples a step. One JSON line per run.

  python trl_grpo.py MODEL_FOLDER [--lora] [--prec f32|amp] [--prompts 8] [--group 8] [--new 32] [--steps 3] [--threads 2]

The task is that of recipes/rl_jsonmax.toml: the largest of four numbers as JSON, with one answered example in the prompt. step_s is the time from
the end of a step to the end of the next, generation and rewards in it, without the first step: no loading, no warm-up. generate_s is what the
trainer spends in its own generation.
"""
import argparse, json, os, random, resource, statistics, time

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def task(numbers):
    return "Which number is the largest: " + ", ".join(map(str, numbers)) + "?"


def score(text, numbers):
    try:
        answer = json.loads(text.strip())
    except ValueError:
        return 0.0
    if not isinstance(answer, dict) or set(answer) != {"answer"}:
        return 0.0
    return 1.0 if answer["answer"] == max(numbers) else 0.1


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("--lora", action="store_true")
    p.add_argument("--prec", choices=["f32", "amp"], default="amp")
    p.add_argument("--prompts", type=int, default=8)
    p.add_argument("--group", type=int, default=8)
    p.add_argument("--new", type=int, default=32)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    import torch, trl
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    torch.set_num_threads(a.threads)
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    draw = random.Random(0)
    rows = []
    for _ in range(a.prompts * (a.steps + 2)):
        numbers = draw.sample(range(10, 100), 4)
        rows.append({"numbers": numbers, "prompt": [
            {"role": "system", "content": "Answer in JSON."},
            {"role": "user", "content": task([17, 52, 31, 28])}, {"role": "assistant", "content": '{"answer": 52}'},
            {"role": "user", "content": task(numbers)}]})
    adapter = None
    if a.lora:
        from peft import LoraConfig
        adapter = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, task_type="CAUSAL_LM",
                             target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
    batch = a.prompts * a.group
    config = trl.GRPOConfig(output_dir="trl_out", per_device_train_batch_size=batch, num_generations=a.group, max_completion_length=a.new,
                            max_steps=a.steps, learning_rate=4e-4 if a.lora else 1e-6, beta=0.0, num_iterations=1, bf16=a.prec == "amp",
                            use_cpu=True, save_strategy="no", report_to=[], gradient_checkpointing=False, disable_tqdm=True,
                            optim="adamw_torch_fused", logging_steps=1000, seed=0)
    ends, generated = [], []

    class Clock(TrainerCallback):
        def on_step_end(self, *_, **__):
            ends.append(time.perf_counter())

    def rewards(completions, numbers, **_):
        return [score(c[0]["content"], n) for c, n in zip(completions, numbers)]

    trainer = trl.GRPOTrainer(model=model, args=config, train_dataset=Dataset.from_list(rows), processing_class=tokenizer, reward_funcs=rewards,
                              peft_config=adapter, callbacks=[Clock()])
    plain = type(model).generate

    def timed(self, *args, **kwargs):
        begin = time.perf_counter()
        out = plain(self, *args, **kwargs)
        generated.append(time.perf_counter() - begin)
        return out
    type(model).generate = timed
    trainer.train()
    steps = [b - a for a, b in zip(ends, ends[1:])]
    print(json.dumps(dict(peer="trl " + trl.__version__, lora=a.lora, prec=a.prec, prompts=a.prompts, group=a.group, new=a.new,
                          step_s=round(statistics.median(steps), 3), steps_s=[round(s, 3) for s in steps],
                          generate_s=round(statistics.median(generated[1:]), 3) if len(generated) > 1 else None,
                          peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)))


if __name__ == "__main__":
    main()
