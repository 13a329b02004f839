#!/usr/bin/env python3
"""Outcomes of smollm2/eval_tasks.jsonl by transformers in f32, by lm-evaluation-harness's definitions.

  python make_eval.py SMOLLM2_FOLDER        (writes smollm2/eval_golden.json beside this script)

A text is scored behind the bos token; a choice behind its query, tokens split as in the harness (`_encode_pair`: blanks at the query's end
go to the choice, the choice's tokens are those of the whole text behind as many as the query alone has); a generation is greedy.
"""
import json, os, sys

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False)

    def loglikelihood(tokens, first):
        with torch.no_grad():
            logprobs = model(torch.tensor([tokens])).logits[0].double().log_softmax(-1)
        return sum(logprobs[i - 1, tokens[i]].item() for i in range(first, len(tokens)))

    rows = []
    for line in open(os.path.join(HERE, "smollm2/eval_tasks.jsonl"), encoding="utf-8"):
        row = json.loads(line)
        if "text" in row:
            tokens = [tokenizer.bos_token_id] + encode(row["text"])
            rows.append({"loglikelihood": loglikelihood(tokens, 1), "tokens": len(tokens) - 1, "bytes": len(row["text"].encode())})
        elif "choices" in row:
            values = []
            for choice in row["choices"]:
                query, behind = row["query"], row.get("delimiter", " ") + choice
                blanks = len(query) - len(query.rstrip())
                if blanks:
                    query, behind = query[:-blanks], query[-blanks:] + behind
                values.append(loglikelihood(encode(query + behind), len(encode(query))))
            per_character = [v / len(c) for v, c in zip(values, row["choices"])]
            best = lambda xs: max(range(len(xs)), key=lambda i: xs[i])
            rows.append({"loglikelihoods": values, "choice": best(values), "choice_norm": best(per_character)})
        else:
            prompt = torch.tensor([encode(row["query"])])
            out = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=row["max_tokens"], do_sample=False)
            text = tokenizer.decode(out[0, prompt.shape[1]:], skip_special_tokens=True)
            for stop in row["until"]:
                text = text.split(stop)[0]
            rows.append({"text": text, "exact_match": text.strip() == row["target"].strip()})
    golden = {"versions": {"torch": torch.__version__, "transformers": transformers.__version__}, "rows": rows}
    with open(os.path.join(HERE, "smollm2/eval_golden.json"), "w") as f:
        json.dump(golden, f, indent=1)
        f.write("\n")
    for row in rows:
        print(row)


main()
