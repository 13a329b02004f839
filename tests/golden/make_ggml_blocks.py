#!/usr/bin/env python3
"""Blocks of GGUF weight types and the values that ggml gives them.

  python make_ggml_blocks.py LIBGGML_BASE.so [OUT_DIR]        (default: ggml_blocks/ beside this script)

blocks.safetensors, for every TYPE: TYPE.blocks u8 [rows, bytes of a row] and TYPE.values f32 [rows, 512], the values the `gguf` package
dequantises the blocks to. Rows 0 and 1 are `source` (f32 [2, 512], of several magnitudes) quantised by ggml's own ggml_quantize_chunk; row 2
holds random bytes, so that every code, sub-scale and high bit occurs, under halves of moderate size. ggml's C functions give the
same bits; the script checks that.
"""
import ctypes, json, os, sys

import gguf
import numpy as np
from safetensors.numpy import save_file

COLUMNS = 512
# name: places of the halves in a block, in bytes
TYPES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def c_quantise(lib, type_id, rows, row_bytes):
    out = np.zeros((len(rows), row_bytes), np.uint8)
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    size = lib.ggml_quantize_chunk(type_id, rows.ctypes.data, out.ctypes.data, 0, len(rows), COLUMNS, None)
    assert size == out.size, (size, out.size)
    return out


def c_dequantise(lib, name, blocks, rows):
    function = getattr(lib, "dequantize_row_q" + name[1:])
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    function.restype = None
    out = np.zeros((rows, COLUMNS), np.float32)
    function(blocks.ctypes.data, out.ctypes.data, rows * COLUMNS)
    return out


def random_row(rng, row_bytes, block_bytes, halves):
    row = rng.integers(0, 256, row_bytes, np.uint8)
    for block in range(0, row_bytes, block_bytes):
        for place in halves:
            half = np.float16(rng.uniform(0.01, 0.3) * rng.choice([-1, 1]))
            row[block + place:block + place + 2] = np.frombuffer(half.tobytes(), np.uint8)
    return row


def main():
    lib = ctypes.CDLL(sys.argv[1])
    here = os.path.dirname(os.path.abspath(__file__))
    out_dir = sys.argv[2] if len(sys.argv) > 2 else os.path.join(here, "ggml_blocks")
    rng = np.random.default_rng(20261201)
    source = rng.standard_normal((2, COLUMNS)).astype(np.float32)
    source[0] *= np.repeat(np.float32([0.02, 1.0, 0.3, 5.0]), COLUMNS // 4)
    source[1] += np.float32(0.5)
    source[1, :32] = 0  # a block of zeros
    tensors = {"source": source}
    for name, halves in TYPES.items():
        kind = gguf.GGMLQuantizationType[name]
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        row_bytes = COLUMNS // block * block_bytes
        blocks = np.concatenate([c_quantise(lib, int(kind), source, row_bytes), random_row(rng, row_bytes, block_bytes, halves)[None]])
        values = gguf.quants.dequantize(blocks, kind).astype(np.float32)
        assert (values.view(np.uint32) == c_dequantise(lib, name, np.ascontiguousarray(blocks), 3).view(np.uint32)).all(), name
        tensors[name + ".blocks"], tensors[name + ".values"] = blocks, values
        print(name, blocks.shape, "rms error of rows 0, 1:", np.sqrt(((values[:2] - source) ** 2).mean(1)))
    versions = {"gguf": __import__("importlib.metadata").metadata.version("gguf"), "numpy": np.__version__, "ggml": "0.26.0"}
    os.makedirs(out_dir, exist_ok=True)
    save_file(tensors, os.path.join(out_dir, "blocks.safetensors"), metadata={"versions": json.dumps(versions)})


main()
