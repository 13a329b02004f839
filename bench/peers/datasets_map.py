#!/usr/bin/env python3
"""Peer for `data build`: Hugging Face datasets' map with a fast tokenizer, from rows of JSON to tokens on disk. One JSON line.

  python datasets_map.py TOKENIZER_FOLDER rows.jsonl [--procs 2] [--batch 1000]

Documents/s count the map alone, which writes its Arrow files itself: imports and the loading of rows are left out. The tokenizer makes ids
and nothing else, in processes of its own, each with one thread.
"""
import argparse, json, os, tempfile, time

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tokenizer")
    p.add_argument("rows")
    p.add_argument("--procs", type=int, default=2)
    p.add_argument("--batch", type=int, default=1000)
    a = p.parse_args()
    import datasets, transformers
    tokenizer = transformers.AutoTokenizer.from_pretrained(a.tokenizer)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(a.rows))) as folder:
        rows = datasets.load_dataset("json", data_files=a.rows, split="train", cache_dir=folder)

        def encode(batch):
            ids = tokenizer(batch["text"], add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False)["input_ids"]
            return {"input_ids": ids}

        started = time.perf_counter()
        made = rows.map(encode, batched=True, batch_size=a.batch, num_proc=a.procs, remove_columns=rows.column_names,
                        cache_file_name=os.path.join(folder, "tokens.arrow"), load_from_cache_file=False)
        seconds = time.perf_counter() - started
        tokens = len(made.with_format("arrow")[:]["input_ids"].combine_chunks().flatten())
    print(json.dumps(dict(peer="datasets " + datasets.__version__, procs=a.procs, batch=a.batch, documents=len(rows), tokens=tokens,
                          docs_s=round(len(rows) / seconds, 1), load=round(os.getloadavg()[0], 1))))


if __name__ == "__main__":
    main()
