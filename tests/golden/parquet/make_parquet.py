#!/usr/bin/env python3
"""Writes the Parquet files that tests read, and the same rows as JSONL, with pyarrow as the independent writer.

  python make_parquet.py        (files beside this script; versions.json says with which pyarrow)
"""
import json, pathlib, sys
import pyarrow as pa, pyarrow.parquet as pq

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = [{"tokens": [(11 * t + i) % 200 for t in range(8 + i % 5)], "mask": [t % 2 for t in range(8 + i % 5)]} for i in range(40)]
CHAT = [
    {"messages": [{"role": "user", "content": f"What is {i} + {i}?"}, {"role": "assistant", "content": str(2 * i)}]} for i in range(7)
] + [{"messages": [{"role": "system", "content": "Grüße, \"quoted\"\n\tand 日本"}, {"role": "user", "content": ""},
                   {"role": "assistant", "content": "\u0001\\ \U0001F600"}]}]
TEXT = [{"text": f"Document {i} says " + " ".join(f"w{(i * 131 + w * w * 7) % 997}" for w in range(30))} for i in range(300)]
MIXED = [{"question": "q0", "number": 1, "ratio": 0.1, "flag": True, "tags": ["a", None, "b"], "empty": []},
         {"question": None, "number": None, "ratio": 1e300, "flag": False, "tags": None, "empty": []},
         {"question": "q2", "number": -(1 << 62), "ratio": -0.5, "flag": None, "tags": [], "empty": [5]}]


def jsonl(rows):
    def without_nulls(value):
        if isinstance(value, dict):
            return {k: without_nulls(v) for k, v in value.items() if v is not None}
        if isinstance(value, list):
            return [without_nulls(v) for v in value]
        return value
    return "".join(json.dumps(without_nulls(r), ensure_ascii=False, separators=(",", ":")) + "\n" for r in rows)


def write(name, rows, **options):
    pq.write_table(pa.Table.from_pylist(rows), HERE / f"{name}.parquet", **options)
    (HERE / f"{name}.jsonl").write_text(jsonl(rows), encoding="utf-8")


def main():
    write("tokens_zstd", TOKENS, compression="zstd", row_group_size=7)
    write("chat_snappy", CHAT, compression="snappy", row_group_size=3)
    write("text_gzip", TEXT, compression="gzip", row_group_size=64, data_page_size=2048)
    write("mixed_plain", MIXED, compression="none")
    wide = [dict(row, embedding=[0.5] * 4, id=i) for i, row in enumerate(TOKENS)]
    pq.write_table(pa.Table.from_pylist(wide), HERE / "tokens_wide.parquet", compression="lz4", data_page_version="2.0")
    pq.write_table(pa.Table.from_pylist([{"text": "a"}, {"text": None}, {"text": "c"}]), HERE / "text_null.parquet")
    pq.write_table(pa.table({"text": ["x"], "ratio": [float("nan")]}), HERE / "nan.parquet")
    pq.write_table(pa.table({"text": ["x"] * 50}), HERE / "brotli.parquet", compression="brotli")
    (HERE / "versions.json").write_text(json.dumps({"pyarrow": pa.__version__, "python": sys.version.split()[0]}) + "\n")


if __name__ == "__main__":
    main()
